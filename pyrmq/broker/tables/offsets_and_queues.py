"""Consumer offsets beside what queues hold: offsets that lead, queues that are new to a group, and
messages that retention deleted before they were consumed.

Offsets that lead stand behind the end of their queue, and are set back at the start. A power cut
with ASYNC_FLUSH takes messages that were consumed, and a restored file may be of another time than
the store. Without this a group would skip the messages that come next.

A queue is new to a group if the topic got it, or its broker, while the group was away. Apache's
broker leaves it to the client where a group starts in a queue without an offset, which by default
is behind the last message: what came while the group was away is skipped.

Messages that were deleted unread are counted and logged by group. Nothing is done while no file is
deleted. A pull from an offset that is gone is moved to the first message that is left, so nobody
else would say what was skipped."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

import trio

from pyrmq.broker.config.broker_config import LiveConfig
from pyrmq.broker.tables.offsets import OffsetTable
from pyrmq.broker.tables.topics import TopicTable
from pyrmq.engine import Store
from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.model.names import OWN_OFFSETS, is_system_group

log = logging.getLogger(__name__)

EndOf = Callable[[str, int], int | None]
"""By topic and queue the offset of the next message, None if that is not known."""


def bring_back_to_store(offsets: OffsetTable, topics: TopicTable, store: Store) -> None:
    """Sets offsets back that are behind what their queues have. Messages that no slave is known to
    have count as well: consumers that were further wait at their place."""
    ends = {(topic, queue): store.queue_end(topic, queue) for topic, queue, _, _ in store.queues()}

    def end_of(topic: str, queue: int) -> int | None:
        unused = 0 if topics.get(topic) is not None else None
        return ends.get((topic, queue), unused)

    bring_back(offsets, end_of)


def bring_back(offsets: OffsetTable, end_of: EndOf) -> int:
    """Sets offsets behind the end of their queue back to it. Logs each with both values; returns
    how many."""
    offsets.take_granted()
    count = 0
    for (topic, group), queues in offsets.offsets.items():
        if group in OWN_OFFSETS:
            continue  # the engine checks these
        leading = {
            queue: (offset, end)
            for queue, offset in queues.items()
            if (end := end_of(topic, queue)) is not None and offset > end
        }
        if not leading:
            continue
        moved = ", ".join(
            f"queue {queue} at {end} instead of {offset}"
            for queue, (offset, end) in sorted(leading.items())
        )
        log.error(
            "%s leads: group %s continues topic %s at the end of its queues: %s",
            escape(offsets.path.name),
            escape(group),
            escape(topic),
            escape(moved),
            extra=about(topic=topic, group=group),
        )
        offsets.set_back(topic, group, {queue: end for queue, (_, end) in leading.items()})
        count += len(leading)
    count += _bring_back_resets(offsets, end_of)
    if count:
        offsets.new_version()
    return count


def _bring_back_resets(offsets: OffsetTable, end_of: EndOf) -> int:
    """The same of resets that a group has not heard of: its next pull is sent there."""
    count = 0
    for (topic, group, queue), offset in list(offsets.resets.items()):
        end = end_of(topic, queue)
        if end is not None and offset > end:
            log.error(
                "%s leads: group %s was reset in queue %d of topic %s to %d, it is sent to %d",
                escape(offsets.path.name),
                escape(group),
                queue,
                escape(topic),
                offset,
                end,
                extra=about(queue=queue, topic=topic, group=group),
            )
            offsets.resets[topic, group, queue] = end
            count += 1
    return count


YOUNG = 60.0
"""Seconds after the first offset of a group in a topic in which its members may still be starting:
a queue without an offset is then none that is new, unless the topic has grown meanwhile."""
MAX_YOUNG = 65_536
"""Groups and topics of which that is known at a time; the oldest are forgotten first."""


@dataclass(frozen=True, slots=True)
class _Began:
    at: float
    queues: int
    """Queues that the topic had."""


class NewQueues:
    def __init__(
        self,
        live: LiveConfig,
        topics: TopicTable,
        offsets: OffsetTable,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._live = live
        self._topics = topics
        self._offsets = offsets
        self._clock = clock
        self._young: dict[tuple[str, str], _Began] = {}
        offsets.watch_first(self._began)

    def _began(self, topic: str, group: str) -> None:
        """A client commits the first offset of its group in a topic."""
        now, young = self._clock(), self._young
        while young:
            oldest = next(iter(young))
            if now - young[oldest].at <= YOUNG and len(young) < MAX_YOUNG:
                break
            del young[oldest]
        known = self._topics.get(topic)
        young.pop((topic, group), None)
        young[topic, group] = _Began(now, 0 if known is None else known.read_queue_nums)

    def is_new(self, topic: str, group: str, queue_id: int) -> bool:
        """Whether a queue that a group has no offset in is to be read from its first message."""
        config = self._live.now
        # A slave may not have heard of an offset yet.
        if not config.new_queues_from_first_message or config.is_slave:
            return False
        known = self._topics.get(topic)
        if known is None or queue_id >= self._topics.queues_of(known):
            return False
        if not self._offsets.all_of(topic, group):
            return False
        began = self._young.get((topic, group))
        return began is None or self._clock() - began.at > YOUNG or queue_id >= began.queues


LOOK_PERIOD = 1.0
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
            await trio.sleep(LOOK_PERIOD)
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
        await self._offsets.take_granted_in_turns()
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
                extra=about(topic=topic, group=group),
            )
        if len(ordered) > MOST_LINES:
            rest = ordered[MOST_LINES:]
            log.error(
                "%d more groups of topics lost %d messages in the same way",
                len(rest),
                sum(missed for _, missed in rest),
            )
