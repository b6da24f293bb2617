"""Receiving messages on request. [PullConsumerImpl, LocalMessageCache]"""

from __future__ import annotations

import logging
from collections import deque
from typing import Self

import trio

from pyrmq.client.checks import check_seconds
from pyrmq.client.consumer.offsets import ConsumeFrom
from pyrmq.errors import ClientError, ResponseError
from pyrmq.escape import escape
from pyrmq.model.record import ReceivedMessage
from pyrmq.oms.consumer import Consumer
from pyrmq.oms.message import BytesMessage, from_rocketmq
from pyrmq.oms.settings import Attribute, Settings

log = logging.getLogger(__name__)

EXPIRED_LEVEL = 3
"""Delay level of messages that were not acknowledged in time."""
MAX_TIMEOUT = 2**31 / 1000


class PullConsumer(Consumer[None]):
    """Returns messages on request, as a member of the group CONSUMER_ID; an async context manager
    on trio. `MessagingAccessPoint.create_pull_consumer` creates it.

        async with access_point.create_pull_consumer({"CONSUMER_ID": "group"}) as consumer:
            await consumer.attach_queue("Orders")
            while (message := await consumer.receive()) is not None:
                ...
                consumer.ack(message)

    `ack` acknowledges a message. A message that is not acknowledged within
    `rmq.message.consume.timeout` (15) minutes goes back to the broker and is delivered again; after
    `rmq.max.redelivery.times` (16) further deliveries it goes to the group's dead-letter topic.
    Messages that are not acknowledged when the consumer closes are delivered again too.

    The consumer pulls messages ahead, at most `rmq.pull.message.batch.nums` (32) at a time, until
    `rmq.pull.message.cache.capacity` (1000) of a queue of a broker are not acknowledged. A new
    group starts at the first message of a topic.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__(
            settings,
            None,
            consume_from=ConsumeFrom.FIRST_OFFSET,
            pull_batch_size=settings.whole(Attribute.PULL_MESSAGE_BATCH_NUMS),
            max_cached_messages=settings.whole(Attribute.PULL_MESSAGE_CACHE_CAPACITY),
        )
        self._operation_timeout = settings.operation_timeout
        self._open: dict[str, deque[tuple[ReceivedMessage, float]]] = {}
        """Unacknowledged messages by MESSAGE_ID, with the time when it is too late."""

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self._tasks.start_soon(self._watch)
        return self

    async def attach_queue(self, queue: str) -> None:
        """Consumes a queue (a topic), before or after opening. Raises ClientError if it is already
        attached."""
        self.attach_first(queue, None)
        await self._subscribe(queue)

    async def receive(self, *, timeout: float | None = None) -> BytesMessage | None:
        """The next message; None if none arrived within `timeout` seconds, by default
        OPERATION_TIMEOUT. Raises ClientError after closing."""
        self._client.check_entered()
        seconds = self._operation_timeout
        if timeout is not None:
            check_seconds("timeout", timeout, 0.001, MAX_TIMEOUT)
            seconds = timeout
        received = None
        with trio.move_on_after(seconds):
            _, received = await self._client.take()
        if received is None:
            return None
        until = trio.current_time() + self._consume_timeout
        self._open.setdefault(received.msg_id, deque()).append((received, until))
        return from_rocketmq(received, self._namespace)

    def ack(self, message: BytesMessage | str) -> None:
        """Acknowledges a message, or the one with a MESSAGE_ID. Offsets are written every five
        seconds and when the consumer closes. Raises ClientError if the message does not wait for it
        here."""
        self._client.check_entered()
        name = message.message_id if isinstance(message, BytesMessage) else message
        entries = self._open.get(name) if isinstance(name, str) else None
        if not entries:
            raise ClientError(
                f"message {name!r:.80} is not open: it was not received here, is acknowledged "
                "already, or went back after the consume timeout"
            )
        received, _ = entries[0]
        self._forget(received)
        self._client.acknowledge(received)

    async def _watch(self) -> None:
        """Sends back messages that were not acknowledged in time."""
        while True:
            await trio.sleep(min(self._consume_timeout / 10, 10.0))
            now = trio.current_time()
            for entries in list(self._open.values()):
                for received, until in list(entries):
                    if until <= now:
                        await self._give_back(received)

    async def _give_back(self, received: ReceivedMessage) -> None:
        log.warning(
            "message %s was not acknowledged in %g s: it goes back",
            escape(received.msg_id), self._consume_timeout,
        )  # fmt: skip
        try:
            await self._client.send_back(received, delay_level=EXPIRED_LEVEL)
        except (ConnectionError, TimeoutError, ResponseError) as e:
            log.warning("message %s not sent back: %s", escape(received.msg_id), escape(e))
            return  # it is tried again later
        except ClientError as e:  # it was acknowledged, or another member has its queue
            log.info("message %s: %s", escape(received.msg_id), escape(e))
        self._forget(received)

    def _forget(self, received: ReceivedMessage) -> None:
        name = received.msg_id
        left = deque(entry for entry in self._open.get(name, ()) if entry[0] is not received)
        if left:
            self._open[name] = left
        else:
            self._open.pop(name, None)
