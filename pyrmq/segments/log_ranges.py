"""Ranges of a log: those that are present around holes, and those that tasks read.

Queues say where records start, and so where a log can be cut.
What stands in the log is not asked for that: a body may hold bytes that say to be a record of their
place. An entry of a queue was written by the broker for a record, and the record agrees with it.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from pyrmq.engine import segment_end
from pyrmq.errors import DataLossError
from pyrmq.escape import escape
from pyrmq.model.record import MAGIC_V1, MAGIC_V2
from pyrmq.segments.queues import Entry, Queue, end_place, entry_at, list_queues
from pyrmq.segments.store import File, SegmentStore

QUEUES = 8
"""Queues that are asked, the longest ones: the search costs some reads in each."""
TRIES = 8
"""Entries of one queue that are looked at behind a place."""
_HEAD = struct.Struct(">iIiiiqq")
"""Length, magic, CRC, queue id, flag, queue offset, physical offset."""


class RecordStarts:
    """Record starts of a store's log; none where it has no queues that can be read."""

    def __init__(self, store: SegmentStore) -> None:
        self._store = store

    @cached_property
    def _queues(self) -> list[Queue]:
        queues = list_queues(self._store, lambda topic: True)
        return sorted(queues, key=lambda queue: queue.files_end - queue.first, reverse=True)[
            :QUEUES
        ]

    def behind(self, at: int, limit: int) -> int | None:
        """The first start at or behind a physical offset and before `limit` that a queue knows."""
        found = (self._first_of(queue, at, limit) for queue in self._queues)
        return min((phys for phys in found if phys is not None), default=None)

    def _first_of(self, queue: Queue, at: int, limit: int) -> int | None:
        place = end_place(queue, at)
        for next_place in range(place, min(place + TRIES, queue.files_end)):
            try:
                entry = entry_at(queue, next_place)
            except (IndexError, OSError):
                return None
            if entry.phys >= limit:
                return None
            if entry.phys >= at and not entry.is_blank and self._agrees(queue, entry):
                return entry.phys
        return None

    def _agrees(self, queue: Queue, entry: Entry) -> bool:
        """Whether the record that an entry leads to has the entry's place."""
        for base, length, path in self._store.files:
            if base <= entry.phys and entry.phys + entry.size <= base + length:
                with self._store.place.open(path) as file:
                    file.seek(entry.phys - base)
                    head = bytes(file.read(_HEAD.size))
                if len(head) < _HEAD.size:
                    return False
                size, magic, _, queue_id, _, offset, phys = _HEAD.unpack(head)
                stated = (size, queue_id, offset, phys)
                expected = (entry.size, queue.id, entry.offset, entry.phys)
                return magic in (MAGIC_V1, MAGIC_V2) and stated == expected
        return False


log = logging.getLogger("pyrmq.segments")

SMALLEST = 16 << 20
"""Bytes of a range that `min_partitions` does not go below."""
_BLANK_MAGIC = 0xCBD43194
_BLANK = 8
"""Bytes of a blank record: length and magic."""
_BEHIND = 2
"""Files behind a range that its reader gets too, to find the next record behind damage."""


def present_ranges(
    store: SegmentStore, start: int, end: int, *, fail_on_data_loss: bool
) -> list[tuple[int, int]]:
    """The ranges of physical offsets of `start..end` that files hold, without those missing.

    DataLossError where something is missing, with `fail_on_data_loss=False` a warning.
    """
    out = []
    for hole in _missing(store, start, end):
        report_loss(
            f"{store.root}: bytes {hole[0]} to {hole[1]} of the log of broker {store.name} are "
            "missing",
            fail_on_data_loss,
        )
        if start < hole[0] and hole[0] > store.first:
            out.append((start, _end_before(store, start, hole[0])))
        start = max(start, hole[1])
    out.append((start, end))
    return [(low, high) for low, high in out if low < high]


def _missing(store: SegmentStore, start: int, end: int) -> list[tuple[int, int]]:
    """The ranges around and in `start..end` that no file holds and that had records."""
    lost = []
    if start < store.first:
        lost.append((start, store.first))
    lost += [hole for hole in store.holes() if start < hole[1] and hole[0] < end]
    return [hole for hole in lost if hole[0] < store.first or not _is_blank(store, *hole)]


