"""Receiving messages: a clustering push consumer. [DefaultMQPushConsumerImpl]

"Push" as in RocketMQ: the client pulls with long polling and hands messages out. A message counts
as consumed when the loop body (or the listener) is through with it; what was not consumed is
delivered again, to this consumer or another one of the group (at least once).
"""

from __future__ import annotations

import inspect
import logging
import random
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Self

import trio

from pyrmq.client.allocate import Strategy, average
from pyrmq.client.expressions import check_expressions
from pyrmq.client.instance import API_TIMEOUT, ClientInstance
from pyrmq.client.offsets import BrokerOffsets, ConsumeFrom
from pyrmq.client.process_queue import ProcessQueue
from pyrmq.client.refusals import check_group, check_kind, check_topic, parse_subscription
from pyrmq.errors import ClientError, ProtocolError, PyrmqError
from pyrmq.escape import escape
from pyrmq.model.codes import RequestCode
from pyrmq.model.message import MessageQueue, ReceivedMessage, decode_records
from pyrmq.net import fastjson
from pyrmq.net.pull import PullStatus, pull_fields, read_pull
from pyrmq.net.tasks import Tasks

log = logging.getLogger(__name__)


def _report_damage(queue: MessageQueue, error: ProtocolError) -> None:
    log.error(
        "%s queue %d: a damaged message is left out: %s",
        escape(queue.topic),
        queue.queue_id,
        escape(error),
    )


PULL_COUNT = 32
SUSPEND_MS = 15_000
PULL_TIMEOUT = 30.0
REBALANCE_INTERVAL = 20.0
REBALANCE_RETRY = (0.05, 1.0)
"""Seconds until the next try when something is missing: the first, doubled up to the last."""
REBALANCE_SETTLE = (0.0, 0.1)
"""Seconds that a change of members waits for others: many consumers may start at once."""
REPORT_AFTER = 0.4
"""A reason for waiting is logged once the next try is this many seconds away: a topic that was
made just now takes a moment to reach the name server."""
PERSIST_INTERVAL = 5.0
ERROR_DELAY = 1.0
RETRY_DELAY = 5.0
"""Seconds after which a message that its listener failed on is consumed again."""

Listener = Callable[[ReceivedMessage], Awaitable[object]]


