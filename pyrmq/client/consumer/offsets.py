"""Where a group is in its queues, kept by the brokers, how far the queues reach, and where a group
starts in a queue without an offset.
[RemoteBrokerOffsetStore, RebalancePushImpl.computePullFromWhereWithException]

Requests that reset offsets, and local files, have tables of queues and offsets as JSON. fastjson
writes a queue as the key of an object, which is no JSON; both forms that clients write are read,
and the flat list that brokers send to some of them. [MessageQueueForC, GetConsumerStatusBody]

The rule for the start differs from RocketMQ's in two ways. If a group has offsets in other queues
of the topic, it reads a new queue from its first message, because the topic grew while the group
was away. And with LAST_OFFSET the end is fixed when the consumer opens, not when it first asks a
broker.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

import trio

from pyrmq.client.brokers import Replicas
from pyrmq.client.instance import ClientInstance
from pyrmq.errors import (
    ClientError,
    ProtocolError,
    PyrmqError,
    QueryNotFoundError,
    TopicNotExistError,
)
from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.model.codes import V5_0_0, RequestCode
from pyrmq.model.message import MessageQueue
from pyrmq.model.names import RETRY_PREFIX
from pyrmq.net.command import number

log = logging.getLogger(__name__)

LOOK, LOOK_PAUSE = 1.0, 5.0
"""Seconds that looking for a master may take, and until it is looked for again."""
ASKED = 32
"""Most queues of a broker that are asked about: a group has offsets in the first ones, because new
queues are added behind them."""


class ConsumeFrom(Enum):
    """Where a group starts in a queue without an offset: at the end, at the first message, or at
    the first message that was stored at or after a time. Its text is its name.
    [ConsumeFromWhere]"""

    LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
    FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
    TIMESTAMP = "CONSUME_FROM_TIMESTAMP"

    def __str__(self) -> str:
        return self.name


class OffsetStore(Protocol):
    """Keeps the next offset to consume of each queue."""

    async def read(self, queue: MessageQueue) -> int | None:
        """The offset; None if there is none. Raises PyrmqError."""
        ...

    async def has_any(self, topic: str) -> bool:
        """Whether any queue of the topic had an offset before this client. Raises PyrmqError if
        that is unknown."""
        ...

    async def reach(self, queue: MessageQueue) -> bool:
        """Prepares a `write` so that it need not wait; logs a failure."""
        ...

    async def write(self, queue: MessageQueue, offset: int) -> str:
        """The present keeper of the offset; empty after a failure, which is logged."""
        ...

    def keeper(self, queue: MessageQueue) -> str:
        """The keeper of an offset that is written now, as far as known."""
        ...

    async def find_keeper(self, queue: MessageQueue) -> None:
        """Before the last write: finds the right keeper again."""
        ...

    async def flush(self) -> None:
        """Makes written offsets durable, as far as this store does that."""
        ...


class BrokerOffsets:
    """The offsets of one group, kept by the queues' brokers: masters, and slaves while those are
    away. A master gets the offsets of that time from members that stay or leave, and from the
    slave."""

    def __init__(self, client: ClientInstance, group: str) -> None:
        self._client = client
        self._group = group
        self._replicas = Replicas(client)
        self._looked: dict[tuple[str, str], float] = {}
        """When a master may be looked for again, by topic and broker name."""
        self._looking: dict[tuple[str, str], trio.Lock] = {}
        """Held during the search for a master."""

    async def read(self, queue: MessageQueue) -> int | None:
        topic, broker = queue.topic, queue.broker_name
        has_master = await self._replicas.has_master(topic, broker)
        channel, replica = await self._replicas.serving(topic, broker)
        try:
            answer = await channel.request(
                RequestCode.QUERY_CONSUMER_OFFSET, {**_place(queue), "consumerGroup": self._group}
            )
        except QueryNotFoundError:
            if replica.is_slave and has_master:  # to start anew by its word could leave much out
                raise ClientError(
                    f"the slave at {replica.address} knows no offset of {queue}, and its master "
                    "cannot be asked"
                ) from None
            return None
        return number(answer, "offset")

    async def has_any(self, topic: str) -> bool:
        """Asks all brokers of the topic at once, each for the offsets of its first queues up to the
        first that it has. The brokers do not learn of the group by that."""
        try:
            route = await self._client.routes.route(topic)
        except TopicNotExistError:
            return False
        by_broker: dict[str, list[MessageQueue]] = {}
        for queue in sorted(route.subscribe_queues(topic)):
            by_broker.setdefault(queue.broker_name, []).append(queue)
        found = False
        failures: list[PyrmqError] = []

        async def of_broker(queues: list[MessageQueue]) -> None:
            nonlocal found
            try:
                if await self._has_one_of(queues[:ASKED]):
                    found = True
                    nursery.cancel_scope.cancel()
            except PyrmqError as e:
                failures.append(e)

        async with trio.open_nursery() as nursery:
            for queues in by_broker.values():
                nursery.start_soon(of_broker, queues)
        if failures and not found:
            raise failures[0]
        return found

    async def _has_one_of(self, queues: list[MessageQueue]) -> bool:
        """The same for one broker: it, or its first reachable replica."""
        failure: PyrmqError | None = None
        for replica in self._replicas.known(queues[0].topic, queues[0].broker_name):
            try:
                channel = await self._client.channel(replica.address)
                for queue in queues:
                    with suppress(QueryNotFoundError):
                        answer = await channel.request(
                            RequestCode.QUERY_CONSUMER_OFFSET,
                            {
                                **_place(queue),
                                "consumerGroup": self._group,
                                "setZeroIfNotFound": False,
                            },
                        )
                        # Older brokers do not know the field: of them 0 says nothing.
                        if number(answer, "offset") or answer.version >= V5_0_0:
                            return True
            except PyrmqError as e:
                failure = failure or e
            else:
                return False
        if failure is not None:
            raise failure
        return False

    async def reach(self, queue: MessageQueue) -> bool:
        try:
            await self._replicas.serving(queue.topic, queue.broker_name)
        except PyrmqError as e:
            log.warning(
                "offset of %s not written: %s", escape(queue), escape(e), extra=about(queue=queue)
            )
            return False
        return True

    async def write(self, queue: MessageQueue, offset: int) -> str:
        try:
            channel, replica = await self._replicas.serving(queue.topic, queue.broker_name)
            fields = {**_place(queue), "consumerGroup": self._group, "commitOffset": offset}
            await channel.request(RequestCode.UPDATE_CONSUMER_OFFSET, fields)
        except PyrmqError as e:
            log.warning(
                "offset of %s not written: %s", escape(queue), escape(e), extra=about(queue=queue)
            )
            return ""
        return replica.address

    def keeper(self, queue: MessageQueue) -> str:
        known = self._replicas.known(queue.topic, queue.broker_name)
        return known[0].address if known else ""

    async def find_keeper(self, queue: MessageQueue) -> None:
        """If a slave would keep the offset, it looks for the master, which may be back and which
        the next owner of the queue asks. If the master is away, it looks once in a while, for all
        queues of a topic; the others wait for that. Each topic has its own route."""
        broker = queue.broker_name
        place = queue.topic, broker
        async with self._looking.setdefault(place, trio.Lock()):
            now = trio.current_time()
            known = self._replicas.known(queue.topic, broker)
            if not known or not known[0].is_slave or now < self._looked.get(place, now):
                return
            self._looked[place] = now + LOOK_PAUSE
            with trio.move_on_after(LOOK):
                await self._replicas.greet_master(queue.topic, broker)

    async def flush(self) -> None:
        """Brokers flush offsets themselves."""


class QueueBounds:
    """The first and the last offsets of queues, as their brokers give them; slaves do while their
    masters are away."""

    def __init__(self, client: ClientInstance) -> None:
        self._replicas = Replicas(client)

    async def min_offset(self, queue: MessageQueue) -> int:
        """The offset of the first message."""
        return await self._ask(queue, RequestCode.GET_MIN_OFFSET)

    async def max_offset(self, queue: MessageQueue) -> int:
        """The offset after the last message."""
        return await self._ask(queue, RequestCode.GET_MAX_OFFSET)

    async def offset_at(self, queue: MessageQueue, timestamp: int) -> int:
        """The offset of the first message that was stored at or after a time, ms since 1970."""
        code = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
        return await self._ask(queue, code, timestamp=timestamp)

    async def _ask(self, queue: MessageQueue, code: RequestCode, **fields: int) -> int:
        channel, _ = await self._replicas.serving(queue.topic, queue.broker_name)
        return number(await channel.request(code, {**_place(queue), **fields}), "offset")


def _place(queue: MessageQueue) -> dict[str, str | int | bool]:
    return {"topic": queue.topic, "queueId": queue.queue_id}


MAX_OFFSET = 2**63 - 1


def encode_table(offsets: Mapping[MessageQueue, int]) -> dict[Any, int]:
    """For `fastjson.dumps`."""
    return {queue.as_key(): offset for queue, offset in sorted(offsets.items())}


def decode_table(value: object) -> dict[MessageQueue, int]:
    """`{{queue}:offset}`, `[[{queue},offset]]` or `[{queue with offset}]`. ProtocolError."""
    found: dict[MessageQueue, int] = {}
    for queue, offset in _entries(value):
        if type(offset) is not int or not 0 <= offset <= MAX_OFFSET:
            raise ProtocolError(f"{offset!r:.40} is no offset")
        found[MessageQueue.from_json(queue)] = offset
    return found


def _entries(value: object) -> Iterator[tuple[Mapping[str, Any], object]]:
    if isinstance(value, Mapping):
        for key, offset in value.items():
            if not isinstance(key, tuple):
                raise ProtocolError("a table of offsets has queues as keys")
            yield dict(key), offset
    elif isinstance(value, list):
        for entry in value:
            if isinstance(entry, Mapping):
                yield entry, entry.get("offset")
            elif isinstance(entry, list) and len(entry) == 2 and isinstance(entry[0], Mapping):
                yield entry[0], entry[1]
            else:
                raise ProtocolError("a table of offsets has entries of queue and offset")
    else:
        raise ProtocolError("there is no table of offsets")


SKEW_MS = 60_000
"""How much the clocks of brokers and clients may differ. A message may be so much older than the
consumer, in a queue that did not exist when the consumer opened."""
SECOND_LOOK = 0.5
"""Seconds until a queue without an offset is checked again: another member of a new group may be
about to write it."""


@dataclass(slots=True)
class _Joined:
    """The state of a topic since a consumer shares it."""

    is_known: bool
    """Whether the group already had offsets in it."""
    entered: int | None = None
    """From when on no message may be missed, ms since 1970; None: no caller waits for that yet."""


class StartRule:
    """`timestamp` (ms) belongs to TIMESTAMP. A retry topic is read from its start, because its
    messages were sent back to this group."""

    def __init__(
        self, store: OffsetStore, bounds: QueueBounds, start_from: ConsumeFrom, timestamp: int
    ) -> None:
        self._store = store
        self._bounds = bounds
        self._from = start_from
        self._timestamp = timestamp
        self._topics: dict[str, _Joined] = {}

    def may_miss(self, topic: str) -> bool:
        """Whether messages of a topic are missed if its queues' start offsets are found late."""
        return self._from is ConsumeFrom.LAST_OFFSET and not topic.startswith(RETRY_PREFIX)

    async def join(self, topic: str) -> None:
        """Before brokers learn that this client shares a topic: finds out whether its group has
        offsets there. (Other members of a new group may write some at any time after that.)"""
        if self._from is ConsumeFrom.FIRST_OFFSET or topic.startswith(RETRY_PREFIX):
            return
        joined = self._topics[topic] = _Joined(is_known=False)
        try:
            joined.is_known = await self._store.has_any(topic)
        except PyrmqError as e:
            log.warning(
                "it is not known whether the group has offsets in topic %s: %s. Where it has none "
                "it starts as a new group (%s)",
                escape(topic), escape(e), escape(self._from), extra=about(topic=topic),
            )  # fmt: skip

    def entered(self, topic: str) -> None:
        """From now on no message of the topic may be missed."""
        joined = self._topics.get(topic)
        if joined is not None:
            joined.entered = time.time_ns() // 1_000_000

    def left(self, topic: str) -> None:
        """The topic is not shared any more."""
        self._topics.pop(topic, None)

    async def start(self, queue: MessageQueue, stored: int | None) -> int:
        """The offset to begin at. `stored`: the offset in the store. Raises PyrmqError."""
        if stored is not None and stored >= 0:
            return stored
        if self._from is ConsumeFrom.FIRST_OFFSET or queue.topic.startswith(RETRY_PREFIX):
            return 0
        joined = self._topics.get(queue.topic)
        if joined is not None and joined.is_known:
            return await self._start_new(queue)
        if self._from is ConsumeFrom.TIMESTAMP:
            return await self._bounds.offset_at(queue, self._timestamp)
        if joined is None or joined.entered is None:
            return await self._bounds.max_offset(queue)
        return await self._bounds.offset_at(queue, joined.entered - SKEW_MS)

    async def _start_new(self, queue: MessageQueue) -> int:
        await trio.sleep(SECOND_LOOK)
        stored = await self._store.read(queue)
        if stored is not None and stored >= 0:
            return stored
        first = await self._bounds.min_offset(queue)
        log.info(
            "%s is new to the group, which has offsets in others of the topic: it is read from its "
            "first message, offset %d",
            escape(queue), first, extra=about(queue=queue),
        )  # fmt: skip
        return first
