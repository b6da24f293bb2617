"""Times on command lines of `pyrmq admin`, and how its tables show them."""

from __future__ import annotations

import time
from datetime import datetime

import click

FORMS = (
    "now, ISO text such as 2026-01-31T12:00 (local without a zone), milliseconds since 1970, or "
    "YYYY-MM-DD#HH:MM:SS:mmm"
)


def time_of(option: str, text: str | None) -> int | None:
    """A time as ms since 1970, None for none. click.BadParameter."""
    if text is None:
        return None
    if text == "now":
        return time.time_ns() // 1_000_000
    if text.isascii() and text.isdecimal() and 11 < len(text) < 15:
        return int(text)
    try:
        if "#" in text:
            head, _, millis = text.rpartition(":")
            moment = datetime.strptime(head, "%Y-%m-%d#%H:%M:%S")
            return int(moment.timestamp()) * 1000 + int(millis)
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise click.BadParameter(f"{text!r} is no time: {FORMS}", param_hint=option) from None
