"""Sending messages of OpenMessaging, and promises of what a send will have come to.
[ProducerImpl, DefaultPromise]"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import Future
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, Generic, NoReturn, Self, TypeVar

import trio

from pyrmq.client.checks import check_seconds, check_trio
from pyrmq.client.producer import producer as producers
from pyrmq.client.producer.faults import select_by_hash
from pyrmq.client.user_functions import in_main_thread
from pyrmq.errors import ClientError, NotSupportedError
from pyrmq.model.message import Message as RocketMessage
from pyrmq.model.message import SendResult as RocketResult
from pyrmq.model.message import SendStatus
from pyrmq.net.tasks import Tasks
from pyrmq.oms.message import BytesMessage, Header, KeyValue, Value, to_rocketmq
from pyrmq.oms.settings import ON_TRIO, Attribute, Settings

log = logging.getLogger(__name__)

T = TypeVar("T")


def forward(promise: Promise[T], future: Future[T]) -> None:
    """Copies the result of a promise to the future of another thread."""

    def done(promise: Promise[T]) -> None:
        error = promise.exception()
        if error is None:
            future.set_result(promise.result())
        else:
            future.set_exception(error)

    promise.add_done_callback(done)


class Promise(Generic[T]):
    """A result that comes later: `await` it. Its methods have the names of
    concurrent.futures.Future."""

    def __init__(self) -> None:
        self._done = trio.Event()
        self._error: Exception | None = None
        self._results: list[T] = []
        self._callbacks: list[Callable[[Promise[T]], object]] = []

    def __await__(self) -> Generator[Any, Any, T]:
        yield from self._done.wait().__await__()
        return self.result()

    def done(self) -> bool:
        """Whether there is a result or an error."""
        return self._done.is_set()

    def result(self) -> T:
        """The result, without waiting. Raises its error, or ClientError while there is neither."""
        if self._error is not None:
            raise self._error
        if not self._results:
            raise ClientError("there is no result yet: `await` the promise")
        return self._results[0]

    def exception(self) -> Exception | None:
        """The error; None if there is a result. Raises ClientError while there is neither."""
        if self._error is None:
            self.result()
        return self._error

    def add_done_callback(self, function: Callable[[Promise[T]], object]) -> None:
        """Calls a plain function with this promise when it is done, or at once if it already is.
        What the function raises is logged."""
        if self.done():
            self._call(function)
        else:
            self._callbacks.append(function)

    def set_result(self, result: T) -> None:
        """For the code that made the promise."""
        self._results.append(result)
        self._finish()

    def set_exception(self, error: Exception) -> None:
        """For the code that made the promise."""
        self._error = error
        self._finish()

    def _finish(self) -> None:
        self._done.set()
        callbacks, self._callbacks = self._callbacks, []
        for function in callbacks:
            self._call(function)

    def _call(self, function: Callable[[Promise[T]], object]) -> None:
        try:
            function(self)
        except BaseException as e:
            if not isinstance(e, Exception) and in_main_thread():
                raise  # it ends the program
            log.exception("a callback of a promise failed")


MAX_PENDING = 1024
"""Most sends of `send_async` in flight; further ones wait."""
MAX_TIMEOUT = 2**31 / 1000
Converted = tuple[RocketMessage, str | None]


@dataclass(frozen=True, slots=True)
class SendResult:
    """message_id: the message's MESSAGE_ID. rocketmq: RocketMQ's result."""

    message_id: str
    rocketmq: RocketResult


class OfProducer:
    """What a producer refuses, on trio, for asyncio and for plain code."""

    def create_batch_message_sender(self) -> NoReturn:
        raise NotSupportedError("a batch sender is not supported: use send_batch of pyrmq.Producer")

    def send_in_transaction(self, *_: object) -> NoReturn:
        raise NotSupportedError(
            "sending in a transaction is not supported: use pyrmq.TransactionalProducer"
        )

    def add_interceptor(self, *_: object) -> NoReturn:
        raise NotSupportedError(
            "an interceptor is not supported: call `send` in a function of your own"
        )


class Producer(OfProducer):
    """Sends messages; an async context manager on trio. `MessagingAccessPoint.create_producer`
    creates it.

        async with access_point.create_producer() as producer:
            message = producer.create_bytes_message("Orders", b"...", user_headers={"region": "eu"})
            await producer.send(message)

    Closing waits for the sends that `send_async` has begun.
    """

    def __init__(self, settings: Settings) -> None:
        self._attributes = settings.attributes
        self._client = producers.Producer(
            settings.attributes[Attribute.PRODUCER_GROUP],
            namesrv=settings.url.namesrv,
            credentials=settings.credentials,
            tls=settings.tls,
            namespace=settings.url.namespace,
            send_timeout=settings.operation_timeout,
        )
        self._tasks = Tasks()
        self._slots = trio.Semaphore(MAX_PENDING)
        self._pending = 0
        self._idle = trio.Event()
        self._leaving = False
        self._entered = AsyncExitStack()

    @property
    def attributes(self) -> KeyValue:
        """The own attributes and the defaults; a copy."""
        return KeyValue(self._attributes)

    async def __aenter__(self) -> Self:
        check_trio(*ON_TRIO)
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._client)
            await stack.enter_async_context(self._tasks)
            self._entered = stack.pop_all()
        return self

    async def __aexit__(self, *error: Any) -> None:
        self._leaving = True
        try:
            while self._pending:
                self._idle = trio.Event()
                await self._idle.wait()
        finally:
            await self._entered.__aexit__(*error)

    @staticmethod
    def create_bytes_message(
        queue: str,
        body: bytes,
        *,
        user_headers: Mapping[str, Value] | None = None,
        sys_headers: Mapping[str, Value] | None = None,
    ) -> BytesMessage:
        """A message to a queue (a topic); as `BytesMessage`."""
        return BytesMessage(queue, body, user_headers=user_headers, sys_headers=sys_headers)

    async def send(self, message: BytesMessage, *, timeout: float | None = None) -> SendResult:
        """Sends a message and waits until the broker has it; then the message has a MESSAGE_ID.

        timeout: seconds, instead of OPERATION_TIMEOUT. Raises NotSupportedError and NotSentError
        before sending, ClientError if the broker stored the message with a status other than
        SEND_OK, and otherwise as `pyrmq.Producer.send`.
        """
        self._check_entered()
        return await self._send(message, to_rocketmq(message), timeout)

    async def send_async(
        self, message: BytesMessage, *, timeout: float | None = None
    ) -> Promise[SendResult]:
        """Begins to send; `await promise` gives the result of `send`. Headers that cannot be sent
        raise at once. It waits while 1024 of these sends are in flight."""
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
        """Sends without waiting for an answer, so a lost message is not noticed. Raises as
        `pyrmq.Producer.send_oneway`, and NotSupportedError."""
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
