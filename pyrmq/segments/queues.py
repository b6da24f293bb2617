"""The queues of a store, read from outside: which there are, how far they reach, their entries.

Entries: [ConsumeQueue, BatchConsumeQueue]. A place is an entry's number in its queue:
of a simple queue the queue offset, of a batch queue (inner batches) not. Queues are read while a
broker may write them: what counts was there when its end was looked for.
"""

from __future__ import annotations

import os
import posixpath
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from pyrmq.segments.filesystem import kind, list_folder, need
from pyrmq.segments.store import File, SegmentStore, segments_of

SIMPLE = 20
BATCH = 46
"""Bytes of an entry."""
BLANK_SIZE = 0x7FFFFFFF
"""Size in a slot that stands for no message, with physical offset 0."""
LIGHT_PREFIX = "%LMQ%"

_HEAD = struct.Struct(">qiq")
_BATCH_REST = struct.Struct(">qqh")
_SIMPLE_DTYPE = [("phys", ">i8"), ("size", ">i4"), ("tags", ">i8")]
_BATCH_DTYPE = [
    *_SIMPLE_DTYPE,
    ("time", ">i8"),
    ("base", ">i8"),
    ("count", ">i2"),
    ("compacted", ">i4"),
    ("reserved", ">i4"),
]
_STEP = 1 << 16
"""Entries read at once."""


