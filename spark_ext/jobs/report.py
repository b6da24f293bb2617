"""Summaries for people: tables of text."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from pyrmq.escape import escape

MAX_CELL = 60
"""Longest text of a cell, characters; the middle of a longer one is left out."""
_SECONDS = ((86400, "d"), (3600, "h"), (60, "min"))


def lines(titles: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table with a line of titles. Columns that begin with a number stand to the right; what
    others wrote is escaped."""
    cells = [[cell(value) for value in row] for row in rows]
    right = [
        all(text[:1].isdigit() or text == "-" for text in column)
        for column in zip(*cells, strict=True)
    ]
    widths = [max(map(len, column)) for column in zip(titles, *cells, strict=True)]
    out = []
    for row in ([*titles], *cells):
        parts = [
            text.rjust(widths[at]) if right and right[at] else text.ljust(widths[at])
            for at, text in enumerate(row)
        ]
        out.append("  ".join(parts).rstrip())
    return "\n".join(out)


def cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return moment(value)
    text = escape(value)
    if len(text) > MAX_CELL:
        half = MAX_CELL // 2
        text = f"{text[: half - 1]}..{text[1 - half :]}"
    return text


def moment(value: datetime | None) -> str:
    """A time in UTC to the second. Spark hands out times in this process's zone, without it."""
    if value is None:
        return "-"
    return f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z"


def duration(ms: float | None) -> str:
    """A time span in the unit that suits it."""
    if ms is None:
        return "-"
    if ms < 1000:
        return f"{ms:.0f} ms"
    seconds = ms / 1000
    for size, unit in _SECONDS:
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"


def size(count: float | None) -> str:
    """Bytes in the unit that suits them (1 MiB = 2^20 bytes)."""
    if count is None:
        return "-"
    for shift, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if count >= 1 << shift:
            return f"{count / (1 << shift):.1f} {unit}"
    return f"{count:.0f} B"


def share(part: float | None, whole: float | None) -> str:
    """A part of a whole in percent."""
    return "-" if part is None or not whole else f"{100 * part / whole:.1f} %"
