"""Queues that are new to a group: the topic got them, or their broker, while the group was away.

Apache's broker leaves it to the client where a group starts in a queue without an offset, which by
default is behind the last message: what came while the group was away is skipped.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from pyrmq.broker.config.broker_config import LiveConfig
from pyrmq.broker.tables.offsets import OffsetTable
from pyrmq.broker.tables.topics import TopicTable

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
