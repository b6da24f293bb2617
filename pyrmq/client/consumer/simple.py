"""Receiving messages one call at a time: a simple consumer. [SimpleConsumer of RocketMQ 5]

The broker hands out messages for a time (POP). Each message is acknowledged by itself, in any
order, by any process that has it; what is not acknowledged in time comes again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import trio

from pyrmq.client.brokers import Registration
from pyrmq.client.checks import (
    check_consumer_group,
    check_kind,
    check_seconds,
    check_subscriptions,
    check_topic,
    check_whole,
    parse_subscription,
)
from pyrmq.client.consumer.ask_brokers import check_expressions
from pyrmq.client.consumer.offsets import BrokerOffsets, ConsumeFrom, QueueBounds, StartRule
from pyrmq.client.consumer.options import SimpleConsumerOptions, check_start
from pyrmq.client.consumer.pop.handles import BrokerClocks, Handles
from pyrmq.client.consumer.pop.receiver import Receiver
from pyrmq.client.consumer.pop.starts import PopStarts
from pyrmq.client.consumer.requests import answer_running_info
from pyrmq.client.consumer.running_info import Statistics, client_properties, running_info
from pyrmq.client.instance import ClientInstance
from pyrmq.client.namespaces import Namespace
from pyrmq.client.option_types import check_types
from pyrmq.client.telemetry import Work, consumer_telemetry, settling
from pyrmq.client.trace.consumer import consumer_tracer, observer_of
from pyrmq.errors import ClientError, InvalidHandleError, PyrmqError
from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.model.message import ReceivedMessage
from pyrmq.model.names import TRACE_TOPIC
from pyrmq.model.pop import MAX_POP, POP_CK, ExtraInfo
from pyrmq.model.subscription import ALL
from pyrmq.net.client.credentials import Credentials
from pyrmq.net.client.tls import Tls
from pyrmq.net.tasks import Tasks

if TYPE_CHECKING:
    from pyrmq.client.hooks import ConsumeMessageHook

log = logging.getLogger(__name__)

START_WAIT = 3.0
"""Seconds that opening waits for brokers that do not say where queues begin."""
MAX_INVISIBLE = 43_200.0
"""Longest invisible time, seconds."""
MAX_TIMEOUT = 3600.0
KIND = "CONSUME_POP"


class SimpleConsumer:
    """Receives and acknowledges messages one call at a time; an async context manager.

        async with SimpleConsumer("group", {"TopicTest": "*"}) as consumer:
            for message in await consumer.receive(16, invisible_duration=30):
                ...
                await consumer.ack(message)

    A received message is invisible to the whole group for `invisible_duration` seconds. `ack` ends
    that for good; without it the message comes again, to any member, with one more in
    `reconsume_times`. Queues are not shared out: every member gets messages of all queues, so a
    group may have more members than queues, and a slow message delays no other. Any number of tasks
    may call at the same time.

    group: name of the consumer group.
    subscriptions: topics, each with a tag expression (`TagA || TagB`, or `*` for all) or `Sql`; the
    same in all members.
    namesrv, credentials, tls, namespace, namespace_v2, consume_from, consume_timestamp, trace,
    trace_topic, hooks: as for PushConsumer; for trace and hooks a received message is consumed.
    fifo: each queue gives its messages in order: no further ones until those that it gave are
    acknowledged or visible again.

    There is no limit of deliveries and no dead-letter topic here: look at `reconsume_times`.

    Raises UnusableNameError, UnusableExpressionError and ClientError if an argument is invalid, and
    ConfigError without a name server. Opening raises the broker's error if it refuses an `Sql`.
    """

    def __init__(
        self,
        group: str,
        subscriptions: Mapping[str, str],
        *,
        namesrv: str | None = None,
        credentials: Credentials | None = None,
        tls: Tls | None = None,
        namespace: str = "",
        namespace_v2: str = "",
        fifo: bool = False,
        consume_from: ConsumeFrom = ConsumeFrom.LAST_OFFSET,
        consume_timestamp: int | None = None,
        trace: bool = False,
        trace_topic: str = TRACE_TOPIC,
        hooks: Sequence[ConsumeMessageHook] = (),
    ) -> None:
        check_types(SimpleConsumerOptions, locals())
        check_consumer_group(group)
        self._names = names = Namespace(namespace)
        self._wire_group = wire_group = names.wire(group)
        check_consumer_group(wire_group)
        version = time.time_ns() // 1_000_000
        self._subs = check_subscriptions(subscriptions, version, names.wire)
        check_start(consume_from, consume_timestamp)
        check_kind("fifo", fifo, (bool,), "True or False")
        self.group = group
        self._fifo = fifo
        self._consume_from = consume_from
        self._client = client = ClientInstance(
            namesrv, namespace_v2=namespace_v2, credentials=credentials, tls=tls
        )
        self._tracer = consumer_tracer(group, names, trace, trace_topic, client)
        self._telemetry = consumer_telemetry(group, namespace, namespace_v2, client)
        self._observer = observer_of(group, hooks, self._tracer, self._telemetry)
        store = BrokerOffsets(client, wire_group)
        self._rule = StartRule(store, QueueBounds(client), consume_from, consume_timestamp or 0)
        self._statistics = Statistics()
        self._tasks = Tasks()
        clocks = BrokerClocks()
        self._handles = Handles(client, wire_group, clocks)
        self._receiver = Receiver(
            client,
            wire_group,
            self._subs,
            self._tasks,
            PopStarts(client, store, self._rule),
            clocks,
            self._handles,
            self._statistics,
            order=fifo,
        )
        self._started = 0
        client.consumers[wire_group] = self._heartbeat_data
        answer_running_info(client, wire_group, self._running_info)
        self._registration = Registration(client)
        self._leaving = AsyncExitStack()

    async def __aenter__(self) -> Self:
        self._started = time.time_ns() // 1_000_000
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._client)
            await check_expressions(self._client, self._wire_group, self._subs.values())
            if self._tracer is not None:
                await stack.enter_async_context(self._tracer)
            await stack.enter_async_context(self._tasks)
            self._tasks.start_soon(self._registration.run)
            self._leaving = stack.pop_all()
        try:
            await self._begin(self._subs)
        except BaseException as e:
            await self.__aexit__(type(e), e, e.__traceback__)
            raise
        return self

    async def __aexit__(self, *error: Any) -> None:
        """Leaves the group. Messages that are not acknowledged come again after their invisible
        time."""
        try:
            with trio.CancelScope(shield=True):
                await self._client.unregister(consumerGroup=self._wire_group)
        finally:
            await self._leaving.__aexit__(*error)

    def check_entered(self) -> None:
        """Raises ClientError outside of `async with`."""
        if not self._tasks.running:
            raise ClientError("not connected: use the consumer inside of its `async with`")

    async def _begin(self, topics: Iterable[str]) -> None:
        """Waits until it is known where a new group begins, or for a while: what is sent after that
        will come."""
        topics = list(topics)

        async def begin(topic: str) -> None:
            try:
                await self._rule.join(topic)
                await self._receiver.begin(topic)
                self._registration.look()
            except PyrmqError as e:
                log.warning(
                    "topic %s is not received yet: %s",
                    escape(topic),
                    escape(e),
                    extra=about(topic=topic),
                )

        with trio.move_on_after(START_WAIT):
            async with trio.open_nursery() as nursery:
                for topic in topics:
                    nursery.start_soon(begin, topic)
        for topic in topics:
            self._rule.entered(topic)

    # Subscriptions.

    async def subscribe(self, topic: str, expression: str = ALL) -> None:
        """Receives one more topic, or selects other messages of a topic. All members of a group
        must have the same subscriptions. Raises as opening does."""
        self.check_entered()
        check_topic(topic)
        topic = self._names.wire(topic)
        sub = parse_subscription(topic, expression, time.time_ns() // 1_000_000)
        await check_expressions(self._client, self._wire_group, [sub])
        if topic not in self._subs:
            await self._begin([topic])
        self._subs[topic] = sub
        await self._client.heartbeat()

    async def unsubscribe(self, topic: str) -> None:
        """Receives no more messages of a topic. Those that were received can still be acknowledged.
        Raises ClientError if the topic is not subscribed."""
        self.check_entered()
        if self._subs.pop(self._names.wire(topic), None) is None:
            raise ClientError(f"topic {topic!r:.200} is not subscribed")
        await self._client.heartbeat()

    # Messages.

    async def receive(
        self,
        max_messages: int = 16,
        invisible_duration: float = 60.0,
        *,
        timeout: float = 15.0,
    ) -> list[ReceivedMessage]:
        """The next messages, at most `max_messages` (1 to 32) of one topic and broker; an empty
        list if none came within `timeout` seconds. Nobody gets them again for `invisible_duration`
        seconds (up to 12 hours).

        A call that is cancelled while it waits has taken nothing. If it is cancelled while messages
        are on their way, they come again after their invisible time.

        Raises PyrmqError if no broker could be asked in all the time.
        """
        check_whole("max_messages", max_messages, 1, MAX_POP)
        check_seconds("invisible_duration", invisible_duration, 1, MAX_INVISIBLE)
        check_seconds("timeout", timeout, 0, MAX_TIMEOUT)
        self.check_entered()
        since = 0.0 if self._observer is None else trio.current_time()
        messages = await self._receiver.receive(max_messages, invisible_duration, timeout)
        for message in messages:
            message.topic = self._names.shown(message.topic)
        if self._telemetry is not None:
            self._telemetry.arrived(messages, waits=False)
        if self._observer is not None:
            self._observer.polled(messages, since)
        return messages

    async def ack(self, message: ReceivedMessage) -> None:
        """Acknowledges a message: it does not come again. Twice does no harm.

        Raises InvalidHandleError if the invisible time of the message is over, and otherwise as the
        request does: then it may be acknowledged or not, and can be acknowledged again.
        """
        self.check_entered()
        place = self._place(message)
        acknowledge = partial(self._handles.acknowledge, *place)
        await settling(self._telemetry, Work.ACK, [message], acknowledge)

    async def ack_all(self, messages: Iterable[ReceivedMessage]) -> None:
        """Acknowledges many messages with one request for each broker.

        Raises InvalidHandleError if the invisible time of one is over, when the others are
        acknowledged, and otherwise as `ack` does. (A broker does not say of single messages of a
        batch that it no longer has them.)
        """
        self.check_entered()
        acks: list[tuple[str, ExtraInfo]] = []
        error: InvalidHandleError | None = None
        messages = list(messages)
        for message in messages:
            try:
                acks.append(self._place(message))
            except InvalidHandleError as e:
                error = error or e
        acknowledge = partial(self._handles.acknowledge_all, acks)
        await settling(self._telemetry, Work.ACK, messages, acknowledge)
        if error is not None:
            raise error

    async def change_invisible(self, message: ReceivedMessage, duration: float) -> None:
        """The message becomes visible `duration` seconds from now, for more time to work on it, or
        to have it again sooner. From now on only this object can be acknowledged, no copy that was
        made of it before. After `ack`, or beside it, it may make the message come again. Raises as
        `ack` does."""
        check_seconds("duration", duration, 1, MAX_INVISIBLE)
        self.check_entered()
        topic, handle = self._place(message)

        async def change() -> None:
            changed = await self._handles.change(topic, handle, duration)
            message.properties[POP_CK] = changed.encode()

        await settling(self._telemetry, Work.CHANGE_INVISIBLE, [message], change)

    def _place(self, message: ReceivedMessage) -> tuple[str, ExtraInfo]:
        check_kind("the message", message, (ReceivedMessage,), "a ReceivedMessage")
        return self._names.wire(message.topic), self._handles.read(message)

    # What brokers and operators hear.

    def _heartbeat_data(self) -> dict[str, Any]:
        return {
            "consumeFromWhere": self._consume_from.value,
            "consumeType": KIND,
            "groupName": self._wire_group,
            "messageModel": "CLUSTERING",
            "subscriptionDataSet": [sub.to_json() for sub in self._subs.values()],
            "unitMode": False,
        }

    def _running_info(self, stacks: bool) -> dict[str, Any]:
        own = client_properties(
            self._client, self._wire_group, KIND, orderly=self._fifo, started=self._started
        )
        return running_info(own, self._subs.values(), (), (), self._statistics, stacks=stacks)
