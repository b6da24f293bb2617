"""What the address of a page or a form asks for: texts, numbers and times, checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pyrmq.admin.moments import time_of
from pyrmq.errors import ClientError, ConfigError

LONGEST = 512
"""Characters of a value, unless a field says otherwise."""
ATTRIBUTES = 8192
"""Of the attributes of a topic or a group."""
HIGHEST = 10**18


def text(values: Mapping[str, Any], name: str, longest: int = LONGEST) -> str:
    """A text without blanks around it; empty if it is not there. ClientError if it is too long."""
    found = str(values.get(name, "")).strip()
    if len(found) > longest:
        raise ClientError(f"{name} has more than {longest} characters")
    return found


def needed(values: Mapping[str, Any], name: str) -> str:
    """As `text`. ClientError if it is empty."""
    found = text(values, name)
    if not found:
        raise ClientError(f"say {name}")
    return found


def number(values: Mapping[str, Any], name: str, least: int = 0, most: int = HIGHEST) -> int | None:
    """A whole number; None if it is not there. ClientError for anything else, and for one that is
    not between `least` and `most`."""
    found = text(values, name)
    if not found:
        return None
    whole = found.isascii() and found.isdecimal() and len(found) < 19
    if not (whole and least <= int(found) <= most):
        shown = name.replace("_", " ")
        span = f"from {least} on" if most == HIGHEST else f"from {least} to {most}"
        raise ClientError(f"{shown} must be a number {span}, not {found[:32]!r}")
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


def choices(names: Iterable[str]) -> list[tuple[str, str]]:
    """Names as the choices of a field."""
    return [(name, name) for name in names]
