"""OpenMessaging for blocking code: the same names, and each call blocks.

    from pyrmq.oms.sync import MessagingAccessPoint

    access_point = MessagingAccessPoint("oms:rocketmq://127.0.0.1:9876/default")
    with access_point.create_producer() as producer:
        producer.send(producer.create_bytes_message("Orders", b"Hello"))

The clients run on the background thread of `pyrmq.sync`. Programs that cannot use `with` call
`startup` and `shutdown`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

from pyrmq.background import C, complete
from pyrmq.client.checks import check_function
from pyrmq.client.user_functions import is_async
from pyrmq.errors import ClientError
from pyrmq.oms import producer as producers
from pyrmq.oms import pull_consumer as pull_consumers
from pyrmq.oms import push_consumer as push_consumers
from pyrmq.oms.access_point import AccessPoint
from pyrmq.oms.access_point import MessagingAccessPoint as _OnTrio
from pyrmq.oms.consumer import Consumer, OfConsumer
from pyrmq.oms.message import BytesMessage, KeyValue, Value
from pyrmq.oms.producer import OfProducer, SendResult
from pyrmq.oms.push_consumer import LISTENER, Context
from pyrmq.oms.settings import Kind
from pyrmq.sync_face import Client, blocking

K = TypeVar("K", bound=Consumer[Any])
Listener = Callable[[BytesMessage, Context], object]


class _Lifecycle(Client[C]):
    def __init__(self, client: C) -> None:
        super().__init__(client)
        self._leaving = threading.Lock()

    def startup(self) -> None:
        """The same as entering a `with`."""
        self.__enter__()

    def shutdown(self) -> None:
        """The same as leaving a `with`. Does nothing if it was not started, or is already shut
        down."""
        self.__exit__(None, None, None)

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        with self._leaving:  # of several threads the first one leaves, the others wait for it
            if self._opened is not None:
                super().__exit__(kind, error, trace)


class Producer(OfProducer, _Lifecycle[producers.Producer]):
    __doc__ = producers.Producer.__doc__

    create_bytes_message = staticmethod(producers.Producer.create_bytes_message)
    send = blocking(producers.Producer.send)
    send_oneway = blocking(producers.Producer.send_oneway)

    def send_async(
        self, message: BytesMessage, *, timeout: float | None = None
    ) -> Future[SendResult]:
        """Begins to send; the future gets the result of `send`. Its callbacks run in the background
        thread and must not block. Headers that cannot be sent raise at once. It waits while 1024 of
        these sends are in flight."""
        future: Future[SendResult] = Future()
        future.set_running_or_notify_cancel()  # it cannot be cancelled
        self._running.call(partial(producers.begin, self._client, message, timeout, future))
        return future

    @property
    def attributes(self) -> KeyValue:
        """The own attributes and the defaults; a copy."""
        return self._client.attributes


class _Consumer(OfConsumer, _Lifecycle[K]):
    @property
    def attributes(self) -> KeyValue:
        """The own attributes and the defaults; a copy."""
        return self._client.attributes

    def detach_queue(self, queue: str) -> None:
        """Stops consuming a queue; other members of the group get its messages. Raises ClientError
        if it is not attached."""
        if not self._was_opened:
            self._client.detach_first(queue)
        else:
            self._running.call(partial(self._client.detach_queue, queue))


class PushConsumer(_Consumer[push_consumers.PushConsumer]):
    """As `pyrmq.oms.PushConsumer`; listeners are plain functions, which run in worker threads."""

    def attach_queue(self, queue: str, listener: Listener) -> None:
        """Consumes a queue (a topic), before or after opening. listener: a plain function of a
        message and a `Context`. Raises ClientError if the queue is already attached."""
        check_function("listener", listener, LISTENER)
        if is_async(listener):
            raise ClientError("the listener must be a plain function, not an async one")
        if not self._was_opened:
            self._client.attach_first(queue, listener)
        else:
            self._running.call(partial(self._client.attach_queue, queue, listener))

    suspend: Callable[[], None]
    resume: Callable[[], None]
    is_suspended: Callable[[], bool]


class PullConsumer(_Consumer[pull_consumers.PullConsumer]):
    __doc__ = pull_consumers.PullConsumer.__doc__

    def attach_queue(self, queue: str) -> None:
        """Consumes a queue (a topic), before or after opening. Raises ClientError if it is already
        attached."""
        if not self._was_opened:
            self._client.attach_first(queue, None)
        else:
            self._running.call(partial(self._client.attach_queue, queue))

    receive = blocking(pull_consumers.PullConsumer.receive)
    ack: Callable[[BytesMessage | str], None]


_FIRST = {"attach_first", "detach_first"}
complete(PushConsumer, push_consumers.PushConsumer, blocking, _FIRST)
complete(PullConsumer, pull_consumers.PullConsumer, blocking, _FIRST)


class MessagingAccessPoint(AccessPoint):
    """As `pyrmq.oms.MessagingAccessPoint`, for blocking code."""

    def create_producer(self, attributes: Mapping[str, Value] | None = None) -> Producer:
        return Producer(producers.Producer(self._settings(attributes, Kind.PRODUCER)))

    def create_push_consumer(self, attributes: Mapping[str, Value] | None = None) -> PushConsumer:
        client = push_consumers.PushConsumer(self._settings(attributes, Kind.PUSH_CONSUMER))
        return PushConsumer(client)

    def create_pull_consumer(self, attributes: Mapping[str, Value] | None = None) -> PullConsumer:
        client = pull_consumers.PullConsumer(self._settings(attributes, Kind.PULL_CONSUMER))
        return PullConsumer(client)

    def startup(self) -> None:
        """Does nothing, because an access point has no connection. Programs of OpenMessaging call
        it."""

    def shutdown(self) -> None:
        """Does nothing, as `startup`."""

    create_producer.__doc__ = _OnTrio.create_producer.__doc__
    create_push_consumer.__doc__ = _OnTrio.create_push_consumer.__doc__
    create_pull_consumer.__doc__ = _OnTrio.create_pull_consumer.__doc__
