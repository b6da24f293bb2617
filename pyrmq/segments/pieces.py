"""A log cut into ranges: around what is missing, and into shares for tasks."""

from __future__ import annotations

import logging
import struct
from collections.abc import Sequence
from typing import Any

import pyrmq.engine as engine
from pyrmq.errors import DataLossError
from pyrmq.escape import escape
from pyrmq.segments.store import File, SegmentStore

log = logging.getLogger("pyrmq.segments")

SMALLEST = 16 << 20
"""Bytes of a range that minPartitions does not go below."""
_BLANK_MAGIC = 0xCBD43194
_BLANK = 8
"""Bytes of a blank record: length and magic."""
_BEHIND = 2
"""Files behind a range that its reader gets too, to find the next record behind damage."""


def runs(
    store: SegmentStore, start: int, end: int, *, fail_on_data_loss: bool
) -> list[tuple[int, int]]:
    """The parts of `start..end` that lie in files without a hole between them.

    DataLossError where something is missing, unless that is to be passed over.
    """
    lost = []
    if start < store.first:
        lost.append((start, store.first))
    lost += [hole for hole in store.holes() if start < hole[1] and hole[0] < end]
    lost = [hole for hole in lost if hole[0] < store.first or not _is_blank(store, *hole)]
    out = []
    for hole in lost:
        tell_loss(
            f"{store.root}: bytes {hole[0]} to {hole[1]} of the log of broker {store.name} are "
            "missing",
            fail_on_data_loss,
        )
        if start < hole[0] and hole[0] > store.first:
            out.append((start, _end_before(store, start, hole[0])))
        start = max(start, hole[1])
    out.append((start, end))
    return [(low, high) for low, high in out if low < high]


def tell_loss(text: str, fail: bool) -> None:
    """DataLossError, or one warning that what there is is taken."""
    if fail:
        raise DataLossError(text)
    log.warning("%s; going on with the earliest that there is", escape(text))


def _end_before(store: SegmentStore, start: int, hole: int) -> int:
    """Where the last whole record before a hole ends."""
    files = overlapping(store.files, start, hole)
    end, _ = engine.segment_end(files, opener=store.opener())
    return end


def _is_blank(store: SegmentStore, start: int, end: int) -> bool:
    """Whether a hole is only the rest of a blank record, as where filled segments were cut."""
    before = next(f for f in reversed(store.files) if f[0] < start)
    last, _ = engine.segment_end([before], opener=store.opener())
    return behind_blank(store, last) == end


def behind_blank(store: SegmentStore, end: int) -> int:
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


def files_for(store: SegmentStore, start: int, end: int, log_end: int) -> tuple[Any, int]:
    """The files that a reader of a range gets, and how far it may look behind it."""
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


def cut(files: Sequence[File], start: int, end: int, size: int) -> list[tuple[int, int, bool]]:
    """(start, end, whether a record starts there) of even ranges of about `size` bytes.

    `start` is a record's start. A cut near a segment's start is made there: no search is needed.
    """
    count = max(1, -(-(end - start) // size))
    bases = [f[0] for f in files if start < f[0] < end]
    edges = [start]
    for number in range(1, count):
        at = start + (end - start) * number // count
        near = min(bases, key=lambda base: abs(base - at), default=None)
        if near is not None and abs(near - at) <= (end - start) // count // 8:
            at = near
        if at > edges[-1]:
            edges.append(at)
    known = {start, *bases}
    return [(low, high, low in known) for low, high in zip(edges, [*edges[1:], end], strict=True)]


def by_file(files: Sequence[File], start: int, end: int) -> list[tuple[int, int, bool]]:
    """As `cut`, one range a segment."""
    own = overlapping(files, start, end)
    return [(max(start, f[0]), min(end, f[0] + f[1]), True) for f in own]