def check_any_present(store: SegmentStore, start: int, end: int) -> None:
    """DataLossError if nothing of `start..end` is there, whatever `fail_on_data_loss` says."""
    missing = _missing(store, start, end)
    if missing and not overlapping(store.files, start, end):
        raise DataLossError(
            f"{store.root}: bytes {missing[0][0]} to {missing[-1][1]} of the log of broker "
            f"{store.name} are missing, and with them all that is to be read, {start} to {end}",
            "restore the segments, or start with a new checkpoint",
        )


def report_loss(text: str, fail: bool) -> None:
    """DataLossError if `fail`, else one warning that reading continues with what is present."""
    if fail:
        raise DataLossError(text)
    log.warning("%s; continuing with the earliest record available", escape(text))


def _end_before(store: SegmentStore, start: int, hole: int) -> int:
    """Where the last whole record before a hole ends."""
    files = overlapping(store.files, start, hole)
    end, _ = segment_end(files, opener=store.opener())
    return end


def _is_blank(store: SegmentStore, start: int, end: int) -> bool:
    """Whether a hole is only the rest of a blank record, as where filled segments were cut."""
    before = next(f for f in reversed(store.files) if f[0] < start)
    last, _ = segment_end([before], opener=store.opener())
    return next_record(store, last) == end


def next_record(store: SegmentStore, end: int) -> int:
    """Where the next record will start, behind a log that ends at `end`: at the front of the next
    segment if a blank record says that there is no room in this one."""
    for base, length, path in store.files:
        if base <= end <= base + length - _BLANK:
            with store.place.open(path) as file:
                file.seek(end - base)
                total, magic = struct.unpack(">iI", bytes(file.read(_BLANK)).ljust(_BLANK, b"\0"))
            return end + total if magic == _BLANK_MAGIC and total >= _BLANK else end
    return end


def overlapping(files: Sequence[File], start: int, end: int) -> tuple[File, ...]:
    """The files that have bytes of `start..end`."""
    return tuple(f for f in files if f[0] < end and start < f[0] + f[1])


def files_of(store: SegmentStore, start: int, end: int, log_end: int) -> tuple[Any, int]:
    """The files that a reader of a range gets, and how far it may read behind it."""
    own = overlapping(store.files, start, end)
    if not own:
        return (), end
    behind = [f for f in store.files if own[-1][0] < f[0] < log_end][:_BEHIND]
    files = (*own, *behind)
    return files, max(end, min(log_end, files[-1][0] + files[-1][1]))


def split_size(total: int, split_bytes: int, min_partitions: int | None) -> int:
    """Bytes of a range: `split_bytes`, or less to have so many of them."""
    if min_partitions is None or min_partitions < 1:
        return split_bytes
    return min(split_bytes, max(SMALLEST, -(-total // min_partitions)))


def even_ranges(
    files: Sequence[File], start: int, end: int, size: int, starts: RecordStarts
) -> list[tuple[int, int]]:
    """Ranges of about `size` bytes from `start` to `end`, both the ends of records.

    A cut is made where something else than the log's content says that a record starts: at the
    front of a segment if one is near, else where a queue knows of one. Where neither is, ranges are
    longer."""
    count = max(1, -(-(end - start) // size))
    step = (end - start) / count
    bases = [f[0] for f in files if start < f[0] < end]
    edges = [start]
    for number in range(1, count):
        at = start + (end - start) * number // count
        near = min(bases, key=lambda base: abs(base - at), default=end)
        if abs(near - at) > step / 8:
            found = starts.behind(at, min(end, at + int(step)))
            if found is None and abs(near - at) > step / 2:
                continue
            near = near if found is None else found
        if edges[-1] < near < end:
            edges.append(near)
    return list(zip(edges, [*edges[1:], end], strict=True))


def file_ranges(files: Sequence[File], start: int, end: int) -> list[tuple[int, int]]:
    """As `even_ranges`, one range a segment."""
    own = overlapping(files, start, end)
    return [(max(start, f[0]), min(end, f[0] + f[1])) for f in own]