class PushConsumer:
    """Consumes topics as a member of a group; an async context manager and async iterator.

        async with PushConsumer("group", {"TopicTest": "TagA || TagB"}) as consumer:
            async for message in consumer:
                ...

    A message counts as consumed when the loop asks for the next one, or `acknowledge` is called:
    do that before a `break`. What is not consumed is delivered again (at least once).

    group: name of the consumer group, 1 to 255 of the characters `%|a-zA-Z0-9_-`.
    subscriptions: topics and tag expressions, `TagA || TagB`, or `*` for all; or `Sql`.
    namesrv: name servers, `host:port[;host:port]`; default: the environment variable NAMESRV_ADDR.
    listener: an async function that messages go to instead of the loop, consumed when it returns;
    one that it raises on is given to it again after five seconds. concurrency: calls of it at a
    time, 20 by default.
    consume_from: where a group starts in queues that it has no offset in, by default behind the
    last message. consume_timestamp: the time for ConsumeFrom.TIMESTAMP, ms since 1970.
    strategy: how queues are shared among the members of the group, `average` (default) or
    `average_by_circle`; all members have the same.

    UnusableNameError, UnusableExpressionError and ClientError for arguments that cannot be meant,
    ConfigError without a name server. Entering raises what a broker says of an `Sql` that it
    refuses (SubscriptionError, ResponseError). What goes wrong later (no route, a broker that is
    away) is logged and tried again.
    """

    def __init__(
        self,
        group: str,
        subscriptions: dict[str, str],
        *,
        namesrv: str | None = None,
        listener: Listener | None = None,
        concurrency: int = 20,
        consume_from: ConsumeFrom = ConsumeFrom.LAST_OFFSET,
        consume_timestamp: int | None = None,
        strategy: Strategy = average,
    ) -> None:
        check_group(group)
        check_kind("subscriptions", subscriptions, (dict,), "a dict of topics and tag expressions")
        check_kind("consume_from", consume_from, (ConsumeFrom,), "a ConsumeFrom")
        if not callable(strategy):
            raise ClientError("strategy must be a function such as pyrmq.average")
        if not subscriptions:
            raise ClientError("a consumer needs at least one subscription")
        if listener is not None and not inspect.iscoroutinefunction(listener):
            raise ClientError("the listener must be an async function")
        if concurrency < 1:
            raise ClientError("concurrency must be at least 1")
        if (consume_timestamp is not None) != (consume_from is ConsumeFrom.TIMESTAMP):
            raise ClientError("consume_timestamp goes with ConsumeFrom.TIMESTAMP, and only with it")
        version = time.time_ns() // 1_000_000
        for topic in subscriptions:
            check_topic(topic)
        self.group = group
        self._subs = {t: parse_subscription(t, e, version) for t, e in subscriptions.items()}
        self._listener = listener
        self._concurrency = concurrency
        self._from = consume_from
        self._strategy = strategy
        self._client = ClientInstance(namesrv)
        self._offsets = BrokerOffsets(self._client, group, consume_from, consume_timestamp or 0)
        self._client.consumers[group] = self._heartbeat_data
        self._client.on_ids_changed.append(lambda: self._rebalance_now.set())
        self._queues: dict[MessageQueue, ProcessQueue] = {}
        self._rebalance_now = trio.Event()
        self._tasks = Tasks()
        self._reported: dict[str, str] = {}
        self._send, self._receive = trio.open_memory_channel[tuple[ProcessQueue, ReceivedMessage]](
            0
        )

    @property
    def assigned(self) -> list[MessageQueue]:
        """Queues that this consumer has now, sorted; empty until the first rebalance."""
        return sorted(self._queues)

    def _heartbeat_data(self) -> dict[str, Any]:
        return {
            "consumeFromWhere": self._from.value,
            "consumeType": "CONSUME_PASSIVELY",
            "groupName": self.group,
            "messageModel": "CLUSTERING",
            "subscriptionDataSet": [s.to_json() for s in self._subs.values()],
            "unitMode": False,
        }

    async def __aenter__(self) -> Self:
        await self._client.__aenter__()
        try:
            await check_expressions(self._client, self.group, self._subs.values())
        except BaseException as e:
            await self._client.__aexit__(type(e), e, e.__traceback__)
            raise
        await self._tasks.__aenter__()
        self._tasks.start_soon(self._rebalance_loop)
        self._tasks.start_soon(self._persist_loop)
        if self._listener is not None:
            for _ in range(self._concurrency):
                self._tasks.start_soon(self._listen, self._listener)
        return self

    async def __aexit__(self, *error: object) -> None:
        try:
            await self._tasks.__aexit__(*error)
            with trio.CancelScope(shield=True, deadline=trio.current_time() + 2 * API_TIMEOUT):
                await self._persist()
                await self._client.unregister(consumerGroup=self.group)
        finally:
            await self._client.__aexit__(*error)

    def __aiter__(self) -> MessageIterator:
        if self._listener is not None:
            raise ClientError("this consumer has a listener: it cannot be iterated as well")
        return MessageIterator(self)

    def check_entered(self) -> None:
        """ClientError outside of `async with`."""
        if not self._tasks.running:
            raise ClientError("not connected: use the consumer inside of its `async with`")

    async def take(self) -> tuple[ProcessQueue, ReceivedMessage]:
        """The next message with the queue to `finish` it on (what iterators are made of)."""
        while True:
            process, message = await self._receive.receive()
            if not process.dropped:
                return process, message

    def acknowledge(self, message: ReceivedMessage) -> None:
        """Counts a message as consumed before the loop asks for the next one. The offset is
        written at the next turn (every five seconds) and when the consumer is left."""
        queue = MessageQueue(message.topic, message.broker_name, message.queue_id)
        process = self._queues.get(queue)
        if process is not None:
            process.finish(message.queue_offset)

    async def _listen(self, listener: Listener) -> None:
        while True:
            process, message = await self.take()
            while not process.dropped:
                try:
                    await listener(message)
                except Exception:
                    log.exception(
                        "listener failed on %s, again in %g s", escape(message.msg_id), RETRY_DELAY
                    )
                    await trio.sleep(RETRY_DELAY)
                else:
                    process.finish(message.queue_offset)
                    break

    # Rebalance: which queues are ours.

    async def _rebalance_loop(self) -> None:
        first, retry = True, REBALANCE_RETRY[0]
        while True:
            self._rebalance_now = trio.Event()
            balanced = True
            for topic in self._subs:
                try:
                    await self._client.route(topic, fresh=first)
                    if first:
                        await self._client.heartbeat()
                    await self._rebalance(topic)
                    self._reported.pop(topic, None)
                except PyrmqError as e:
                    if retry >= REPORT_AFTER:
                        self._report(topic, str(e))
                    balanced = False
            first = not balanced
            wait = REBALANCE_INTERVAL if balanced else retry
            retry = REBALANCE_RETRY[0] if balanced else min(2 * retry, REBALANCE_RETRY[1])
            with trio.move_on_after(wait):
                await self._rebalance_now.wait()
                await trio.sleep(random.uniform(*REBALANCE_SETTLE))

    def _report(self, topic: str, why: str) -> None:
        """Says why nothing comes, once for each reason."""
        if self._reported.get(topic) != why:
            self._reported[topic] = why
            log.warning("group %s waits for topic %s: %s", self.group, escape(topic), escape(why))

    async def _rebalance(self, topic: str) -> None:
        route = await self._client.route(topic)
        queues = sorted(route.subscribe_queues(topic))
        ids = await self._member_ids(topic)
        wanted = set(self._strategy(queues, ids, self._client.client_id))
        for queue in [q for q in self._queues if q.topic == topic and q not in wanted]:
            await self._drop(queue)
        failure: PyrmqError | None = None
        for queue in sorted(wanted - self._queues.keys()):
            try:
                await self._take_over(queue)
            except PyrmqError as e:
                failure = e  # the other brokers' queues are taken all the same
        if failure is not None:
            raise failure

    async def _member_ids(self, topic: str) -> list[str]:
        route = await self._client.route(topic)
        addresses = [a for b in route.brokers for i, a in b.broker_addrs.items() if i == 0]
        if not addresses:
            raise ClientError(f"no broker of {topic} is a master")
        failure: PyrmqError | None = None
        for address in addresses:
            try:
                channel = await self._client.channel(address)
                answer = await channel.request(
                    RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": self.group}
                )
            except PyrmqError as e:
                failure = e
                continue
            ids = fastjson.loads_object(answer.body).get("consumerIdList")
            if isinstance(ids, list) and ids:
                return sorted(str(i) for i in ids)
        raise failure or ProtocolError("consumer list without ids")

    async def _drop(self, queue: MessageQueue) -> None:
        process = self._queues.pop(queue)
        process.dropped = True
        process.scope.cancel()
        await process.done.wait()
        log.info("group %s gives up %s", self.group, escape(queue))
        await self._commit(process)

    async def _take_over(self, queue: MessageQueue) -> None:
        start, known = await self._offsets.start(queue)
        log.info("group %s takes %s from offset %d", self.group, escape(queue), start)
        process = self._queues[queue] = ProcessQueue(queue, start)
        if not known:
            await self._commit(process)  # so that a crash before the first message changes nothing
        self._tasks.start_soon(self._pull_loop, process)

    # Pulling.

    async def _pull_loop(self, process: ProcessQueue) -> None:
        try:
            with process.scope:
                while not process.dropped:
                    await process.wait_for_room()
                    try:
                        messages = await self._pull(process)
                    except _MovedError as e:
                        await self._move(process, e.offset)
                        return
                    except PyrmqError as e:
                        self._report(str(process.queue), str(e))
                        await trio.sleep(ERROR_DELAY)
                        continue
                    self._reported.pop(str(process.queue), None)
                    process.put(messages)
                    for message in messages:
                        await self._send.send((process, message))
        finally:
            process.done.set()

    async def _move(self, process: ProcessQueue, offset: int) -> None:
        """The broker has no such offset: the queue is dropped and taken over anew from where the
        broker says. (It may be lower: a broker can lose the end of its log in a power cut.)"""
        log.warning(
            "offset of %s moved from %d to %d", escape(process.queue), process.next_offset, offset
        )
        process.dropped = True
        if self._queues.get(process.queue) is process:
            del self._queues[process.queue]
        await self._offsets.commit(process.queue, offset)
        self._rebalance_now.set()

    async def _pull(self, process: ProcessQueue) -> list[ReceivedMessage]:
        queue = process.queue
        sub = self._subs[queue.topic]
        channel = await self._client.master(queue.topic, queue.broker_name)
        fields = pull_fields(
            queue.topic,
            queue.queue_id,
            process.next_offset,
            PULL_COUNT,
            broker=queue.broker_name,
            group=self.group,
            suspend_ms=SUSPEND_MS,
            expression=sub.sub_string,
            expression_type=sub.expression_type,
            version=sub.version,
        )
        answer = await channel.call(RequestCode.PULL_MESSAGE, fields, timeout=PULL_TIMEOUT)
        pulled = read_pull(answer)
        if pulled.status is PullStatus.OFFSET_ILLEGAL:
            raise _MovedError(pulled.next_offset)
        messages: list[ReceivedMessage] = []
        if pulled.status is PullStatus.FOUND:
            # An inner batch comes whole, also when the pull began in the middle of it.
            messages = [
                m
                for m in decode_records(pulled.body, partial(_report_damage, queue))
                if m.queue_offset >= process.next_offset and sub.wants(m.tags)
            ]
            for m in messages:
                m.broker_name = queue.broker_name
        process.advance(pulled.next_offset)
        return messages

    # Offsets.

    async def _persist_loop(self) -> None:
        while True:
            await trio.sleep(PERSIST_INTERVAL)
            await self._persist()

    async def _persist(self) -> None:
        for process in list(self._queues.values()):
            # Meanwhile it may have been moved or given up: what it knows is old then.
            if self._queues.get(process.queue) is process:
                await self._commit(process)

    async def _commit(self, process: ProcessQueue) -> None:
        await self._offsets.commit(process.queue, process.commit_offset())


class _MovedError(Exception):
    """A pull's offset is not in the queue."""

    def __init__(self, offset: int) -> None:
        super().__init__(offset)
        self.offset = offset


class MessageIterator:
    """One loop over a consumer. Asking for the next message acknowledges the one before."""

    def __init__(self, consumer: PushConsumer) -> None:
        self._consumer = consumer
        self._current: tuple[ProcessQueue, ReceivedMessage] | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ReceivedMessage:
        self._consumer.check_entered()
        if self._current is not None:
            process, message = self._current
            self._current = None
            process.finish(message.queue_offset)
        self._current = await self._consumer.take()
        return self._current[1]
