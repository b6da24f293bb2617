"""Summaries for people: tables of text."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from pyrmq.escape import escape

MAX_CELL = 60
"""Longest text of a cell, characters; the middle of a longer one is left out."""
MIN_TEXT = 12
"""Characters that a text keeps in a narrow terminal."""
_SECONDS = ((86400, "d"), (3600, "h"), (60, "min"))


def lines(
    titles: Sequence[str],
    rows: Sequence[Sequence[Any]],
    width: int | None = None,
    optional: Sequence[str] = (),
) -> str:
    """A table with a line of titles. Columns that begin with a number stand to the right; what
    others wrote is escaped. Where it is wider than `width` (default: the terminal's), the middle of
    long texts is left out; if that does not do, columns of `optional`, the first one first; and if
    that does not do either, each row becomes a paragraph."""
    cells = [[cell(value) for value in row] for row in rows]
    width = shutil.get_terminal_size((0, 0)).columns if width is None else width
    right = [
        all(text[:1].isdigit() or text == "-" for text in column)
        for column in zip(*cells, strict=True)
    ]
    widths = [max(map(len, column)) for column in zip(titles, *cells, strict=True)]
    if width and sum(widths) + 2 * len(widths) - 2 > width:
        widths = _narrowed(titles, widths, right, width)
        if sum(widths) + 2 * len(widths) - 2 > width:
            less = next((titles.index(name) for name in optional if name in titles), None)
            if less is None:
                return _paragraphs(titles, cells, width)
            kept = [[v for at, v in enumerate(row) if at != less] for row in (titles, *rows)]
            return lines(kept[0], kept[1:], width, optional)
    out = []
    for row in ([*titles], *cells):
        shown = [shortened(text, most) for text, most in zip(row, widths, strict=True)]
        parts = [
            text.rjust(widths[at]) if right and right[at] else text.ljust(widths[at])
            for at, text in enumerate(shown)
        ]
        out.append("  ".join(parts).rstrip())
    return "\n".join(out)


def _narrowed(
    titles: Sequence[str], widths: Sequence[int], right: Sequence[bool], width: int
) -> list[int]:
    """Columns of texts made narrower, the widest first, down to MIN_TEXT or their title."""
    found = list(widths)
    least = [
        most if right and right[at] else min(most, max(len(titles[at]), MIN_TEXT))
        for at, most in enumerate(widths)
    ]
    while sum(found) + 2 * len(found) - 2 > width:
        spare = [most - least[at] for at, most in enumerate(found)]
        if not any(spare):
            break
        at = max(range(len(found)), key=lambda n: found[n] if spare[n] else 0)
        found[at] -= 1
    return found


def _paragraphs(titles: Sequence[str], cells: Sequence[Sequence[str]], width: int) -> str:
    """One per row: its first cell, and below it the others with their titles."""
    out = []
    for row in cells:
        out.append(shortened(row[0], width))
        line = ""
        for title, text in zip(titles[1:], row[1:], strict=True):
            part = shortened(f"{title}: {text}", width - 2)
            if line and len(line) + len(part) + 5 > width:
                out.append(f"  {line}")
                line = ""
            line = f"{line}   {part}" if line else part
        out.append(f"  {line}")
    return "\n".join(out)


def shortened(text: str, longest: int) -> str:
    """Without its middle if it is longer."""
    if len(text) <= longest:
        return text
    half = (longest - 2) // 2
    return f"{text[: longest - 2 - half]}..{text[len(text) - half :]}"


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


def number(count: int, name: str, several: str | None = None) -> str:
    """So many of something: `1 message`, `2 messages`."""
    return f"{count} {name if count == 1 else several or name + 's'}"


def wrapped(text: str, width: int | None = None) -> str:
    """A sentence in lines that fit the terminal."""
    width = shutil.get_terminal_size((0, 0)).columns if width is None else width
    return text if not width else "\n".join(textwrap.wrap(text, width)) or text


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
