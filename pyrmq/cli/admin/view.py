"""What `pyrmq admin` prints: tables for people, JSON and YAML for programs."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any, Literal

import click

from pyrmq.admin import moments
from pyrmq.admin.moments import FORMS as FORMS
from pyrmq.errors import ConfigError
from pyrmq.escape import escape, json_line

FORMATS = ("table", "json", "yaml")


def time_of(option: str, text: str | None) -> int | None:
    """A time as ms since 1970, None for none. click.BadParameter."""
    try:
        return None if text is None else moments.time_of(text)
    except ConfigError as e:
        raise click.BadParameter(str(e), param_hint=option) from None


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: `cell` makes the text of a row's cell (its value, if that is a name of
    the row's attributes or keys); numbers stand `right`. `style` is rich's, or made of the row."""

    head: str
    cell: str | Callable[[Any], Any]
    right: bool = False
    style: str | Callable[[Any], str] = ""


@dataclass(slots=True)
class View:
    """What a command shows. `data` is what JSON and YAML have: dataclasses, mappings, sequences.
    `rows` and `columns` are the table; `notes` stand below it. `empty` is said instead of a table
    without rows."""

    data: Any
    rows: Sequence[Any] = ()
    columns: Sequence[Column] = ()
    notes: Sequence[str] = ()
    empty: str = "nothing to show"
    failed: Sequence[str] = ()
    """What is missing, and why: printed as errors, and the exit code is 3, or 2 if `all_failed`."""
    all_failed: bool = False


def table(
    data: Sequence[Any],
    *columns: Column,
    notes: Sequence[str] = (),
    empty: str,
    failed: Sequence[str] = (),
    all_failed: bool = False,
) -> View:
    """A view of rows that are the data as well."""
    return View(data, data, columns, notes, empty, failed, all_failed)


def fields(data: Mapping[str, Any], *, notes: Sequence[str] = ()) -> View:
    """A view of one object: a row for each of its members."""
    rows = [(k, v) for k, v in data.items()]
    columns = (Column("NAME", lambda r: r[0]), Column("VALUE", lambda r: r[1]))
    return View(data, rows, columns, notes)


def plain(value: Any) -> Any:
    """A value as JSON has it: dataclasses become objects, absent values null, keys text."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, bytes | bytearray | memoryview):
        import base64

        raw = bytes(value)
        try:
            return raw.decode()
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(raw).decode()}
    if isinstance(value, BaseException):
        return {"code": getattr(value, "code", None), "message": str(value)}
    if isinstance(value, str | int | float | bool | None):
        return value
    if isinstance(value, Iterable):
        return [plain(v) for v in value]
    return str(value)


def show(view: View, output: str) -> None:
    """Prints a view as `table`, `json` or `yaml`."""
    if output == "json":
        print(_json(plain(view.data)))
    elif output == "yaml":
        print(_yaml(plain(view.data)), end="")
    else:
        _table(view)


def show_each(row: Any, output: str, text: Callable[[Any], str]) -> None:
    """Prints one of many as it comes: a line of JSON, a document of YAML, or its text in a line."""
    if output == "json":
        print(json_line(plain(row)), flush=True)
    elif output == "yaml":
        print("---\n" + _yaml(plain(row)), end="", flush=True)
    else:
        print(escape(text(row)), flush=True)


def _json(value: Any) -> str:
    if not sys.stdout.isatty():
        return json_line(value)
    # One value a line for people; what is in strings is escaped line by line.
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return "\n".join(escape(line) for line in text.split("\n"))


def _yaml(value: Any) -> str:
    import yaml

    text: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=False, width=1000)
    return text


def _table(view: View) -> None:
    cells = [[escape(_text(column, row)) for column in view.columns] for row in view.rows]
    if view.columns and not cells:
        if view.empty:
            print(view.empty)
    elif view.columns and sys.stdout.isatty():
        _rich(view, cells)
    elif view.columns:
        _aligned(view, cells)
    for note in view.notes:
        print(escape(note))


def _text(column: Column, row: Any) -> str:
    if callable(column.cell):
        value = column.cell(row)
    elif isinstance(row, Mapping):
        value = row.get(column.cell)
    else:
        value = getattr(row, column.cell)
    if isinstance(value, bool | Mapping | list | tuple):
        return json.dumps(plain(value), ensure_ascii=False)
    return "" if value is None else str(value)


def _aligned(view: View, cells: Sequence[Sequence[str]]) -> None:
    """A table for a pipe: rows are never folded, and have no colours."""
    heads = [column.head for column in view.columns]
    widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
    for row in [heads, *cells]:
        parts = [
            text.rjust(width) if column.right else text.ljust(width)
            for text, width, column in zip(row, widths, view.columns, strict=True)
        ]
        print("  ".join(parts).rstrip())


def _rich(view: View, cells: Sequence[Sequence[str]]) -> None:
    """A table for a terminal."""
    from rich.box import SIMPLE_HEAD
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    shown = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for column in view.columns:
        justify: Literal["left", "right"] = "right" if column.right else "left"
        shown.add_column(column.head, justify=justify, overflow="fold")
    for row, texts in zip(view.rows, cells, strict=True):
        styles = [c.style(row) if callable(c.style) else c.style for c in view.columns]
        shown.add_row(*(Text(t, style=s) for t, s in zip(texts, styles, strict=True)))
    # Wider than the terminal it is not folded within cells: the terminal wraps whole lines.
    console = Console(highlight=False)
    columns = zip([c.head for c in view.columns], *cells, strict=True)
    needed = sum(max(map(cell_len, texts)) + 2 for texts in columns)
    Console(highlight=False, width=max(console.width, needed)).print(shown, soft_wrap=True)


def moment(ms: int) -> str:
    """A time as ISO text in the local zone; `-` for 0, the number itself where it is no time."""
    if ms <= 0:
        return "-"
    try:
        at = datetime.fromtimestamp(ms / 1000, UTC).astimezone()
    except (ValueError, OverflowError, OSError):
        return str(ms)
    return at.isoformat(timespec="milliseconds")
