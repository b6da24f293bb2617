"""Messages that retention deleted before groups had consumed them: counted and logged by group.

Nothing is done while no file is deleted. A pull from an offset that is gone is moved to the first
message that is left, so nobody else would say what was skipped.
"""

from __future__ import annotations

import logging

import trio

from pyrmq.broker.tables.offsets import OffsetTable
from pyrmq.broker.tables.topics import TopicTable
from pyrmq.engine import Store
from pyrmq.escape import escape
from pyrmq.model.names import is_system_group

log = logging.getLogger(__name__)

PERIOD = 1.0
"""Seconds between two looks at where the log begins."""
LOOKS = (1, 3, 10, 30)
"""At these numbers of periods after a file of the log went, queues are compared: they are trimmed a
little later than the log."""
MOST = 65_536
"""Queues of groups of which is kept how far they are counted, and groups of which is counted."""
MOST_LINES = 20
"""Groups and topics that are logged one by one, of those that one look finds."""
AT_ONCE = 256
"""Groups of topics that are compared before other tasks run."""


class DeletedUnread:
    """Compares the beginnings of queues with what groups have committed."""

    def __init__(self, store: Store, topics: TopicTable, offsets: OffsetTable) -> None:
        self._store = store
        self._topics = topics
        self._offsets = offsets
        self._counted: dict[tuple[str, str, int], int] = {}
        """By topic, group and queue, where the group is behind the queue's beginning: up to which
        offset its messages are counted."""
        self._groups: dict[str, int] = {}
        self.total = 0
        """Messages, of all groups, since the broker's start."""

    def of_group(self, group: str) -> int:
        """Messages that were deleted before a group consumed them, since the broker's start."""
        return self._groups.get(group, 0)

    async def run(self) -> None:
        """Counts until cancelled. Messages that were deleted before are not counted."""
        begins = self._begins()
        await self.look(count=False)
        since = max(LOOKS) + 1
        while True:
            await trio.sleep(PERIOD)
            since += 1
            if self._begins() != begins:
                begins, since = self._begins(), 1
            if since in LOOKS:
                await self.look()

    def _begins(self) -> int:
        """Where the log begins."""
        found: int = self._store.stats()["minPhyOffset"]
        return found

    async def look(self, *, count: bool = True) -> None:
        """Counts what has been deleted since the last look. Other tasks run meanwhile."""
        self._offsets.take_granted()
        found: dict[tuple[str, str], int] = {}
        counted: dict[tuple[str, str, int], int] = {}
        pairs = list(self._offsets.offsets)
        for start in range(0, len(pairs), AT_ONCE):
            for topic, group in pairs[start : start + AT_ONCE]:
                if not is_system_group(group) and self._topics.get(topic) is not None:
                    missed = self._compare(topic, group, counted)
                    if missed:
                        found[topic, group] = missed
            await trio.lowlevel.checkpoint()
        self._counted = counted
        if count and found:
            self._tell(found)

    def _compare(self, topic: str, group: str, counted: dict[tuple[str, str, int], int]) -> int:
        """How many messages of a topic are gone that the group has not consumed and that were not
        counted before. Adds to `counted`, which replaces what was counted before."""
        missed = 0
        for queue_id, committed in self._offsets.all_of(topic, group).items():
            if queue_id < 0:
                continue
            low, _ = self._store.queue_range(topic, queue_id)
            if committed >= low:
                continue
            place = (topic, group, queue_id)
            missed += max(low - max(committed, self._counted.get(place, 0)), 0)
            if len(counted) < MOST:
                counted[place] = low
        return missed

    def _tell(self, found: dict[tuple[str, str], int]) -> None:
        ordered = sorted(found.items(), key=lambda item: -item[1])
        for (_, group), missed in ordered:
            self.total += missed
            if group in self._groups or len(self._groups) < MOST:
                self._groups[group] = self._groups.get(group, 0) + missed
        for (topic, group), missed in ordered[:MOST_LINES]:
            log.error(
                "group %s lost %d messages of topic %s: they were deleted before it consumed them",
                escape(group),
                missed,
                escape(topic),
            )
        if len(ordered) > MOST_LINES:
            rest = ordered[MOST_LINES:]
            log.error(
                "%d more groups of topics lost %d messages in the same way",
                len(rest),
                sum(missed for _, missed in rest),
            )
