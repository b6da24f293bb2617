"""A group's offsets, kept by the brokers. [RemoteBrokerOffsetStore]"""

from __future__ import annotations

import logging
from enum import Enum

from pyrmq.client.instance import ClientInstance
from pyrmq.errors import PyrmqError, QueryNotFoundError
from pyrmq.escape import escape
from pyrmq.model.codes import RequestCode
from pyrmq.model.message import MessageQueue
from pyrmq.net.answer import number

log = logging.getLogger(__name__)


class ConsumeFrom(Enum):
    """Where a group starts in a queue of which the broker knows no offset for it: behind the last
    message, at the first one, or at the first that was stored at or after a time. As text its name.
    [ConsumeFromWhere]"""

    LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
    FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
    TIMESTAMP = "CONSUME_FROM_TIMESTAMP"

    def __str__(self) -> str:
        return self.name


class BrokerOffsets:
    """Reads and writes the offsets of one group. `timestamp` (ms) belongs to TIMESTAMP."""

    def __init__(
        self, client: ClientInstance, group: str, start_from: ConsumeFrom, timestamp: int
    ) -> None:
        self._client = client
        self._group = group
        self._from = start_from
        self._timestamp = timestamp

    async def start(self, queue: MessageQueue) -> tuple[int, bool]:
        """Where to start, and whether the broker knew it."""
        channel = await self._client.master(queue.topic, queue.broker_name)
        place: dict[str, str | int | bool] = {"topic": queue.topic, "queueId": queue.queue_id}
        try:
            answer = await channel.request(
                RequestCode.QUERY_CONSUMER_OFFSET, {**place, "consumerGroup": self._group}
            )
        except QueryNotFoundError:
            if self._from is ConsumeFrom.FIRST_OFFSET:
                return 0, False
            if self._from is ConsumeFrom.LAST_OFFSET:
                answer = await channel.request(RequestCode.GET_MAX_OFFSET, place)
            else:
                answer = await channel.request(
                    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, {**place, "timestamp": self._timestamp}
                )
            return number(answer, "offset"), False
        return number(answer, "offset"), True

    async def commit(self, queue: MessageQueue, offset: int) -> None:
        """Writes the next offset to consume; a failure is logged, the next commit covers it."""
        try:
            channel = await self._client.master(queue.topic, queue.broker_name)
            await channel.request(
                RequestCode.UPDATE_CONSUMER_OFFSET,
                {
                    "consumerGroup": self._group,
                    "topic": queue.topic,
                    "queueId": queue.queue_id,
                    "commitOffset": offset,
                },
            )
        except PyrmqError as e:
            log.warning("offset of %s not written: %s", escape(queue), escape(e))
