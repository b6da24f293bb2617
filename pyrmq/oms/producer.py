"""Sending messages of OpenMessaging. [ProducerImpl]"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Self

import trio

from pyrmq.client.checks import check_seconds
from pyrmq.client.producer import producer as producers
from pyrmq.client.producer.select import select_by_hash
from pyrmq.errors import ClientError
from pyrmq.model.message import Message as RocketMessage
from pyrmq.model.message import SendResult as RocketResult
from pyrmq.model.message import SendStatus
from pyrmq.net.tasks import Tasks
from pyrmq.oms.attributes import Attribute, Settings
from pyrmq.oms.entering import enter
from pyrmq.oms.key_value import KeyValue, Value
from pyrmq.oms.message import BytesMessage, Header, to_rocketmq
from pyrmq.oms.promise import Promise, forward
from pyrmq.oms.unsupported import OfProducer

MAX_PENDING = 1024
"""Sends of `send_async` at a time; further ones wait."""
MAX_TIMEOUT = 2**31 / 1000
Converted = tuple[RocketMessage, str | None]


@dataclass(frozen=True, slots=True)
class SendResult:
    """message_id: what the message has as MESSAGE_ID. rocketmq: where it went."""

    message_id: str
    rocketmq: RocketResult


class Producer(OfProducer):
    """Sends messages; an async context manager on trio. `MessagingAccessPoint.create_producer`
    makes it.

        async with access_point.create_producer() as producer:
            message = producer.create_bytes_message("Orders", b"...", user_headers={"region": "eu"})
            await producer.send(message)

    Leaving it waits for what `send_async` has begun.
    """

    def __init__(self, settings: Settings) -> None:
        self._attributes = settings.attributes
        self._client = producers.Producer(
            settings.attributes[Attribute.PRODUCER_GROUP],
            namesrv=settings.url.namesrv,
            namespace=settings.url.namespace,
            send_timeout=settings.operation_timeout,
        )
        self._tasks = Tasks()
        self._slots = trio.Semaphore(MAX_PENDING)
        self._pending = 0
        self._idle = trio.Event()
        self._leaving = False

    @property
    def attributes(self) -> KeyValue:
        """What it was made with, and the defaults; a copy."""
        return KeyValue(self._attributes)

    async def __aenter__(self) -> Self:
        await enter(self._client, self._tasks)
        return self

    async def __aexit__(self, *error: object) -> None:
        self._leaving = True
        try:
            while self._pending:
                self._idle = trio.Event()
                await self._idle.wait()
        finally:
            try:
                await self._tasks.__aexit__(*error)
            finally:
                await self._client.__aexit__(*error)

    @staticmethod
    def create_bytes_message(
        queue: str,
        body: bytes,
        *,
        user_headers: Mapping[str, Value] | None = None,
        sys_headers: Mapping[str, Value] | None = None,
    ) -> BytesMessage:
        """A message to a queue, which is a topic; as `BytesMessage`."""
        return BytesMessage(queue, body, user_headers=user_headers, sys_headers=sys_headers)

    async def send(self, message: BytesMessage, *, timeout: float | None = None) -> SendResult:
        """Sends a message and waits until the broker has it; then it has a MESSAGE_ID.

        timeout: seconds instead of OPERATION_TIMEOUT. Raises as `pyrmq.Producer.send`, before
        anything is sent NotSupportedError and NotSentError; and ClientError where the broker has
        the message, but not as safely as it is configured to.
        """
        self._check_entered()
        return await self._send(message, to_rocketmq(message), timeout)

    async def send_async(
        self, message: BytesMessage, *, timeout: float | None = None
    ) -> Promise[SendResult]:
        """Begins to send: `await promise` gives what `send` gives. Headers that cannot be sent are
        an error at once. Waits while 1024 of these sends are under way."""
        self._check_entered()
        converted = to_rocketmq(message)
        await self._slots.acquire()
        promise: Promise[SendResult] = Promise()
        try:
            self._check_entered()  # it may have been left meanwhile
        except BaseException:
            self._slots.release()
            raise
        self._pending += 1
        self._tasks.start_soon(self._fulfil, promise, message, converted, timeout)
        return promise

    async def send_oneway(self, message: BytesMessage) -> None:
        """Sends without waiting for an answer: it may be lost without a word. What is known at
        once is an error: as `pyrmq.Producer.send_oneway`, and NotSupportedError."""
        self._check_entered()
        converted, key = to_rocketmq(message)
        queue = None
        if key is not None:
            queue = select_by_hash(key)(await self._client.queues(converted.topic))
        await self._client.send_oneway(converted, queue=queue)

    async def _send(
        self, message: BytesMessage, converted: Converted, timeout: float | None
    ) -> SendResult:
        if timeout is not None:
            check_seconds("timeout", timeout, 0.001, MAX_TIMEOUT)
        rocketmq, key = converted
        sent = await self._client.send(rocketmq, sharding_key=key, timeout=timeout)
        message.sys_headers[Header.MESSAGE_ID] = sent.msg_id
        if sent.status is not SendStatus.SEND_OK:
            raise ClientError(
                f"the broker has message {sent.msg_id}, but answered {sent.status}: not as safely "
                "as it is configured to"
            )
        return SendResult(sent.msg_id, sent)

    async def _fulfil(
        self,
        promise: Promise[SendResult],
        message: BytesMessage,
        converted: Converted,
        timeout: float | None,
    ) -> None:
        try:
            result = await self._send(message, converted, timeout)
        except Exception as e:
            promise.set_exception(e)
        except BaseException:
            promise.set_exception(ClientError("the producer was left before an answer came"))
            raise
        else:
            promise.set_result(result)
        finally:
            self._slots.release()
            self._pending -= 1
            if not self._pending:
                self._idle.set()

    def _check_entered(self) -> None:
        if self._leaving or not self._tasks.running:
            raise ClientError("not connected: use the producer inside of its `with`")


async def begin(
    client: Producer, message: BytesMessage, timeout: float | None, future: Future[SendResult]
) -> None:
    """`send_async` for another thread, which has the future of its promise."""
    forward(await client.send_async(message, timeout=timeout), future)
