"""Passing messages to listeners, one for each queue. [PushConsumerImpl]"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from inspect import isawaitable
from typing import Any

import trio

from pyrmq.client.checks import check_function
from pyrmq.client.consumer.consume_service import ConsumeResult
from pyrmq.client.user_functions import call_in_thread, is_async
from pyrmq.errors import ClientError
from pyrmq.escape import escape
from pyrmq.model.record import ReceivedMessage
from pyrmq.oms.consumer import Consumer
from pyrmq.oms.message import BytesMessage, from_rocketmq
from pyrmq.oms.settings import Attribute, Settings

log = logging.getLogger(__name__)


class Context:
    """A listener acknowledges its message with it, from any task and any thread."""

    def __init__(self, message_id: str) -> None:
        self._message_id = message_id
        self._token = trio.lowlevel.current_trio_token()
        self._said = trio.Event()
        self._lock = threading.Lock()
        self._acknowledged = False
        self._late = False

    def ack(self) -> None:
        """Acknowledges the message. Raises ClientError if it has already gone back to its
        broker."""
        with self._lock:
            if self._late:
                raise ClientError(
                    f"message {self._message_id} is not acknowledged: it is delivered again, as "
                    "its listener failed, the consumer was left or the consume timeout was over"
                )
            self._acknowledged = True
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(self._said.set)

    @property
    def acknowledged(self) -> bool:
        """Whether `ack` was called in time."""
        return self._acknowledged

    async def wait(self, seconds: float) -> bool:
        """For the consumer: whether the message is acknowledged in this time."""
        try:
            if not self._acknowledged:
                with trio.move_on_after(seconds):
                    await self._said.wait()
        finally:
            self.close()
        return self._acknowledged

    def close(self) -> None:
        """For the consumer: from now on `ack` is too late."""
        with self._lock:
            self._late = not self._acknowledged


Listener = Callable[[BytesMessage, Context], Any]
LISTENER = "a function of a message and a context"


class PushConsumer(Consumer[Listener]):
    """Passes messages to listeners, as a member of the group CONSUMER_ID; an async context manager
    on trio. `MessagingAccessPoint.create_push_consumer` creates it.

        async def on_received(message, context):
            ...
            context.ack()

        async with access_point.create_push_consumer({"CONSUMER_ID": "group"}) as consumer:
            await consumer.attach_queue("Orders", on_received)
            await trio.sleep_forever()

    `context.ack()` acknowledges a message, also when another task or thread calls it later. Until
    then the message occupies one of the `rmq.max.consume.thread.nums` (20) places. If the listener
    raises, the message is delivered again after a delay; so is a message that is not acknowledged
    within `rmq.message.consume.timeout` (15) minutes. After `rmq.max.redelivery.times` (16) further
    deliveries it goes to the group's dead-letter topic.

    A new group starts at the end of a topic. Closing gives running listeners five seconds.
    """

    def __init__(self, settings: Settings) -> None:
        workers = settings.whole(Attribute.MAX_CONSUME_THREAD_NUMS)
        super().__init__(settings, self._received, concurrency=workers)
        self._threads = trio.CapacityLimiter(workers)

    async def attach_queue(self, queue: str, listener: Listener) -> None:
        """Consumes a queue, which is a topic, before or after entering. listener: a function of a
        message and a `Context`; an async one runs in this trio loop, a plain one in a thread.
        ClientError for a queue that is attached already."""
        self.attach_first(queue, check_function("listener", listener, LISTENER))
        await self._subscribe(queue)

    def suspend(self) -> None:
        """Stops pulling until `resume`. Messages that already wait for listeners still come."""
        self._client.suspend()

    def resume(self) -> None:
        """Pulls again after `suspend`."""
        self._client.resume()

    def is_suspended(self) -> bool:
        """Whether the consumer is suspended."""
        return self._client.is_suspended()

    async def _received(self, received: ReceivedMessage) -> ConsumeResult:
        message = from_rocketmq(received, self._namespace)
        listener = self._attached.get(message.queue)
        if listener is None:
            log.warning(
                "message %s is of %s, which is not attached: it goes back",
                escape(received.msg_id), escape(message.queue),
            )  # fmt: skip
            return ConsumeResult.RECONSUME_LATER
        context = Context(received.msg_id)
        began = trio.current_time()
        try:
            await self._call(listener, message, context)
        except BaseException as e:
            context.close()
            if not (context.acknowledged and isinstance(e, Exception)):
                raise
            log.exception(
                "the listener of %s failed after it acknowledged %s",
                escape(message.queue), escape(received.msg_id),
            )  # fmt: skip
        left = began + self._consume_timeout - trio.current_time()
        if await context.wait(max(left, 0)):
            return ConsumeResult.SUCCESS
        log.warning(
            "message %s was not acknowledged in %g s: it goes back",
            escape(received.msg_id), self._consume_timeout,
        )  # fmt: skip
        return ConsumeResult.RECONSUME_LATER

    async def _call(self, listener: Listener, message: BytesMessage, context: Context) -> None:
        if is_async(listener):
            await listener(message, context)
            return
        answer = await call_in_thread(
            listener, message, context, limiter=self._threads, abandon=True
        )
        if isawaitable(answer):
            await answer
