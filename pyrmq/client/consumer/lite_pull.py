"""Receiving messages by polling: a lite pull consumer. [DefaultLitePullConsumerImpl]

The consumer pulls messages ahead in the background; `poll` takes them. Nothing is sent back to
brokers, and there is no retry topic: messages that are not committed are polled again by the next
owner of the queue.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import trio

from pyrmq.client.checks import (
    check_consumer_group,
    check_kind,
    check_seconds,
    check_subscriptions,
    check_topic,
    parse_subscription,
)
from pyrmq.client.consumer.allocate import Strategy
from pyrmq.client.consumer.ask_brokers import check_expressions
from pyrmq.client.consumer.member import Member, MemberEvents, MemberOptions, Profile
from pyrmq.client.consumer.offsets import BrokerOffsets, ConsumeFrom, QueueBounds, StartRule
from pyrmq.client.consumer.options import LitePullConsumerOptions, LitePullOptions
from pyrmq.client.consumer.process_queue import (
    MAX_BYTES,
    MAX_MESSAGES,
    MAX_SPAN,
    ProcessQueue,
)
from pyrmq.client.consumer.pull_loop import PullOptions
from pyrmq.client.consumer.ready import Chunk, MessageIterator, Polls
from pyrmq.client.consumer.rebalance import INTERVAL
from pyrmq.client.consumer.sharing import ByStrategy
from pyrmq.client.instance import API_TIMEOUT, ClientInstance, within
from pyrmq.client.namespaces import Namespace
from pyrmq.client.option_types import check_types
from pyrmq.client.routes import keep
from pyrmq.client.telemetry import Work, consumer_telemetry, settling
from pyrmq.client.trace.consumer import consumer_tracer, observer_of
from pyrmq.errors import ClientError
from pyrmq.model.allocate import average
from pyrmq.model.message import MessageQueue, ReceivedMessage
from pyrmq.model.names import TRACE_TOPIC
from pyrmq.model.subscription import ALL
from pyrmq.net.client.credentials import Credentials
from pyrmq.net.client.tls import Tls

if TYPE_CHECKING:
    from pyrmq.client.hooks import ConsumeMessageHook

SUSPEND_MS = 20_000


class Assigned:
    """The result of `assign`. Awaiting it waits until the start of the queues is known."""

    def __init__(self, placed: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._placed = placed

    def __await__(self) -> Generator[Any, None, None]:
        return self._placed().__await__()


class LitePullConsumer:
    """Takes messages with `poll` or in a loop; an async context manager and async iterator.

        async with LitePullConsumer("group", {"TopicTest": "*"}) as consumer:
            while True:
                for message in await consumer.poll():
                    ...

    Polled messages count as consumed at the next `poll`, or with `commit`. One task polls.

    group: name of the consumer group.
    subscriptions: topics, each with a tag expression or `Sql`; the group shares their queues.
    Without subscriptions, `assign` chooses the queues of this consumer; other consumers may read
    the same ones.
    namesrv, credentials, tls, consume_from, consume_timestamp, strategy, rebalance_interval: as for
    PushConsumer.
    auto_commit: offsets are written every `auto_commit_interval` (5) seconds, when a queue moves to
    another member, and when the consumer closes; otherwise only by `commit`.
    namespace, namespace_v2, trace, trace_topic, hooks: as for PushConsumer; for trace and hooks a
    polled message is consumed.
    pull_batch_size: most messages of one pull and of one `poll`.
    max_cached_messages, max_cached_bytes, max_span: pulling a queue pauses when so many of its
    messages or bytes wait to be polled, or when the first and the last of them are so many offsets
    apart. max_cached_total: the same for the messages of all queues.

    Raises UnusableNameError, UnusableExpressionError and ClientError if an argument is invalid, and
    ConfigError without a name server. Opening raises the broker's error if it refuses an `Sql`.
    Later problems are logged and retried.
    """

    def __init__(
        self,
        group: str,
        subscriptions: Mapping[str, str] | None = None,
        *,
        namesrv: str | None = None,
        credentials: Credentials | None = None,
        tls: Tls | None = None,
        namespace: str = "",
        namespace_v2: str = "",
        consume_from: ConsumeFrom = ConsumeFrom.LAST_OFFSET,
        consume_timestamp: int | None = None,
        strategy: Strategy = average,
        auto_commit: bool = True,
        auto_commit_interval: float = 5.0,
        pull_batch_size: int = 10,
        max_cached_messages: int = MAX_MESSAGES,
        max_cached_bytes: int = MAX_BYTES,
        max_span: int = MAX_SPAN,
        max_cached_total: int = 10_000,
        rebalance_interval: float = INTERVAL,
        trace: bool = False,
        trace_topic: str = TRACE_TOPIC,
        hooks: Sequence[ConsumeMessageHook] = (),
    ) -> None:
        check_types(LitePullConsumerOptions, locals())
        check_consumer_group(group)
        self._names = names = Namespace(namespace)
        self._wire_group = wire_group = names.wire(group)
        check_consumer_group(wire_group)
        self._subs = {}
        if subscriptions is not None:
            version = time.time_ns() // 1_000_000
            self._subs = check_subscriptions(subscriptions, version, names.wire)
        self._shares = subscriptions is not None
        self._options = options = LitePullOptions(
            consume_from=consume_from,
            consume_timestamp=consume_timestamp,
            strategy=strategy,
            auto_commit=auto_commit,
            auto_commit_interval=auto_commit_interval,
            pull_batch_size=pull_batch_size,
            max_cached_messages=max_cached_messages,
            max_cached_bytes=max_cached_bytes,
            max_span=max_span,
            max_cached_total=max_cached_total,
            rebalance_interval=rebalance_interval,
        )
        options.check()
        self.group = group
        self._client = client = ClientInstance(
            namesrv, namespace_v2=namespace_v2, credentials=credentials, tls=tls
        )
        self._bounds = QueueBounds(client)
        self._store = BrokerOffsets(client, wire_group)
        tracer = consumer_tracer(group, names, trace, trace_topic, client)
        self._telemetry = consumer_telemetry(
            group, namespace, namespace_v2, client, cached=lambda: self._member.cached()
        )
        self._observer = observer_of(group, hooks, tracer, self._telemetry)
        self._polls = Polls(pull_batch_size)
        self._poll_lock = trio.Lock()
        self._member = Member(
            client,
            wire_group,
            names,
            self._subs,
            self._store,
            StartRule(self._store, self._bounds, consume_from, consume_timestamp or 0),
            MemberEvents(deliver=self._polls.put, taken=self._taken),
            Profile(kind="CONSUME_ACTIVELY", options=options.texts()),
            MemberOptions(
                limits=options.limits,
                pulls=PullOptions(
                    pull_batch_size, suspend_ms=SUSPEND_MS, lite=True, hold=self._is_full
                ),
                sharing=ByStrategy(client, wire_group, names.wire_strategy(strategy))
                if self._shares
                else None,
                rebalance_interval=rebalance_interval,
                persist_interval=auto_commit_interval if auto_commit else None,
                automatic=auto_commit,
                seeks=True,
                tracer=tracer,
                telemetry=self._telemetry,
            ),
        )
        self._held = self._member.held
        self._paused: set[MessageQueue] = set()

    def _is_full(self) -> bool:
        return self._polls.messages > self._options.max_cached_total

    async def __aenter__(self) -> Self:
        await self._member.enter()
        return self

    async def __aexit__(self, *error: object) -> None:
        """Writes offsets (with `auto_commit`) and leaves the group. The messages of the last `poll`
        count as consumed only if they were committed. Polls that still wait raise ClientError."""
        self._polls.close()
        await self._member.leave(*error)

    def check_entered(self) -> None:
        """Raises ClientError outside of `async with`."""
        self._member.check_entered()

    # Which queues.

    @property
    def assigned(self) -> list[MessageQueue]:
        """The queues that this consumer has now, sorted."""
        return self._names.shown_queues(self._held.assigned())

    async def queues(self, topic: str, *, timeout: float = API_TIMEOUT) -> list[MessageQueue]:
        """All readable queues of a topic, sorted. Raises TopicNotExistError, and
        RequestTimeoutError after `timeout` seconds."""
        check_topic(topic)
        self.check_entered()
        topic = self._names.wire(topic)
        with within(timeout, f"no route of topic {topic}", self._client.routes.no_answer):
            find = partial(self._client.routes.route, topic)
            route = await self._client.routes.first_broker.once_there(find)
        return self._names.shown_queues(sorted(route.subscribe_queues(topic)))

    async def subscribe(self, topic: str, expression: str = ALL) -> None:
        """Shares one more topic with the group. Raises ClientError if the consumer uses
        `assign`."""
        if not self._shares:
            raise ClientError("this consumer assigns queues: it cannot subscribe as well")
        self.check_entered()
        check_topic(topic)
        topic = self._names.wire(topic)
        if topic in self._subs:
            raise ClientError(f"topic {topic} is subscribed already")
        sub = parse_subscription(topic, expression, time.time_ns() // 1_000_000)
        await check_expressions(self._client, self._wire_group, [sub])
        self._subs[topic] = sub
        until = await self._member.join([topic])
        await self._client.heartbeat()
        self._member.share(topic)
        await self._member.begun([topic], until)

    def assign(self, queues: Iterable[MessageQueue], expression: str = ALL) -> Assigned:
        """Gives this consumer exactly these queues, with one expression for all their topics.
        Raises ClientError if the consumer has subscriptions. With LAST_OFFSET, await the result:
        messages that are sent after that are polled."""
        if self._shares:
            raise ClientError("this consumer subscribes to topics: it cannot assign queues as well")
        self.check_entered()
        wanted: dict[str, list[MessageQueue]] = {}
        for queue in queues:
            check_kind("one of queues", queue, (MessageQueue,), "a MessageQueue")
            queue = self._names.wire_queue(queue)
            wanted.setdefault(queue.topic, []).append(queue)
        subs = {t: parse_subscription(t, expression, 0) for t in wanted}
        known = {p.queue.topic for p in self._held.table.values()} | wanted.keys()
        keep(self._subs, known)
        self._subs.update(subs)
        for topic in known:
            self._held.assign(topic, wanted.get(topic, []))
        return Assigned(partial(self._member.placed, list(wanted)))

    def _process(self, queue: MessageQueue) -> ProcessQueue:
        self.check_entered()
        check_kind("queue", queue, (MessageQueue,), "one of `assigned`")
        process = self._held.table.get(self._names.wire_queue(queue))
        if process is None or not process.wanted:
            raise ClientError(f"{queue} is not assigned to this consumer")
        return process

    # Messages.

    async def poll(self, timeout: float = 5.0) -> list[ReceivedMessage]:
        """The next messages of one queue, in order; an empty list if none arrived within `timeout`
        seconds (0: only messages that are already here). The messages of the previous call then
        count as consumed."""
        chunk = await self.poll_unseen(timeout)
        self.saw(chunk)
        return list(chunk)

    async def poll_unseen(self, timeout: float = 5.0) -> Chunk:
        """As `poll`, for a caller in another thread that may have been cancelled. The messages
        count as consumed at the next call only if the caller reported them with `saw`; otherwise
        they are returned again."""
        check_seconds("timeout", timeout, 0)
        self.check_entered()
        async with self._poll_lock:  # a call that was given up comes to its end before
            since = 0.0 if self._observer is None else trio.current_time()
            chunk = await self._polls.poll(timeout)
        if self._observer is not None:
            self._observer.polled(chunk, since)
        return chunk

    def saw(self, chunk: Chunk) -> None:
        """Reports that the caller has received the result of `poll_unseen`. Any thread may call
        it."""
        self._polls.seen = chunk

    def __aiter__(self) -> MessageIterator:
        """Each message counts as consumed when the loop asks for the next one."""
        return MessageIterator(self)

    async def take(self) -> tuple[ProcessQueue, ReceivedMessage]:
        """The next message of a queue that is not paused. Iterators call it."""
        since = 0.0 if self._observer is None else trio.current_time()
        process, message = await self._polls.take()
        if self._observer is not None:
            self._observer.polled([message], since)
        return process, message

    def put_back(self, process: ProcessQueue, message: ReceivedMessage) -> None:
        """Returns a taken message, so that it comes again."""
        self._polls.put_back(process, [message])

    def finish(self, process: ProcessQueue, message: ReceivedMessage) -> None:
        """Marks a taken message as consumed."""
        process.finish(message.queue_offset)

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Stops pulling these queues; `poll` returns none of their messages."""
        for process in [self._process(queue) for queue in queues]:
            self._paused.add(process.queue)
            process.pause(True)

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """Continues these queues where they were paused."""
        for process in [self._process(queue) for queue in queues]:
            self._paused.discard(process.queue)
            process.pause(False)
        self._polls.resume()

    def _taken(self, process: ProcessQueue) -> None:
        process.pause(process.queue in self._paused)
        self._polls.drop()

    # Places.

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """The next `poll` of this queue begins at an offset. Raises ClientError if the queue does
        not have that offset, or is not assigned."""
        wire = self._process(queue).queue
        if type(offset) is not int:
            raise ClientError(f"the offset is {offset!r:.80}; a whole number is needed")
        low = await self._bounds.min_offset(wire)
        high = await self._bounds.max_offset(wire)
        if not low <= offset <= high:
            raise ClientError(f"{queue} has the offsets {low} to {high}, not {offset}")
        self._go(queue, offset)

    async def seek_to_begin(self, queue: MessageQueue) -> None:
        """The next `poll` of this queue begins with its first message."""
        wire = self._process(queue).queue
        self._go(queue, await self._bounds.min_offset(wire))

    async def seek_to_end(self, queue: MessageQueue) -> None:
        """The next `poll` of this queue returns messages that are sent from now on."""
        wire = self._process(queue).queue
        self._go(queue, await self._bounds.max_offset(wire))

    def _go(self, queue: MessageQueue, offset: int) -> None:
        process = self._process(queue)
        self._polls.forget(process)
        process.seek(offset)

    async def offset_for_timestamp(self, queue: MessageQueue, timestamp: int) -> int:
        """The offset of the first message that was stored at or after a time, ms since 1970."""
        self.check_entered()
        return await self._bounds.offset_at(self._names.wire_queue(queue), timestamp)

    async def committed(self, queue: MessageQueue) -> int | None:
        """The committed offset of the group; None if there is none yet."""
        self.check_entered()
        return await self._store.read(self._names.wire_queue(queue))

    async def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Writes offsets: polled messages count as consumed; or, with `offsets`, all messages of
        these queues before these offsets. Raises ClientError if a broker did not accept one."""
        self.check_entered()
        if offsets is None:
            self._polls.finish_last()
            offsets = {p.queue: p.commit_offset() for p in self._held.held()}
        known: dict[MessageQueue, int] = {}
        for queue, offset in offsets.items():
            known[self._process(queue).queue] = offset
            if type(offset) is not int or offset < 0:
                raise ClientError(f"the offset of {queue} is {offset!r:.80}; 0 or more is needed")

        async def commit() -> None:
            if not await self._held.commit(known):
                raise ClientError(
                    "offsets are not written: see the log; they can be committed again"
                )

        await settling(self._telemetry, Work.COMMIT, (), commit)


async def assign(
    consumer: LitePullConsumer, queues: Iterable[MessageQueue], expression: str = ALL
) -> None:
    """Gives the consumer exactly these queues, with one expression for all their topics. Messages
    that are sent after this are polled. Raises ClientError if the consumer has subscriptions."""
    await consumer.assign(queues, expression)
