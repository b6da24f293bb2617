"""Where a group starts in a queue without an offset.
[RebalancePushImpl.computePullFromWhereWithException]

It differs from RocketMQ in two ways. If a group has offsets in other queues of the topic, it reads
a new queue from its first message, because the topic grew while the group was away. And with
LAST_OFFSET the end is fixed when the consumer opens, not when it first asks a broker.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass

import trio

from pyrmq.client.consumer.offsets import ConsumeFrom, OffsetStore, QueueBounds
from pyrmq.errors import PyrmqError
from pyrmq.escape import escape
from pyrmq.model.message import MessageQueue
from pyrmq.model.names import RETRY_PREFIX

log = logging.getLogger(__name__)

SKEW_MS = 60_000
"""How much the clocks of brokers and clients may differ. A message may be so much older than the
consumer, in a queue that did not exist when the consumer opened."""
SECOND_LOOK = 0.5
"""Seconds until a queue without an offset is checked again: another member of a new group may be
about to write it."""


@dataclass(slots=True)
class _Joined:
    """The state of a topic since a consumer shares it."""

    is_known: bool
    """Whether the group already had offsets in it."""
    entered: int | None = None
    """From when on no message may be missed, ms since 1970; None: no caller waits for that yet."""


class StartRule:
    """`timestamp` (ms) belongs to TIMESTAMP. A retry topic is read from its start, because its
    messages were sent back to this group."""

    def __init__(
        self, store: OffsetStore, bounds: QueueBounds, start_from: ConsumeFrom, timestamp: int
    ) -> None:
        self._store = store
        self._bounds = bounds
        self._from = start_from
        self._timestamp = timestamp
        self._topics: dict[str, _Joined] = {}

    def may_miss(self, topic: str) -> bool:
        """Whether messages of a topic are missed if its queues' start offsets are found late."""
        return self._from is ConsumeFrom.LAST_OFFSET and not topic.startswith(RETRY_PREFIX)

    async def join(self, topic: str) -> None:
        """Before brokers learn that this client shares a topic: finds out whether its group has
        offsets there. (Other members of a new group may write some at any time after that.)"""
        if self._from is ConsumeFrom.FIRST_OFFSET or topic.startswith(RETRY_PREFIX):
            return
        joined = self._topics[topic] = _Joined(is_known=False)
        try:
            joined.is_known = await self._store.has_any(topic)
        except PyrmqError as e:
            log.warning(
                "it is not known whether the group has offsets in topic %s: %s. Where it has none "
                "it starts as a new group (%s)",
                escape(topic), escape(e), escape(self._from),
            )  # fmt: skip

    def entered(self, topic: str) -> None:
        """From now on no message of the topic may be missed."""
        joined = self._topics.get(topic)
        if joined is not None:
            joined.entered = time.time_ns() // 1_000_000

    def left(self, topic: str) -> None:
        """The topic is not shared any more."""
        self._topics.pop(topic, None)

    async def start(self, queue: MessageQueue, stored: int | None) -> int:
        """The offset to begin at. `stored`: the offset in the store. Raises PyrmqError."""
        if stored is not None and stored >= 0:
            return stored
        if self._from is ConsumeFrom.FIRST_OFFSET or queue.topic.startswith(RETRY_PREFIX):
            return 0
        joined = self._topics.get(queue.topic)
        if joined is not None and joined.is_known:
            return await self._start_new(queue)
        if self._from is ConsumeFrom.TIMESTAMP:
            return await self._bounds.offset_at(queue, self._timestamp)
        if joined is None or joined.entered is None:
            return await self._bounds.max_offset(queue)
        return await self._bounds.offset_at(queue, joined.entered - SKEW_MS)

    async def _start_new(self, queue: MessageQueue) -> int:
        await trio.sleep(SECOND_LOOK)
        stored = await self._store.read(queue)
        if stored is not None and stored >= 0:
            return stored
        first = await self._bounds.min_offset(queue)
        log.info(
            "%s is new to the group, which has offsets in others of the topic: it is read from its "
            "first message, offset %d",
            escape(queue), first,
        )  # fmt: skip
        return first