@dataclass(frozen=True)
class Queue:
    """One queue's files. Can be sent to another process."""

    topic: str
    id: int
    unit: int
    files: tuple[File, ...]
    """Byte in the queue at which it begins, length, path."""

    @property
    def first(self) -> int:
        """First place that a file holds."""
        return self.files[0][0] // self.unit

    @property
    def files_end(self) -> int:
        """Place behind the last entry that a file can hold."""
        base, length, _ = self.files[-1]
        return (base + length) // self.unit

    def is_whole(self, start: int, end: int) -> bool:
        """Whether the files have every place from `start` to before `end`."""
        at = start * self.unit
        for base, length, _ in self.files:
            if base <= at < base + length:
                at = base + length
        return at >= end * self.unit or start >= end

    def part(self, start: int, end: int) -> Queue:
        """The same with only the files that have places from `start` to before `end`."""
        low, high = start * self.unit, end * self.unit
        return replace(
            self, files=tuple(f for f in self.files if f[0] < high and low < f[0] + f[1])
        )

    def read(self, start: int, end: int) -> Iterator[tuple[int, Any]]:
        """(first place, numpy array of entries) of the places from `start` to before `end`."""
        np = need("numpy", "reading queues")
        dtype = np.dtype(_SIMPLE_DTYPE if self.unit == SIMPLE else _BATCH_DTYPE)
        for base, length, path in self.files:
            place = max(start, -(-base // self.unit))
            last = min(end, (base + length) // self.unit)
            while place < last:
                want = min(last - place, _STEP)
                at = place * self.unit - base
                found = np.fromfile(path, dtype, want, offset=at)
                if not len(found):
                    break
                yield place, found
                place += len(found)


def list_queues(store: SegmentStore, wanted: Callable[[str], bool]) -> list[Queue]:
    """The queues of the topics that are `wanted`, of both kinds, by topic and number.

    Light queues are left out: their entries lead to messages of other topics."""
    if store.queues is None:
        return []
    out = []
    simple = store.queues
    batch = posixpath.join(posixpath.dirname(simple), "batchconsumequeue")
    for folder, unit in ((simple, SIMPLE), (batch, BATCH)):
        if kind(folder) != "folder":
            continue
        for topic in list_folder(folder):
            light = topic.name.startswith(LIGHT_PREFIX)
            if topic.is_file or light or not wanted(topic.name):
                continue
            for found in list_folder(topic.path):
                number = queue_id(found.name)
                if found.is_file or number is None:
                    continue
                files = segments_of(list_folder(found.path))
                if files:
                    out.append(Queue(topic.name, number, unit, files))
    return sorted(out, key=lambda q: (q.topic, q.id))


def queue_id(name: str) -> int | None:
    """The number that a queue's folder is named by; None for another folder."""
    if not (name.isascii() and name.isdigit()) or len(name) > 10:
        return None
    number = int(name)
    return number if str(number) == name and number < 2**31 else None


@dataclass(frozen=True)
class Reach:
    """How far a queue reaches, of what the log still has."""

    queue: Queue
    start: int
    end: int
    """Places, the end exclusive."""
    min_offset: int
    max_offset: int
    """Queue offsets, the end exclusive."""


def reach(queue: Queue, log_start: int, log_end: int) -> Reach:
    """Entries of messages that start in the log between the two physical offsets."""
    end = end_place(queue, log_end)
    start = end
    for place, entries in queue.read(queue.first, end):
        blank = (entries["size"] == BLANK_SIZE) & (entries["phys"] == 0)
        hits = (~blank & (entries["phys"] >= log_start)).nonzero()[0]
        if len(hits):
            start = place + int(hits[0])
            break
    if queue.unit == SIMPLE:
        return Reach(queue, start, end, start, end)
    if start < end:
        return Reach(
            queue, start, end, entry_at(queue, start).offset, entry_at(queue, end - 1).behind
        )
    edge = entry_at(queue, end - 1).behind if end > queue.first else 0
    return Reach(queue, start, end, edge, edge)


def end_place(queue: Queue, log_end: int) -> int:
    """Place behind the last entry that leads to a message before `log_end`."""
    for base, length, path in reversed(queue.files):
        first = -(-base // queue.unit)
        low, high = first, (base + length) // queue.unit
        with open(path, "rb") as file:
            descriptor = file.fileno()
            while low < high:
                middle = (low + high) // 2
                raw = os.pread(descriptor, SIMPLE, middle * queue.unit - base)
                if len(raw) == SIMPLE and _counts(raw, log_end):
                    low = middle + 1
                else:
                    high = middle
        if low > first:
            return low
    return queue.first


def _counts(raw: bytes, log_end: int) -> bool:
    phys, size, _ = _HEAD.unpack(raw)
    return bool(size > 0 and 0 <= phys < log_end)


@dataclass(frozen=True)
class Entry:
    """One entry: the message's place in the log, the first queue offset and the one behind."""

    phys: int
    size: int
    offset: int
    behind: int

    @property
    def is_blank(self) -> bool:
        return self.size == BLANK_SIZE and self.phys == 0


def entry_at(queue: Queue, place: int) -> Entry:
    """The entry of a place. IndexError if no file has it."""
    at = place * queue.unit
    for base, length, path in queue.files:
        if base <= at and at + queue.unit <= base + length:
            with open(path, "rb") as file:
                raw = os.pread(file.fileno(), queue.unit, at - base)
            if len(raw) < queue.unit:
                break
            phys, size, _ = _HEAD.unpack_from(raw)
            if queue.unit == SIMPLE:
                return Entry(phys, size, place, place + 1)
            _, offset, count = _BATCH_REST.unpack_from(raw, SIMPLE)
            return Entry(phys, size, offset, offset + max(count, 1))
    raise IndexError(place)


def log_end_of(queue: Queue, log_end: int) -> int:
    """Physical offset behind the last message before `log_end` that has an entry; 0 without one."""
    end = end_place(queue, log_end)
    if end <= queue.first:
        return 0
    entry = entry_at(queue, end - 1)
    return 0 if entry.is_blank else entry.phys + entry.size


def dispatched(store: SegmentStore, log_end: int, wanted: int) -> int:
    """Physical offset up to which all messages have entries, as far as `wanted` asks; 0: none has.

    While a broker writes this comes before what needs it: queues that are listed, or whose ends are
    read, after it have every message before it.
    """
    last = 0
    for queue in list_queues(store, lambda topic: True):
        last = max(last, log_end_of(queue, log_end))
        if last >= wanted:
            break
    return last


def place_of(reached: Reach, offset: int) -> int:
    """First place whose messages reach to `offset` or behind it."""
    return _place(reached, offset, lambda entry: entry.behind > offset)


def place_behind(reached: Reach, offset: int) -> int:
    """First place all of whose messages are at `offset` or behind it."""
    return _place(reached, offset, lambda entry: entry.offset >= offset)


def _place(reached: Reach, offset: int, is_there: Callable[[Entry], bool]) -> int:
    if reached.queue.unit == SIMPLE:
        return min(max(offset, reached.start), reached.end)
    low, high = reached.start, reached.end
    while low < high:
        middle = (low + high) // 2
        if is_there(entry_at(reached.queue, middle)):
            high = middle
        else:
            low = middle + 1
    return low


def phys_at(reached: Reach, place: int, log_end: int) -> int:
    """Physical offset that a place leads to, or the next that does; `log_end` if none does."""
    for _, entries in reached.queue.read(place, reached.end):
        blank = (entries["size"] == BLANK_SIZE) & (entries["phys"] == 0)
        hits = (~blank).nonzero()[0]
        if len(hits):
            return int(entries["phys"][hits[0]])
    return log_end
