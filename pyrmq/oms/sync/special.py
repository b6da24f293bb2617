"""What OpenMessaging's clients for threads do in their own way: lifecycle, sends in flight, queues.

The other methods are in `_generated_clients.py`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from pyrmq.client.checks import check_function
from pyrmq.client.user_functions import is_async
from pyrmq.errors import ClientError
from pyrmq.oms import consumers as pull_consumers
from pyrmq.oms import consumers as push_consumers
from pyrmq.oms import producer as producers
from pyrmq.oms.consumers import LISTENER, Consumer, Context, OfConsumer
from pyrmq.oms.message import BytesMessage
from pyrmq.oms.producer import OfProducer, SendResult
from pyrmq.portal.blocking import Client
from pyrmq.portal.client import C

K = TypeVar("K", bound=Consumer[Any])
Listener = Callable[[BytesMessage, Context], object]


class Lifecycle(Client[C]):
    """A client that several threads may leave."""

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


class Sending(OfProducer, Lifecycle[producers.Producer]):
    """A producer."""

    def send_async(
        self, message: BytesMessage, *, timeout: float | None = None
    ) -> Future[SendResult]:
        """Begins to send; the future gets the result of `send`. Its callbacks run in the background
        thread and must not block. Headers that cannot be sent raise at once. It waits while 1024 of
        these sends are in flight."""
        future: Future[SendResult] = Future()
        future.set_running_or_notify_cancel()  # it cannot be cancelled
        self._call(producers.begin, self._client, message, timeout, future)
        return future


class Consuming(OfConsumer, Lifecycle[K]):
    """A consumer."""

    def detach_queue(self, queue: str) -> None:
        """Stops consuming a queue; other members of the group get its messages. Raises ClientError
        if it is not attached."""
        if not self._was_opened:
            self._client.detach_first(queue)
        else:
            self._call(self._client.detach_queue, queue)


class Listening(Consuming[push_consumers.PushConsumer]):
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
            self._call(self._client.attach_queue, queue, listener)


class Pulling(Consuming[pull_consumers.PullConsumer]):
    """A pull consumer."""

    def attach_queue(self, queue: str) -> None:
        """Consumes a queue (a topic), before or after opening. Raises ClientError if it is already
        attached."""
        if not self._was_opened:
            self._client.attach_first(queue, None)
        else:
            self._call(self._client.attach_queue, queue)


class Connectionless:
    """An access point: it needs no `startup`."""

    def startup(self) -> None:
        """Does nothing, because an access point has no connection. Programs of OpenMessaging call
        it."""

    def shutdown(self) -> None:
        """Does nothing, as `startup`."""
