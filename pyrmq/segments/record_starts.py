"""Where records start, by what queues say: places at which a log can be cut.

What stands in the log is not asked for that: a body may hold bytes that say to be a record of their
place. An entry of a queue was written by the broker for a record, and the record agrees with it.
"""

from __future__ import annotations

import struct
from functools import cached_property

from pyrmq.model.record import MAGIC_V1, MAGIC_V2
from pyrmq.segments.queues import Entry, Queue, end_place, entry_at, list_queues
from pyrmq.segments.store import SegmentStore

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
        return sorted(queues, key=lambda queue: queue.room - queue.first, reverse=True)[:QUEUES]

    def behind(self, at: int, limit: int) -> int | None:
        """The first start at or behind a physical offset and before `limit` that a queue knows."""
        found = (self._first_of(queue, at, limit) for queue in self._queues)
        return min((phys for phys in found if phys is not None), default=None)

    def _first_of(self, queue: Queue, at: int, limit: int) -> int | None:
        place = end_place(queue, at)
        for next_place in range(place, min(place + TRIES, queue.room)):
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
