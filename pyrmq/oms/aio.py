"""OpenMessaging for asyncio: the same names as `pyrmq.oms`, and each call is awaited.

    from pyrmq.oms.aio import MessagingAccessPoint

    access_point = MessagingAccessPoint("oms:rocketmq://127.0.0.1:9876/default")
    async with access_point.create_producer() as producer:
        await producer.send(producer.create_bytes_message("Orders", b"Hello"))

The clients run on the background thread of `pyrmq.aio`. Cancelling a task cancels its call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

from pyrmq.aio import _bridge
from pyrmq.aio_face import Client, awaited
from pyrmq.background import C, as_async, complete
from pyrmq.client.checks import check_function
from pyrmq.client.user_functions import is_async
from pyrmq.oms import producer as producers
from pyrmq.oms import pull_consumer as pull_consumers
from pyrmq.oms import push_consumer as push_consumers
from pyrmq.oms.access_point import AccessPoint
from pyrmq.oms.access_point import MessagingAccessPoint as _OnTrio
from pyrmq.oms.consumer import Consumer, OfConsumer
from pyrmq.oms.message import BytesMessage, KeyValue, Value
from pyrmq.oms.producer import OfProducer, SendResult
from pyrmq.oms.push_consumer import LISTENER, Listener
from pyrmq.oms.settings import Kind

K = TypeVar("K", bound=Consumer[Any])


class _Lifecycle(Client[C]):
    def __init__(self, client: C) -> None:
        super().__init__(client)
        self._leaving = asyncio.Lock()

    async def startup(self) -> None:
        """The same as entering an `async with`."""
        await self.__aenter__()

    async def shutdown(self) -> None:
        """The same as leaving an `async with`. Does nothing if it was not started, or is already
        shut down."""
        await self.__aexit__(None, None, None)

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        async with self._leaving:  # of several tasks the first one leaves, the others wait for it
            if self._opened is not None:
                await super().__aexit__(kind, error, trace)


class Producer(OfProducer, _Lifecycle[producers.Producer]):
    __doc__ = producers.Producer.__doc__

    create_bytes_message = staticmethod(producers.Producer.create_bytes_message)
    send = awaited(producers.Producer.send)
    send_oneway = awaited(producers.Producer.send_oneway)

    async def send_async(
        self, message: BytesMessage, *, timeout: float | None = None
    ) -> asyncio.Future[SendResult]:
        """Begins to send; `await future` gives the result of `send`. Headers that cannot be sent
        raise at once. It waits while 1024 of these sends are in flight. Cancelling the future does
        not cancel the send."""
        future: Future[SendResult] = Future()
        future.set_running_or_notify_cancel()  # it cannot be cancelled
        await asyncio.wrap_future(
            self._submit(producers.begin, self._client, message, timeout, future)
        )
        return asyncio.wrap_future(future)

    @property
    def attributes(self) -> KeyValue:
        """The own attributes and the defaults; a copy."""
        return self._client.attributes


class _Consumer(OfConsumer, _Lifecycle[K]):
    @property
    def attributes(self) -> KeyValue:
        """The own attributes and the defaults; a copy."""
        return self._client.attributes

    async def detach_queue(self, queue: str) -> None:
        """Stops consuming a queue; other members of the group get its messages. Raises ClientError
        if it is not attached."""
        if not self._was_opened:
            self._client.detach_first(queue)
        else:
            await asyncio.wrap_future(self._submit(self._client.detach_queue, queue))


class PushConsumer(_Consumer[push_consumers.PushConsumer]):
    """As `pyrmq.oms.PushConsumer`; async listeners run in the asyncio loop in which it was opened,
    plain ones in worker threads."""

    async def attach_queue(self, queue: str, listener: Listener) -> None:
        """Consumes a queue (a topic), before or after opening. listener: a function of a message
        and a `Context`, async or plain. Raises ClientError if the queue is already attached."""
        check_function("listener", listener, LISTENER)
        called = _bridge(listener, self._calls) if is_async(listener) else listener
        if not self._was_opened:
            self._client.attach_first(queue, called)
        else:
            await asyncio.wrap_future(self._submit(self._client.attach_queue, queue, called))

    suspend: Callable[[], Coroutine[Any, Any, None]]
    resume: Callable[[], Coroutine[Any, Any, None]]
    is_suspended: Callable[[], Coroutine[Any, Any, bool]]


class PullConsumer(_Consumer[pull_consumers.PullConsumer]):
    """As `pyrmq.oms.PullConsumer`. Limit `receive` by its `timeout`: a message that a cancelled
    `receive` had already taken comes again only after `rmq.message.consume.timeout`."""

    async def attach_queue(self, queue: str) -> None:
        """Consumes a queue (a topic), before or after opening. Raises ClientError if it is already
        attached."""
        if not self._was_opened:
            self._client.attach_first(queue, None)
        else:
            await asyncio.wrap_future(self._submit(self._client.attach_queue, queue))

    receive = awaited(pull_consumers.PullConsumer.receive)
    ack = awaited(as_async(pull_consumers.PullConsumer.ack))


_FIRST = {"attach_first", "detach_first"}
complete(PushConsumer, push_consumers.PushConsumer, awaited, _FIRST)


class MessagingAccessPoint(AccessPoint):
    """As `pyrmq.oms.MessagingAccessPoint`, for asyncio."""

    def create_producer(self, attributes: Mapping[str, Value] | None = None) -> Producer:
        return Producer(producers.Producer(self._settings(attributes, Kind.PRODUCER)))

    def create_push_consumer(self, attributes: Mapping[str, Value] | None = None) -> PushConsumer:
        client = push_consumers.PushConsumer(self._settings(attributes, Kind.PUSH_CONSUMER))
        return PushConsumer(client)

    def create_pull_consumer(self, attributes: Mapping[str, Value] | None = None) -> PullConsumer:
        client = pull_consumers.PullConsumer(self._settings(attributes, Kind.PULL_CONSUMER))
        return PullConsumer(client)

    create_producer.__doc__ = _OnTrio.create_producer.__doc__
    create_push_consumer.__doc__ = _OnTrio.create_push_consumer.__doc__
    create_pull_consumer.__doc__ = _OnTrio.create_pull_consumer.__doc__
