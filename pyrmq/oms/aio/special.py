"""What OpenMessaging's clients for asyncio do in their own way: lifecycle, sends in flight, queues.

The other methods are in `_generated_clients.py`.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import Any, TypeVar

from pyrmq.client.checks import check_function
from pyrmq.client.user_functions import is_async
from pyrmq.oms import consumers as pull_consumers
from pyrmq.oms import consumers as push_consumers
from pyrmq.oms import producer as producers
from pyrmq.oms.consumers import LISTENER, Consumer, Listener, OfConsumer
from pyrmq.oms.message import BytesMessage
from pyrmq.oms.producer import OfProducer, SendResult
from pyrmq.portal.awaiting import Client, bridge
from pyrmq.portal.client import C

K = TypeVar("K", bound=Consumer[Any])


class Lifecycle(Client[C]):
    """A client that several tasks may leave."""

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


class Sending(OfProducer, Lifecycle[producers.Producer]):
    """A producer."""

    async def send_async(
        self, message: BytesMessage, *, timeout: float | None = None
    ) -> asyncio.Future[SendResult]:
        """Begins to send; `await future` gives the result of `send`. Headers that cannot be sent
        raise at once. It waits while 1024 of these sends are in flight. Cancelling the future does
        not cancel the send."""
        future: Future[SendResult] = Future()
        future.set_running_or_notify_cancel()  # it cannot be cancelled
        await self._call(producers.begin, self._client, message, timeout, future)
        return asyncio.wrap_future(future)


class Consuming(OfConsumer, Lifecycle[K]):
    """A consumer."""

    async def detach_queue(self, queue: str) -> None:
        """Stops consuming a queue; other members of the group get its messages. Raises ClientError
        if it is not attached."""
        if not self._was_opened:
            self._client.detach_first(queue)
        else:
            await self._call(self._client.detach_queue, queue)


class Listening(Consuming[push_consumers.PushConsumer]):
    """As `pyrmq.oms.PushConsumer`; async listeners run in the asyncio loop in which it was opened,
    plain ones in worker threads."""

    async def attach_queue(self, queue: str, listener: Listener) -> None:
        """Consumes a queue (a topic), before or after opening. listener: a function of a message
        and a `Context`, async or plain. Raises ClientError if the queue is already attached."""
        check_function("listener", listener, LISTENER)
        called = bridge(listener, self._calls) if is_async(listener) else listener
        if not self._was_opened:
            self._client.attach_first(queue, called)
        else:
            await self._call(self._client.attach_queue, queue, called)


class Pulling(Consuming[pull_consumers.PullConsumer]):
    """As `pyrmq.oms.PullConsumer`. Limit `receive` by its `timeout`: a message that a cancelled
    `receive` had already taken comes again only after `rmq.message.consume.timeout`."""

    async def attach_queue(self, queue: str) -> None:
        """Consumes a queue (a topic), before or after opening. Raises ClientError if it is already
        attached."""
        if not self._was_opened:
            self._client.attach_first(queue, None)
        else:
            await self._call(self._client.attach_queue, queue)
