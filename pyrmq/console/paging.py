"""Lists on pages: filtered, sorted and cut into pages on the server."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from starlette.requests import Request

from pyrmq.console.rendering import own_path

T = TypeVar("T")
SIZE = 100
"""Rows of a page."""
MAX_FILTER = 256
"""Longest text of a filter."""


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """One page of a list. `found`: rows that the filter left; `all`: rows without it. `number`: of
    the page, from 1. `sort`: the key it is sorted by, with `-` in front from the largest. `query`:
    what the links to other pages keep."""

    rows: list[T]
    found: int
    all: int
    number: int
    pages: int
    sort: str
    filter: str
    path: str
    query: Mapping[str, str]

    @property
    def first(self) -> int:
        """The number of the first row of the page, from 1; 0 if there is none."""
        return (self.number - 1) * SIZE + 1 if self.rows else 0

    @property
    def last(self) -> int:
        return self.first + len(self.rows) - 1 if self.rows else 0

    def sorted_by(self, key: str) -> str:
        """The sort that a click on the head of a column asks for."""
        return f"-{key}" if self.sort == key else key


def listing(
    request: Request,
    rows: Iterable[T],
    columns: Mapping[str, Callable[[T], Any]],
    default: str,
    text: Callable[[T], str],
) -> Listing[T]:
    """The page that `?q=…&sort=…&page=…` asks for. `columns`: the value by which each key sorts.
    `default`: the sort unless one is asked for. `text`: what the filter looks in, without regard to
    upper and lower case."""
    every = list(rows)
    wanted = request.query_params.get("q", "")[:MAX_FILTER]
    low = wanted.casefold().strip()
    found = [row for row in every if low in text(row).casefold()] if low else every
    sort = request.query_params.get("sort", default)
    if sort.removeprefix("-") not in columns:
        sort = default
    found = sorted_rows(found, columns, sort)
    pages = max(1, -(-len(found) // SIZE))
    number = min(max(1, whole(request.query_params.get("page"), 1)), pages)
    return Listing(
        found[(number - 1) * SIZE : number * SIZE],
        len(found),
        len(every),
        number,
        pages,
        sort,
        wanted,
        own_path(request),
        {k: v for k, v in request.query_params.items() if k not in ("page", "sort", "q")},
    )


def sorted_rows(rows: Iterable[T], columns: Mapping[str, Callable[[T], Any]], sort: str) -> list[T]:
    """Rows in the order of `sort`, a key of `columns`, with `-` in front from the largest. Rows
    without a value (None) come last."""
    value = columns[sort.removeprefix("-")]
    there: list[T] = []
    without: list[T] = []
    for row in rows:
        (without if value(row) is None else there).append(row)
    return sorted(there, key=value, reverse=sort.startswith("-")) + without


def whole(value: str | None, otherwise: int) -> int:
    """A number of a query; `otherwise` if it is none."""
    text = value or ""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else otherwise
