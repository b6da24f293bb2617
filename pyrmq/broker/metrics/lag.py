"""How far a group is behind in a topic: messages, by its offsets; ms, by the messages' store times.
[ConsumerLagCalculator]
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Sequence

import trio

from pyrmq.broker.tables.tables import Tables
from pyrmq.engine import Store
from pyrmq.net.clock import now_ms

ASKING = 1.0
"""Seconds for which the store is asked how old messages are, for one page."""

Place = tuple[str, int, int]
"""Topic, queue and queue offset of a message."""


class Lags:
    """Of one page: where the queues of topics end is asked once."""

    def __init__(self, store: Store, tables: Tables) -> None:
        self._queue_end = store.native.queue_end
        self._topics = tables.topics.table
        self._first_offset = tables.topics.table.deleted.first_offset
        self._offsets = tables.offsets
        self._consumers = tables.clients.consumers
        self._pulled = tables.offsets.expected
        self._ends: dict[str, array[int]] = {}  # arrays, as the garbage collector passes them by

    def exists(self, topic: str) -> bool:
        return self._topics.get(topic) is not None

    def is_wanted(self, topic: str, group: str) -> bool:
        """Whether a group may be behind in a topic: it has no members now, or they subscribe to
        the topic."""
        live = self._consumers.get(group)
        return live is None or not live.subscriptions or topic in live.subscriptions

    def behind(self, topic: str, group: str) -> tuple[int, int]:
        """Messages that the group has not committed, and those of them that nobody has got, for
        metrics. Queues without an offset do not count: the group has not begun them."""
        queues = self._offsets.offsets.get((topic, group))
        if not queues:
            return 0, 0
        ends = self._ends.get(topic)
        if ends is None:
            ends = self._ends_of(topic)
        lag = ready = 0
        for queue, offset in queues.items():
            if queue < len(ends) and offset < (end := ends[queue]):
                lag += end - offset
                following = self._pulled.get((topic, group, queue), 0)
                if following < end:
                    ready += end - (following if following > offset else offset)
        return lag, ready

    def not_consumed(self, topic: str, group: str) -> int:
        """The lag as GET_CONSUME_STATS and GET_BROKER_CONSUME_STATS tell it: a queue without an
        offset of the group counts from its first message."""
        queues = self._offsets.offsets.get((topic, group), {})
        ends = self._ends.get(topic)
        if ends is None:
            ends = self._ends_of(topic)
        lag = 0
        for queue, end in enumerate(ends):
            if end > 0:
                offset = queues.get(queue)
                if offset is None:
                    offset = self._first_offset(topic, queue)
                lag += max(end - offset, 0)
        return lag

    def _ends_of(self, topic: str) -> array[int]:
        known, end = self._topics.get(topic), self._queue_end
        queues = 0 if known is None else self._topics.queues_of(known)
        ends = self._ends[topic] = array("q", [end(topic, queue) for queue in range(queues)])
        return ends

    def first(self, topic: str, group: str) -> tuple[list[Place], list[Place]]:
        """In each queue the first message that the group has not committed, and the first that
        nobody has got."""
        uncommitted: list[Place] = []
        unread: list[Place] = []
        ends = self._ends.get(topic) or self._ends_of(topic)
        for queue, offset in self._offsets.offsets.get((topic, group), {}).items():
            if queue < len(ends) and offset < ends[queue]:
                uncommitted.append((topic, queue, offset))
                following = max(offset, self._pulled.get((topic, group, queue), 0))
                if following < ends[queue]:
                    unread.append((topic, queue, following))
        return uncommitted, unread


class Ages:
    """How old messages are. It asks the store in a thread, as pages may have to be read, and
    remembers from page to page: a group that stands still is not asked for again."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[Place, int] = {}
        """Store times, of what the last page asked for."""

    async def ask(self, places: Sequence[Place]) -> None:
        """Finds the store times of these messages, of which `oldest` then knows."""
        before = self._known
        unknown = [place for place in places if place not in before]
        found = await trio.to_thread.run_sync(self._times, unknown) if unknown else {}
        self._known = found | {place: before[place] for place in places if place in before}

    def _times(self, places: list[Place]) -> dict[Place, int]:
        times = {}
        end = time.monotonic() + ASKING
        for place in places:
            if time.monotonic() >= end:
                break  # the next page asks for the rest
            try:
                at = self._store.store_time(*place)
            except OSError:  # the file was deleted meanwhile
                continue
            if at > 0:
                times[place] = at
        return times

    def oldest(self, places: Sequence[Place]) -> int:
        """Age of the oldest of these messages, ms; 0 if there is none."""
        times = [self._known[place] for place in places if place in self._known]
        return max(now_ms() - min(times), 0) if times else 0
