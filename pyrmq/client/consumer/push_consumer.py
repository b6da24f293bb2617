"""Receiving messages: a push consumer, member of a group. [DefaultMQPushConsumerImpl]

"Push" as in RocketMQ: the client pulls with long polling and passes messages on. A message counts
as consumed when the loop body or the listener has finished with it. Other messages are delivered
again, to this consumer or another one of the group (at least once).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self

from pyrmq.client.checks import (
    check_consumer_group,
    check_subscriptions,
    check_topic,
    check_whole,
    parse_subscription,
)
from pyrmq.client.consumer.allocate import Strategy
from pyrmq.client.consumer.ask_brokers import check_expressions
from pyrmq.client.consumer.consume_service import MAX_LEVEL, Caller
from pyrmq.client.consumer.delivery import Delivery
from pyrmq.client.consumer.local_offsets import LocalOffsets
from pyrmq.client.consumer.member import Member, MemberEvents, MemberOptions, Profile
from pyrmq.client.consumer.offsets import BrokerOffsets, ConsumeFrom, QueueBounds, StartRule
from pyrmq.client.consumer.options import (
    INVISIBLE_TIME,
    MAX_POPPED,
    POP_BATCH,
    Listener,
    MessageModel,
    PushConsumerOptions,
    PushOptions,
)
from pyrmq.client.consumer.pop.pop_queues import PopEvents
from pyrmq.client.consumer.pop.popped import PopQueue
from pyrmq.client.consumer.process_queue import (
    MAX_BYTES,
    MAX_MESSAGES,
    MAX_SPAN,
    ProcessQueue,
)
from pyrmq.client.consumer.pull_loop import PullOptions
from pyrmq.client.consumer.ready import Held, MessageIterator
from pyrmq.client.consumer.rebalance import INTERVAL
from pyrmq.client.consumer.send_back import BROKERS_CHOICE, SendBack
from pyrmq.client.consumer.sharing import sharing_of
from pyrmq.client.instance import ClientInstance
from pyrmq.client.namespaces import Namespace
from pyrmq.client.option_types import check_types
from pyrmq.client.telemetry import Work, consumer_telemetry, settling
from pyrmq.client.trace.consumer import consumer_tracer, observer_of
from pyrmq.errors import ClientError
from pyrmq.model.allocate import average
from pyrmq.model.message import MessageQueue, ReceivedMessage
from pyrmq.model.names import TRACE_TOPIC, retry_topic
from pyrmq.model.subscription import ALL, Subscription
from pyrmq.net.client.credentials import Credentials
from pyrmq.net.client.tls import Tls

if TYPE_CHECKING:
    from pyrmq.client.hooks import ConsumeMessageHook

PERSIST_INTERVAL = 5.0
CLOSE_GRACE = 5.0
CONSUME_TIMEOUT = 900.0


class PushConsumer:
    """Consumes topics as a member of a group; an async context manager and async iterator.

        async with PushConsumer("group", {"TopicTest": "TagA || TagB"}) as consumer:
            async for message in consumer:
                ...

    A message counts as consumed when the loop asks for the next one, or when you call
    `acknowledge`: do that before a `break`. Other messages are delivered again (at least once).

    group: name of the consumer group, 1 to 248 of the characters `%|a-zA-Z0-9_-`.
    subscriptions: topics, each with a tag expression (`TagA || TagB`, or `*` for all) or `Sql`.
    namesrv: name servers, `host:port[;host:port]`; default: the environment variable NAMESRV_ADDR.
    credentials, tls: sign all requests (`Credentials`); connect with TLS (`Tls`).
    namespace: on brokers (and in a `strategy`) topics and the group are called `namespace%name`.
    namespace_v2: names stay as they are, and every request has this namespace as a field, as with
    RocketMQ 5's clients.
    listener: a function that gets the messages instead of the loop:
    an async one runs in this trio loop, a plain one in a thread.
    Returning acknowledges the message. If it raises, the message goes back to the broker, which
    delivers it again after a delay that grows with `message.reconsume_times`; after
    `max_reconsume_times` (16) further deliveries it goes to the group's dead-letter topic. It
    returns None or a ConsumeResult, for a batch also the number of consumed messages; any other
    value is a failure.
    concurrency: calls of the listener at a time; default 20. batch_size: with more than 1 the
    listener gets lists of up to so many messages of a queue.
    consume_from: where a new group starts. The default is the end at the time when the consumer has
    opened; opening waits up to 3 s for that. consume_timestamp: the time for ConsumeFrom.TIMESTAMP,
    ms since 1970. If a group has offsets in a topic, it reads new queues of that topic from their
    first message.
    strategy: how the members of the group share queues: `average` (default), `average_by_circle`
    and others; the same in all members.
    message_model: MessageModel.BROADCASTING gives every member all messages. Each member keeps its
    offsets in a file, `offset_folder`/CLIENT_ID/GROUP/offsets.json (default ~/.rocketmq_offsets);
    the client id is IP@`instance_name` (default DEFAULT). Messages that the listener fails on are
    skipped.
    orderly: one member at a time consumes a queue, strictly in order. If the listener raises, it
    gets the same message again after `suspend_time` seconds, before any later message of the queue,
    without limit unless you set `max_reconsume_times`.
    consume_timeout: seconds after which a message that a listener still has is sent back.
    close_grace: seconds that running listeners have to return when the consumer closes; then they
    are cancelled, and their messages are delivered again.
    pull_batch_size, pull_interval: most messages of one pull; seconds between two pulls.
    max_cached_messages, max_cached_bytes, max_span: pulling a queue pauses when so many of its
    messages or bytes wait to be consumed, or when the first and the last of them are so many
    offsets apart.
    persist_interval, rebalance_interval: seconds.
    pop: the consumer pops messages (POP): every member gets messages of all queues, and a message
    that is not acknowledged in `invisible_time` seconds (5 to 300) goes to any member. All members
    of a group use the same mode. A message that is consumed or failed on later than that counts for
    nothing. pop_batch_size: most messages of one pop, up to 32. max_popped_messages: popping from a
    broker pauses while more messages of a topic are not acknowledged.
    client_rebalance: False lets a broker share the queues, which says for each topic whether it is
    pulled or popped (`mqadmin setConsumeMode`), and may change that at any time. Orderly and
    broadcast consumers always share by themselves.
    trace: record consumed messages in trace_topic, by default RMQ_SYS_TRACE_TOPIC.
    hooks: ConsumeMessageHooks, called before and after messages are consumed.

    Raises UnusableNameError, UnusableExpressionError and ClientError if an argument is invalid, and
    ConfigError without a name server. Opening raises the broker's error (SubscriptionError,
    ResponseError) if it refuses an `Sql`. Later problems (no route, an unreachable broker) are
    logged and retried.
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
        listener: Listener | None = None,
        concurrency: int = 20,
        consume_from: ConsumeFrom = ConsumeFrom.LAST_OFFSET,
        consume_timestamp: int | None = None,
        strategy: Strategy = average,
        message_model: MessageModel = MessageModel.CLUSTERING,
        orderly: bool = False,
        batch_size: int = 1,
        max_reconsume_times: int | None = None,
        consume_timeout: float = CONSUME_TIMEOUT,
        suspend_time: float = 1.0,
        close_grace: float = CLOSE_GRACE,
        pull_batch_size: int = 32,
        pull_interval: float = 0.0,
        max_cached_messages: int = MAX_MESSAGES,
        max_cached_bytes: int = MAX_BYTES,
        max_span: int = MAX_SPAN,
        persist_interval: float = PERSIST_INTERVAL,
        rebalance_interval: float = INTERVAL,
        instance_name: str | None = None,
        offset_folder: Path | str | None = None,
        client_rebalance: bool = True,
        pop: bool = False,
        invisible_time: float = INVISIBLE_TIME,
        pop_batch_size: int = POP_BATCH,
        max_popped_messages: int = MAX_POPPED,
        trace: bool = False,
        trace_topic: str = TRACE_TOPIC,
        hooks: Sequence[ConsumeMessageHook] = (),
    ) -> None:
        arguments = locals()
        check_types(PushConsumerOptions, arguments)
        check_consumer_group(group)
        self._names = names = Namespace(namespace)
        self._wire_group = wire_group = names.wire(group)
        check_consumer_group(wire_group)
        version = time.time_ns() // 1_000_000
        self._subs = check_subscriptions(subscriptions, version, names.wire)
        self._options = options = PushOptions.of(arguments)
        self.group = group
        self._retry_topic = retry_topic(wire_group)
        if not options.broadcasting and self._retry_topic not in self._subs:
            self._subs[self._retry_topic] = Subscription.parse(self._retry_topic, ALL, version)
        # In broadcasting the file of offsets has to be found again.
        name = instance_name or ("DEFAULT" if options.broadcasting else None)
        self._client = client = ClientInstance(
            namesrv, name, namespace_v2=namespace_v2, credentials=credentials, tls=tls
        )
        store: BrokerOffsets | LocalOffsets = BrokerOffsets(client, wire_group)
        if options.broadcasting:
            store = LocalOffsets(offset_folder, client.client_id, wire_group)
        tracer = consumer_tracer(group, names, trace, trace_topic, client)
        self._telemetry = consumer_telemetry(
            group,
            namespace,
            namespace_v2,
            client,
            broadcasting=options.broadcasting,
            cached=lambda: self._member.cached(),
        )
        observer = observer_of(group, hooks, tracer, self._telemetry, apart=listener is None)
        call: Caller | None = None
        if listener is not None:
            call = Caller(listener, group, batch=batch_size > 1, workers=concurrency)
        rule = StartRule(store, QueueBounds(client), consume_from, consume_timestamp or 0)
        self._delivery: Delivery
        self._member = Member(
            client,
            wire_group,
            names,
            self._subs,
            store,
            rule,
            MemberEvents(
                deliver=lambda process, messages: self._delivery.pulled(process, messages),
                taken=self._taken,
                popping=PopEvents(
                    deliver=lambda popped, messages: self._delivery.popped(popped, messages),
                    taken=self._taken,
                    overdue=lambda popped, message: self._delivery.overdue(popped, message),
                ),
            ),
            Profile(
                kind="CONSUME_PASSIVELY",
                options=options.texts(),
                consume_from=consume_from,
                message_model=message_model.value,
                orderly=orderly,
                call=call,
            ),
            MemberOptions(
                limits=options.limits,
                pulls=PullOptions(pull_batch_size, pull_interval),
                sharing=sharing_of(options, client, wire_group, names),
                rebalance_interval=rebalance_interval,
                persist_interval=persist_interval,
                ordered=orderly and not options.broadcasting,
                pops=options.pops,
                switches=options.by_broker,
                tracer=tracer,
                telemetry=self._telemetry,
            ),
        )
        self._held = self._member.held
        send_back = SendBack(client, wire_group, names, options.max_times)
        self._delivery = Delivery(self._member, send_back, call, options, observer)

    @property
    def assigned(self) -> list[MessageQueue]:
        """The queues of the subscribed topics that this consumer has now, sorted; empty before the
        first rebalance. (It may also have queues of the group's retry topics.) An id of -1 means
        all queues of a broker: they are popped."""
        mine = self._held.assigned()
        if self._member.pops is not None:
            mine = sorted(mine + self._member.pops.assigned())
        mine = [q for q in mine if not q.topic.startswith(self._retry_topic)]
        return self._names.shown_queues(mine)

    async def __aenter__(self) -> Self:
        await self._member.enter()
        self._delivery.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        """Stops pulling, gives running listeners their grace and then cancels them. Whatever fails
        there, it writes offsets and leaves the group. Loops that still wait for a message raise
        ClientError."""
        self._member.stop()
        try:
            await self._delivery.close(self._options.close_grace)
        finally:
            await self._member.leave(*error)

    # Changes while it runs.

    async def subscribe(self, topic: str, expression: str = ALL) -> None:
        """Consumes one more topic. All members of a group must have the same subscriptions. Raises
        ClientError if the topic is already subscribed, and otherwise as opening does."""
        self.check_entered()
        check_topic(topic)
        topic = self._names.wire(topic)
        sub = parse_subscription(topic, expression, time.time_ns() // 1_000_000)
        await check_expressions(self._client, self._wire_group, [sub])
        if topic in self._subs:
            raise ClientError(f"topic {topic} is subscribed already")
        self._subs[topic] = sub
        until = await self._member.join([topic])
        await self._client.heartbeat()
        if self._subs.get(topic) is sub:  # it may have been given up meanwhile
            self._member.share(topic)
            await self._member.begun([topic], until)

    async def unsubscribe(self, topic: str) -> None:
        """Stops consuming a topic. Its running listener calls may finish. Messages that no listener
        has begun are delivered to other members, or again after a new subscription. Raises
        ClientError if the topic is not subscribed."""
        self.check_entered()
        topic = self._names.wire(topic)
        if topic not in self._subs or topic == self._retry_topic:
            raise ClientError(f"topic {topic!r:.200} is not subscribed")
        self._member.unshare(topic)
        del self._subs[topic]
        self._delivery.drop_popped(topic)
        await self._client.heartbeat()

    def suspend(self) -> None:
        """Stops pulling until `resume`. Messages that already wait for the listener or the loop are
        still consumed."""
        self._pause(True)

    def resume(self) -> None:
        """Pulls again after `suspend`."""
        self._pause(False)
        self._delivery.resume()

    def is_suspended(self) -> bool:
        """Whether the consumer is suspended."""
        return self._delivery.suspended

    def _pause(self, paused: bool) -> None:
        self._delivery.suspended = paused
        pops = self._member.pops
        for queue in (*self._held.table.values(), *(pops.table.values() if pops else ())):
            queue.pause(paused)

    def _taken(self, queue: ProcessQueue | PopQueue) -> None:
        queue.pause(self._delivery.suspended)

    # In a loop.

    def __aiter__(self) -> MessageIterator:
        if self._delivery.has_listener:
            raise ClientError("this consumer has a listener: it cannot be iterated as well")
        return MessageIterator(self._delivery.loops)

    def check_entered(self) -> None:
        """Raises ClientError outside of `async with`."""
        self._member.check_entered()

    async def take(self) -> tuple[Held, ReceivedMessage]:
        """The next message, which is to be acknowledged or sent back."""
        return await self._delivery.loops.take()

    def acknowledge(self, message: ReceivedMessage) -> None:
        """Acknowledges a message before the loop asks for the next one. The offset is written
        within five seconds, and when the consumer closes; a popped message is acknowledged at
        once."""
        process = self._process_of(message)
        if process is not None:
            self._delivery.loops.finish(process, message)

    async def send_back(
        self, message: ReceivedMessage, *, delay_level: int = BROKERS_CHOICE
    ) -> None:
        """Sends a message back to its broker. The group gets it again after a delay; after too many
        deliveries it goes to the dead-letter topic. For this consumer the message then counts as
        consumed.

        delay_level: as `Message.delay_time_level`; 0: the broker chooses by the number of
        deliveries; -1: to the dead-letter topic at once. Raises ClientError if the message does not
        wait to be acknowledged here, and otherwise as the request does.
        """
        check_whole("delay_level", delay_level, -1, MAX_LEVEL)
        process = self._process_of(message)
        if process is None or self._options.broadcasting:
            raise ClientError("only messages that this consumer has of its group are sent back")
        give_back = partial(self._delivery.give_back, process, message, delay_level)
        await settling(self._telemetry, Work.SEND_BACK, [message], give_back)
        self._delivery.loops.ended(message, done=False)

    def _process_of(self, message: ReceivedMessage) -> Held | None:
        topic = self._names.wire(message.topic)
        if self._member.pops is not None:
            popped = self._member.pops.popped_with(message, topic)
            if popped is not None:
                return popped
        retries = (name for name in self._subs if name.startswith(self._retry_topic))
        for name in (topic, *retries):
            queue = MessageQueue(name, message.broker_name, message.queue_id)
            process = self._held.table.get(queue)
            if process is not None and process.holds(message):
                return process
        return None
