"""A finding: what a check saw, why it matters, what to change."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Level(Enum):
    OK = "ok"
    NOTE = "note"
    """It could not be checked, or is worth to know."""
    WARNING = "warning"
    """It works, but worse than it could, or not for long."""
    ERROR = "error"
    """It does not work, or loses messages."""


@dataclass(frozen=True, slots=True)
class Finding:
    """`what` was seen, `why` it matters, and what to `change`: a command where there is one."""

    level: Level
    what: str
    why: str = ""
    change: str = ""


def ok(what: str) -> Finding:
    return Finding(Level.OK, what)


def note(what: str, why: str = "", change: str = "") -> Finding:
    return Finding(Level.NOTE, what, why, change)


def warning(what: str, why: str, change: str) -> Finding:
    return Finding(Level.WARNING, what, why, change)


def error(what: str, why: str, change: str) -> Finding:
    return Finding(Level.ERROR, what, why, change)
