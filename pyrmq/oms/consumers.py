"""Push and pull consumers: a group, its queues, and how their messages are received.
[PushConsumerImpl, PullConsumerImpl, LocalMessageCache]

`PullConsumer` returns messages on request, `PushConsumer` passes them to listeners, one for each
queue.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from inspect import isawaitable
from typing import Any, Generic, NoReturn, Self, TypeVar

import trio

from pyrmq.client.checks import check_function, check_seconds, check_topic, check_trio
from pyrmq.client.consumer import push_consumer as consumers
from pyrmq.client.consumer.consume_service import ConsumeResult
from pyrmq.client.consumer.offsets import ConsumeFrom
from pyrmq.client.user_functions import call_in_thread, is_async
from pyrmq.errors import ClientError, NotSupportedError, ResponseError
from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.model.names import retry_topic, with_namespace
from pyrmq.model.record import ReceivedMessage
from pyrmq.model.subscription import ALL
from pyrmq.net.tasks import Tasks
from pyrmq.oms.message import BytesMessage, KeyValue, from_rocketmq
from pyrmq.oms.settings import ON_TRIO, Attribute, Settings

L = TypeVar("L")


class OfConsumer:
    """What a consumer refuses, on trio, for asyncio and for plain code."""

    def add_interceptor(self, *_: object) -> NoReturn:
        raise NotSupportedError(
            "an interceptor is not supported: call the listener in a function of your own"
        )


class Consumer(OfConsumer, Generic[L]):
    """`attached` has the queues, each with its value (a listener). The client starts with only the
    retry topic of its group; queues are subscribed when they are attached."""

    def __init__(
        self, settings: Settings, listener: Callable[[Any], Any] | None, **options: Any
    ) -> None:
        self._attributes = settings.attributes
        self._namespace = settings.url.namespace
        group = with_namespace(self._namespace, settings.attributes[Attribute.CONSUMER_ID])
        timeout = settings.consume_timeout
        self._consume_timeout = timeout
        self._client = consumers.PushConsumer(
            group,
            {retry_topic(group): ALL},
            namesrv=settings.url.namesrv,
            credentials=settings.credentials,
            tls=settings.tls,
            listener=listener,
            max_reconsume_times=settings.whole(Attribute.MAX_REDELIVERY_TIMES),
            # The client's own limit is for listeners that never return.
            consume_timeout=timeout + 1,
            **options,
        )
        self._attached: dict[str, L] = {}
        self._tasks = Tasks()
        self._left = False
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
        try:
            for queue in list(self._attached):
                await self._subscribe(queue)
        except BaseException as e:
            await self.__aexit__(type(e), e, e.__traceback__)
            raise
        return self

    async def __aexit__(self, *error: Any) -> None:
        self._left = True
        await self._entered.__aexit__(*error)

    def attach_first(self, queue: str, what: L) -> None:
        """Notes a queue that is subscribed when the consumer opens."""
        self._check_not_left()
        check_topic(queue)
        if queue in self._attached:
            raise ClientError(f"queue {queue} is attached already: detach it first")
        self._attached[queue] = what

    async def _subscribe(self, queue: str) -> None:
        if self._tasks.running:
            try:
                await self._client.subscribe(self._topic(queue))
            except BaseException:
                self._attached.pop(queue, None)
                raise

    def detach_first(self, queue: str) -> None:
        """The opposite of `attach_first`."""
        self._check_not_left()
        if queue not in self._attached:
            raise ClientError(f"queue {queue!r:.200} is not attached")
        del self._attached[queue]

    async def detach_queue(self, queue: str) -> None:
        """Stops consuming a queue; other members of the group get its messages. Raises ClientError
        if it is not attached."""
        self.detach_first(queue)
        if self._tasks.running:
            await self._client.unsubscribe(self._topic(queue))

    def _check_not_left(self) -> None:
        if self._left:
            raise ClientError("the consumer was left: make a new one")

    def _topic(self, queue: str) -> str:
        return with_namespace(self._namespace, queue)


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
            escape(received.msg_id),
            self._consume_timeout,
            extra=about(message_id=received.msg_id),
        )
        try:
            await self._client.send_back(received, delay_level=EXPIRED_LEVEL)
        except (ConnectionError, TimeoutError, ResponseError) as e:
            log.warning(
                "message %s not sent back: %s",
                escape(received.msg_id),
                escape(e),
                extra=about(message_id=received.msg_id),
            )
            return  # it is tried again later
        except ClientError as e:  # it was acknowledged, or another member has its queue
            log.info(
                "message %s: %s",
                escape(received.msg_id),
                escape(e),
                extra=about(message_id=received.msg_id),
            )
        self._forget(received)

    def _forget(self, received: ReceivedMessage) -> None:
        name = received.msg_id
        left = deque(entry for entry in self._open.get(name, ()) if entry[0] is not received)
        if left:
            self._open[name] = left
        else:
            self._open.pop(name, None)


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
                escape(received.msg_id),
                escape(message.queue),
                extra=about(topic=message.queue, message_id=received.msg_id),
            )
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
                escape(message.queue),
                escape(received.msg_id),
                extra=about(topic=message.queue, message_id=received.msg_id),
            )
        left = began + self._consume_timeout - trio.current_time()
        if await context.wait(max(left, 0)):
            return ConsumeResult.SUCCESS
        log.warning(
            "message %s was not acknowledged in %g s: it goes back",
            escape(received.msg_id),
            self._consume_timeout,
            extra=about(message_id=received.msg_id),
        )
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
