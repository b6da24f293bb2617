"""What orderly pops have handed out: config/consumerOrderInfo.json. [ConsumerOrderInfoManager]

A group gets the messages of a queue in order, so a queue gives it nothing while it has an earlier
message that is neither acknowledged nor visible again. The table has the last batch of each (topic,
group, queue); `pyrmq/broker/tables/order_batch.py` says what a batch decides.

Committed offsets stand in the table of offsets: an ack returns the one to commit, the caller
commits it. What waits for a queue asks `take_free` which queues may have become free.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyrmq.broker.tables import config_file
from pyrmq.broker.tables.config_file import PersistentTable, Rows
from pyrmq.broker.tables.offset_file import QueueOfGroup
from pyrmq.broker.tables.order_batch import (
    MAX_ATTEMPT_ID,
    OTHER_POP,
    UNKNOWN,
    Batch,
    State,
    is_batch,
)
from pyrmq.errors import SystemBusyError
from pyrmq.model.topic import as_int
from pyrmq.net.server.turns import in_turns

__all__ = ["OTHER_POP", "UNKNOWN", "ConsumerOrder", "Counts"]

MAX_BATCHES = 1 << 18
"""Queues of groups that have a batch."""
KEPT_MS = 24 * 3600 * 1000
"""A batch that nothing followed for so long is forgotten. [CLEAN_SPAN_FROM_LAST]"""
LOOK = 64
"""Batches that are cleaned between two looks at the clock."""
_Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Counts:
    """How often the messages of a pop were popped before, for orderCountInfo."""

    by_offset: dict[int, int]
    """None that are new."""
    least: int
    """Of the whole batch; clients that are older read this one."""


class ConsumerOrder(PersistentTable):
    """The batches by (topic, group) and queue. `now` and all times are ms."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._batches: dict[_Key, dict[int, Batch]] = {}
        self.count = 0
        """How many batches there are."""
        self._rows: Rows[_Key] = Rows(self._row)
        self._free_at: dict[QueueOfGroup, int] = {}
        """When a queue that blocks pops becomes free."""
        self._heap: list[tuple[int, QueueOfGroup]] = []
        """The same in the order of times; an entry counts while `_free_at` says the same."""
        self._load()

    def _load(self) -> None:
        content = self.load("table")
        table = content.get("table")
        kept: list[Any] = []
        for name, queues in (table if isinstance(table, dict) else {}).items():
            topic, sep, group = str(name).partition("@")
            found = _batches(queues) if sep and group and isinstance(queues, dict) else None
            if found is None or self.count + len(found) > MAX_BATCHES:
                kept.append(name)
                continue
            for queue_id, batch in found.items():
                self._put((topic, group), queue_id, batch)
        self._changed = False
        for name, row in content.rows("table", kept).items() if kept else ():
            topic, sep, group = str(name).partition("@")
            self._rows.keep({(topic, group) if sep else name: row})
        config_file.tell_kept(self.path, sorted(map(str, kept)))

    def batch(self, topic: str, group: str, queue_id: int) -> Batch | None:
        return self._batches.get((topic, group), {}).get(queue_id)

    def is_blocked(
        self,
        topic: str,
        group: str,
        queue_id: int,
        now: int,
        *,
        invisible_time: int = 0,
        attempt_id: str | None = None,
    ) -> bool:
        """Whether a pop gets nothing from the queue. A pop with the attempt id of the batch repeats
        that one: it may have lost the answer. `invisible_time`: of this pop. [checkBlock]"""
        batch = self.batch(topic, group, queue_id)
        if batch is None or (attempt_id is not None and attempt_id == batch.attempt_id):
            return False
        if batch.invisible_time <= 0 < invisible_time:
            self._change((topic, group))
            batch.invisible_time = invisible_time
            self._await((topic, group), queue_id, batch)
        return batch.state(now) is State.BLOCKED

    def check_room(self, topic: str, group: str, queue_id: int) -> None:
        """SystemBusyError if a batch of this queue could not be recorded. For a pop, before it
        reads."""
        if self.count >= MAX_BATCHES and self.batch(topic, group, queue_id) is None:
            raise SystemBusyError(
                f"{self.count} queues have messages out for orderly pops: at most {MAX_BATCHES}"
            )

    def record(
        self,
        topic: str,
        group: str,
        queue_id: int,
        offsets: Sequence[int],
        *,
        pop_time: int,
        invisible_time: int,
        now: int,
        attempt_id: str | None = None,
    ) -> Counts:
        """A pop hands out the messages at these offsets. [update]"""
        if not is_batch(offsets):
            raise ValueError(f"not the offsets of a batch: {list(offsets)[:64]}")
        self.check_room(topic, group, queue_id)
        attempt = attempt_id[:MAX_ATTEMPT_ID] if attempt_id else None
        batch = Batch(pop_time, invisible_time, list(offsets), now, attempt)
        before = self.batch(topic, group, queue_id)
        if before is not None:
            batch.consumed = batch.counts_after(before)
        self._put((topic, group), queue_id, batch)
        counts = batch.consumed
        least = min(counts.values()) if len(counts) == len(batch.offsets) else 0
        return Counts(dict(counts), least)

    def ack(
        self, topic: str, group: str, queue_id: int, offset: int, pop_time: int, committed: int
    ) -> int:
        """A message is done; `committed`: the group's offset now. Returns the one to commit,
        UNKNOWN for an offset that is not in the batch, OTHER_POP if nothing is to be committed.
        Where the table knows no batch (a kill took it back) only the message that is next counts:
        the offset must not jump over one without ack. [commitAndNext]"""
        batch = self.batch(topic, group, queue_id)
        if batch is None:
            return offset + 1 if offset == committed else OTHER_POP
        before = batch.acked
        following = batch.ack(offset, pop_time)
        if batch.acked != before:
            self._touch((topic, group), queue_id, batch)
        return following

    def change(
        self, topic: str, group: str, queue_id: int, offset: int, pop_time: int, visible_at: int
    ) -> bool:
        """A message becomes visible at another time; False if it is of another pop.
        [updateNextVisibleTime]"""
        batch = self.batch(topic, group, queue_id)
        if batch is None or not batch.change(offset, pop_time, visible_at):
            return False
        self._touch((topic, group), queue_id, batch)
        return True

    def clear(self, topic: str, group: str, queue_id: int) -> None:
        """Forgets a batch: the group's offset was reset. [clearBlock]"""
        if self.batch(topic, group, queue_id) is not None:
            self._drop((topic, group), queue_id)

    def settle(self, topic: str, group: str, queue_id: int, committed: int) -> None:
        """The committed offset says more than the file, which was written earlier: what stands
        before it is acknowledged."""
        batch = self.batch(topic, group, queue_id)
        if batch is not None and batch.settle(committed):
            self._touch((topic, group), queue_id, batch)

    def queues(self) -> list[QueueOfGroup]:
        """The queues that have a batch."""
        return [(*key, queue) for key, queues in self._batches.items() for queue in queues]

    def next_free(self) -> int | None:
        """When the next queue that blocks becomes free; None: none does."""
        while self._heap and self._free_at.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def take_free(self, now: int) -> list[QueueOfGroup]:
        """The queues that have become free since the last call, as their times have come."""
        found = []
        while (at := self.next_free()) is not None and at <= now:
            key = heapq.heappop(self._heap)[1]
            del self._free_at[key]
            found.append(key)
        return found

    async def clean(
        self,
        queue_count: Callable[[str], int | None],
        has_group: Callable[[str], bool],
        now: int,
    ) -> None:
        """Forgets the batches of topics, groups and queues that are gone, and old ones; other tasks
        run meanwhile. `queue_count`: the queues that a topic is read from, None: there is no such
        topic. [autoClean]"""

        def look(key: QueueOfGroup) -> None:
            topic, group, queue_id = key
            batch = self.batch(*key)
            if batch is None:
                return
            count = queue_count(topic)
            is_gone = count is None or queue_id >= count or not has_group(group)
            if is_gone or now - batch.last_consumed > KEPT_MS:
                self._drop((topic, group), queue_id)

        await in_turns(self.queues(), look, LOOK)

    def _put(self, key: _Key, queue_id: int, batch: Batch) -> None:
        self._change(key)
        queues = self._batches.setdefault(key, {})
        self.count += queue_id not in queues
        queues[queue_id] = batch
        self._await(key, queue_id, batch)

    def _drop(self, key: _Key, queue_id: int) -> None:
        queues = self._batches[key]
        if len(queues) > 1:
            self._change(key)
            del queues[queue_id]
        else:
            self._rows.remove(key)
            del self._batches[key]
            self.changed()
        self.count -= 1
        self._free_at.pop((*key, queue_id), None)

    def _touch(self, key: _Key, queue_id: int, batch: Batch) -> None:
        """Marks a batch that has just changed. Rows say nothing of each other, so one in the file
        may be a little newer than the others."""
        self._change(key)
        self._await(key, queue_id, batch)

    def _change(self, key: _Key) -> None:
        self._rows.change(key)
        self.changed()

    def _await(self, key: _Key, queue_id: int, batch: Batch) -> None:
        """Notes when the queue becomes free. A batch that is done has just become so: whoever
        acknowledged its last message wakes the pops that wait."""
        place = (*key, queue_id)
        at = batch.free_at()
        if at is None:
            self._free_at.pop(place, None)
        elif self._free_at.get(place) != at:
            self._free_at[place] = at
            heapq.heappush(self._heap, (at, place))
        if len(self._heap) > 2 * len(self._free_at) + LOOK:
            self._heap = [(at, place) for place, at in self._free_at.items()]
            heapq.heapify(self._heap)

    def _row(self, key: _Key) -> bytes:
        return config_file.row(
            "@".join(key), {q: b.to_json() for q, b in self._batches[key].items()}
        )

    def to_json(self) -> dict[str, Any]:
        return {"table": self._rows.freeze()}


def _batches(queues: dict[Any, Any]) -> dict[int, Batch] | None:
    """The batches of a row of the file; None if one of them is none."""
    found = {}
    for queue, value in queues.items():
        queue_id, batch = as_int(queue, -1), Batch.from_json(value)
        if queue_id < 0 or queue_id >= 1 << 31 or batch is None:
            return None
        found[queue_id] = batch
    return found
