"""Merges sorted streams of rows into one, with a small part of each in memory.

A stream has batches whose rows are sorted by the key columns, and no batch begins before the one
before it ends. Each step takes, from all streams, the rows up to the least last key of the parts in
memory: no stream can bring a row below that any more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from pyrmq.tables.errors import TableError
from pyrmq.tables.schema import ORDER

if TYPE_CHECKING:
    import pyarrow as pa

KEYS = ORDER
"""What rows of a file are sorted by, the first column first."""


class NotSortedError(TableError):
    """A stream is not sorted by the key columns; `name` says which."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name} is not sorted by {', '.join(KEYS)}")
        self.name = name


def merged(
    streams: Sequence[tuple[str, Iterator[pa.RecordBatch]]], keys: Sequence[str] = KEYS
) -> Iterator[pa.RecordBatch]:
    """All rows of all streams (each with its name), sorted by `keys`. Rows of equal keys stay in
    the order of the streams. Raises NotSortedError for a stream that is not sorted."""
    cursors = [_Cursor(name, batches, keys) for name, batches in streams]
    cursors = [cursor for cursor in cursors if cursor.fill()]
    while cursors:
        limit = min(cursor.last for cursor in cursors)
        parts = [part for cursor in cursors for part in cursor.until(limit)]
        yield from _in_order(parts, keys)
        cursors = [cursor for cursor in cursors if cursor.fill()]


def is_sorted(batch: pa.RecordBatch, keys: Sequence[str] = KEYS) -> bool:
    """Whether no row has a key below that of the row before it; a key without a value is not."""
    import pyarrow as pa
    import pyarrow.compute as pc

    count = batch.num_rows
    if any(batch.column(key).null_count for key in keys):
        return False
    if count < 2:
        return True
    # From the last key column to the first: later columns count only where this one is equal.
    fine: Any = pa.scalar(True)
    for key in reversed(keys):
        column = batch.column(key)
        before, after = column.slice(0, count - 1), column.slice(1)
        fine = pc.or_(pc.less(before, after), pc.and_(pc.equal(before, after), fine))
    return bool(pc.all(fine).as_py())


def _key(batch: pa.RecordBatch, row: int, keys: Sequence[str]) -> tuple[Any, ...]:
    return tuple(
        value.encode() if isinstance(value, str) else value
        for value in (batch.column(key)[row].as_py() for key in keys)
    )


def _in_order(
    parts: list[tuple[tuple[Any, ...], tuple[Any, ...], pa.RecordBatch]], keys: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Parts (first key, last key, rows) as sorted batches. Most runs follow each other, queue by
    queue: then nothing is copied."""
    import pyarrow as pa

    ordered = sorted(parts, key=lambda part: part[:2])
    if all(a[1] <= b[0] for a, b in pairwise(ordered)):
        yield from (rows for _, _, rows in ordered)
        return
    table = pa.Table.from_batches([rows for _, _, rows in parts])
    yield from table.sort_by([(key, "ascending") for key in keys]).to_batches()


class _Cursor:
    """One stream and the batch of it that is in memory."""

    def __init__(self, name: str, batches: Iterator[pa.RecordBatch], keys: Sequence[str]) -> None:
        self._name = name
        self._batches = batches
        self._keys = keys
        self._rows: pa.RecordBatch | None = None
        self._first: tuple[Any, ...] = ()
        self.last: tuple[Any, ...] = ()
        """Key of the last row in memory."""

    def fill(self) -> bool:
        """Whether there are rows in memory, or there were more to read."""
        while self._rows is None or not self._rows.num_rows:
            batch = next(self._batches, None)
            if batch is None:
                self._rows = None
                return False
            if not batch.num_rows:
                continue
            self._first = _key(batch, 0, self._keys)
            if not is_sorted(batch, self._keys) or (self.last and self._first < self.last):
                raise NotSortedError(self._name)
            self._rows = batch
            self.last = _key(batch, batch.num_rows - 1, self._keys)
        return True

    def until(
        self, limit: tuple[Any, ...]
    ) -> list[tuple[tuple[Any, ...], tuple[Any, ...], pa.RecordBatch]]:
        """Takes the rows up to the key `limit`: none, or one part with its first and last key."""
        if self._first > limit:
            return []
        rows, first = self._rows, self._first
        assert rows is not None  # fill
        if self.last <= limit:
            self._rows = None
            return [(first, self.last, rows)]
        count = self._count_until(rows, limit)
        self._rows = rows.slice(count)
        self._first = _key(self._rows, 0, self._keys)
        part = rows.slice(0, count)
        return [(first, _key(part, count - 1, self._keys), part)]

    def _count_until(self, rows: pa.RecordBatch, limit: tuple[Any, ...]) -> int:
        low, high = 0, rows.num_rows
        while low < high:
            middle = (low + high) // 2
            if _key(rows, middle, self._keys) <= limit:
                low = middle + 1
            else:
                high = middle
        return low
