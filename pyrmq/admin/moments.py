"""Times as people write them."""

from __future__ import annotations

import re
from datetime import datetime

from pyrmq.errors import ConfigError
from pyrmq.net.clock import now_ms

FORMS = (
    "now, how long ago (90s, 30m, 2h, 1d), ISO text such as 2026-01-31T12:00 (local without a "
    "zone), milliseconds since 1970, or YYYY-MM-DD#HH:MM:SS:mmm"
)
_AGO = re.compile(r"([0-9]{1,6})([smhd])", re.ASCII)
_UNITS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def time_of(text: str, now: int | None = None) -> int:
    """A time as ms since 1970; `now`: what the present is. Raises ConfigError if the text has none
    of FORMS, or is a date before 1970."""
    at = now_ms() if now is None else now
    if text == "now":
        return at
    if ago := _AGO.fullmatch(text):
        return max(at - int(ago[1]) * _UNITS[ago[2]], 0)
    if text.isascii() and text.isdecimal() and 11 < len(text) < 15:
        return int(text)
    try:
        found = _date(text)
    except (ValueError, OverflowError, OSError):
        raise ConfigError(f"{text[:64]!r} is no time: write {FORMS}") from None
    if found < 0:
        raise ConfigError(f"{text[:64]!r} is before 1970")
    return found


def _date(text: str) -> int:
    if "#" in text:
        head, _, millis = text.rpartition(":")
        moment = datetime.strptime(head, "%Y-%m-%d#%H:%M:%S")
        return int(moment.timestamp()) * 1000 + int(millis)
    return int(datetime.fromisoformat(text).timestamp() * 1000)
