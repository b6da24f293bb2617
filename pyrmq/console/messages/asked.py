"""What the address of a page or a form asks for: texts, numbers and times, checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyrmq.admin.moments import time_of
from pyrmq.errors import ClientError, ConfigError

LONGEST = 512
"""Characters of a value."""


def text(values: Mapping[str, Any], name: str) -> str:
    """A text without blanks around it; empty if it is not there. ClientError if it is too long."""
    found = str(values.get(name, "")).strip()
    if len(found) > LONGEST:
        raise ClientError(f"{name} has more than {LONGEST} characters")
    return found


def needed(values: Mapping[str, Any], name: str) -> str:
    """As `text`. ClientError if it is empty."""
    found = text(values, name)
    if not found:
        raise ClientError(f"say {name}")
    return found


def number(values: Mapping[str, Any], name: str) -> int | None:
    """A whole number from 0 on; None if it is not there. ClientError for anything else."""
    found = text(values, name)
    if not found:
        return None
    if not (found.isascii() and found.isdecimal() and len(found) < 19):
        raise ClientError(f"{name} is a whole number from 0 on, not {found[:32]!r}")
    return int(found)


def moment(values: Mapping[str, Any], name: str, *, now: int | None = None) -> int | None:
    """A time in ms since 1970, as `pyrmq admin` takes it; None if it is not there. ClientError."""
    found = text(values, name)
    if not found:
        return None
    try:
        return time_of(found, now)
    except ConfigError as e:
        raise ClientError(f"{name}: {e}") from None
