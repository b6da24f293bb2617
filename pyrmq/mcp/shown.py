"""Results for assistants: what the cluster says as JSON, bounded, without secrets."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any

from pyrmq.admin.outcome import Outcome
from pyrmq.config.secret_names import is_secret
from pyrmq.config.table import HIDDEN
from pyrmq.escape import json_line

MAX_RESULT = 64 << 10
"""Bytes of a result's JSON."""
MAX_TEXT = 2048
"""Characters of one text in a result, unless its tool bounds it."""
MAX_DEPTH = 12
MAX_ITEMS = 10_000
"""Of one list, before the whole result is measured."""
MAX_PROBLEMS = 20
ROWS = "rows"
"""The rows of a page."""
_FEW = 8
"""A container of so few is kept whole; its parts are cut instead."""


class Long(str):
    """A text that its tool has bounded."""

    __slots__ = ()


class Cutting:
    """Makes JSON of values, and notes what it leaves out."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self._texts = 0

    def plain(self, value: Any, name: str = "", depth: int = 0) -> Any:
        """A value as JSON: dataclasses become objects, bytes are for the tools to show."""
        if value is not None and value != "" and is_secret(name) and not isinstance(value, bool):
            return HIDDEN
        if isinstance(value, Enum):
            return value.name
        if isinstance(value, bool | int | None):
            return value
        if isinstance(value, float):
            return round(value, 3) if abs(value) < 1e15 else str(value)
        if isinstance(value, str):
            return self._text(value)
        if depth >= MAX_DEPTH:
            return "…"
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = [f.name for f in dataclasses.fields(value)]
            return {f: self.plain(getattr(value, f), f, depth + 1) for f in fields}
        if isinstance(value, Mapping):
            kept = list(value.items())[:MAX_ITEMS]
            self._left_out(name, len(kept), len(value))
            return {self._text(str(k)): self.plain(v, str(k), depth + 1) for k, v in kept}
        if isinstance(value, Outcome):
            return value.problem
        if isinstance(value, Iterable) and not isinstance(value, bytes | bytearray | memoryview):
            items = list(value)
            self._left_out(name, min(len(items), MAX_ITEMS), len(items))
            return [self.plain(v, name, depth + 1) for v in items[:MAX_ITEMS]]
        return self._text(str(value))

    def _text(self, text: str) -> str:
        if len(text) <= MAX_TEXT or isinstance(text, Long):
            return text
        if not self._texts:
            self.notes.append(f"texts of more than {MAX_TEXT} characters are cut")
        self._texts += 1
        return cut_text(text, MAX_TEXT)

    def _left_out(self, name: str, kept: int, all_of_them: int) -> None:
        if kept < all_of_them:
            self.notes.append(f"{name or 'the list'} has {kept} of {all_of_them}")

    def fit(self, value: Any, limit: int = MAX_RESULT) -> str:
        """The JSON of a plain value in at most `limit` bytes: its longest lists are cut until it
        fits."""
        text = json_line(value)
        while len(text.encode()) > limit:
            longest = max(_containers(value), key=lambda one: one.weight, default=None)
            if longest is None:
                self.notes.append("the result was too large: ask for less")
                return json_line({"cut": "the result was too large"})
            before = len(longest.items)
            longest.halve()
            self._note(longest.path, len(longest.items), before)
            if longest.path == ROWS:
                value["next_offset"] = value["offset"] + len(longest.items)
            text = json_line(value)
        return text

    def _note(self, path: str, now: int, before: int) -> None:
        beginning = f"{path or 'the result'} shows "
        for at, note in enumerate(self.notes):
            if note.startswith(beginning):
                total = note.rpartition(" of ")[2]
                self.notes[at] = f"{beginning}{now} of {total}"
                return
        self.notes.append(f"{beginning}{now} of {before}")


@dataclasses.dataclass(frozen=True, slots=True)
class _Container:
    """A list, or an object of many members, that can be cut."""

    path: str
    items: Any
    weight: int
    """Its size as JSON. Of a short list its length: its items are cut first."""

    def halve(self) -> None:
        kept = (len(self.items) + 1) // 2
        if isinstance(self.items, list):
            del self.items[kept:]
        else:
            for name in list(self.items)[kept:]:
                del self.items[name]


def _containers(value: Any, path: str = "") -> Iterator[_Container]:
    if isinstance(value, list):
        if len(value) > 1:
            yield _Container(path, value, _size(value) if len(value) > _FEW else len(value))
        for one in value:
            yield from _containers(one, f"{path}[]")
    elif isinstance(value, dict):
        if len(value) > 4 * _FEW:
            yield _Container(path, value, _size(value))
        for name, one in value.items():
            yield from _containers(one, f"{path}.{name}" if path else str(name))


def _size(value: Any) -> int:
    return len(json_line(value))


def cut_text(text: str, longest: int) -> str:
    """A text that says how long it was if it is cut."""
    return text if len(text) <= longest else f"{text[:longest]}…[cut: {len(text)} characters]"


def problems(failed: Sequence[Outcome[Any] | BaseException]) -> dict[str, Any]:
    """`{"failed": [...]}` for servers that did not answer; nothing if all did."""
    if not failed:
        return {}
    said = [one.problem if isinstance(one, Outcome) else str(one) for one in failed]
    more = len(said) - MAX_PROBLEMS
    return {"failed": said[:MAX_PROBLEMS] + ([f"{more} more failed"] if more > 0 else [])}


def page(names: Sequence[Any], offset: int, limit: int) -> dict[str, Any]:
    """Some rows of many: `total`, `offset`, `rows`, and where the next ones begin."""
    rows = list(names[offset : offset + limit])
    following = offset + len(rows)
    more = {"next_offset": following} if following < len(names) else {}
    return {"total": len(names), "offset": offset, **more, ROWS: rows}
