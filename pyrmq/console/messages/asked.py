"""What the address of a page or a form asks for: texts, numbers and times, checked."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pyrmq.errors import ClientError

LONGEST = 512
"""Characters of a value."""
TIMES = "30m, 2h or 1d ago, 2026-01-31 12:00, or milliseconds since 1970"
_AGO = re.compile(r"([0-9]{1,6})([smhd])", re.ASCII)
_UNITS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_LATEST = 1 << 53


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
    """A time in ms since 1970, of one of the forms in TIMES; None if it is not there. A time
    without a zone is of the console's zone. ClientError."""
    found = text(values, name)
    if not found:
        return None
    at = time.time_ns() // 1_000_000 if now is None else now
    if found == "now":
        return at
    if ago := _AGO.fullmatch(found):
        return max(at - int(ago[1]) * _UNITS[ago[2]], 0)
    if found.isascii() and found.isdecimal() and 11 < len(found) < 15:
        return int(found)
    try:
        parsed = int(datetime.fromisoformat(found).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        raise ClientError(f"{name}: {found[:40]!r} is no time: say {TIMES}") from None
    return max(parsed, 0)
