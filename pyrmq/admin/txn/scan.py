"""Reading the half and op queues of a broker. [TransactionalMessageServiceImpl.check]"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import trio

from pyrmq.admin.txn.halves import (
    OP_TAG,
    Filter,
    Half,
    OffsetSet,
    PendingTable,
    identity_of,
    op_offsets,
    settled_by,
)
from pyrmq.admin.txn.link import BrokerLink, queue_offset_of, split_records
from pyrmq.errors import ClientError, ProtocolError, PyrmqError, TopicNotExistError, leaves
from pyrmq.model.names import CHECK_MAX_TOPIC, HALF_TOPIC, OP_TOPIC
from pyrmq.model.record import ReceivedMessage, decode_record

Progress = Callable[[str, int, int], None]
"""Called with what is read, how many of how many."""


class NoTransactionsError(ClientError):
    """A broker that no transaction was ever sent to."""


LANES = 8
"""Pulls of op records at a time; a queue is read in so many parts."""
LANE = 4096
"""Offsets that a part has at least."""


def no_progress(what: str, done: int, total: int) -> None:
    pass


@dataclass(slots=True)
class Bounds:
    """Where a broker's transactions are: what lies before `half` and `op` is settled for good."""

    half_begin: int
    half: int
    half_end: int
    op_begin: int
    op: int
    op_end: int


async def bounds(link: BrokerLink) -> Bounds:
    """NoTransactionsError where the broker has no half topic."""
    # The op offset first, the op queue's end last: what moves meanwhile must not leave out an op
    # record of a half that is read.
    op = await link.group_offset(OP_TOPIC)
    half = await link.group_offset(HALF_TOPIC)
    half_begin, half_end = await link.queue_range(HALF_TOPIC)
    if half_end == 0:
        try:
            await link.pull(HALF_TOPIC, 0, 1)
        except TopicNotExistError:
            raise NoTransactionsError(
                f"{link.name} has no topic {HALF_TOPIC}: no transaction was ever sent to it"
            ) from None
    op_begin, op_end = await link.queue_range(OP_TOPIC)
    return Bounds(
        half_begin,
        min(max(half or 0, half_begin), half_end),
        half_end,
        op_begin,
        min(max(op or 0, op_begin), op_end),
        op_end,
    )


def _records(body: bytes, begin: int, end: int) -> Iterator[memoryview]:
    """The records of a pull that are of offsets begin..end-1."""
    for record in split_records(body):
        if begin <= queue_offset_of(record) < end:
            yield record


async def each_record(
    link: BrokerLink,
    topic: str,
    begin: int,
    end: int,
    take: Callable[[ReceivedMessage], object],
    progress: Progress = no_progress,
    *,
    lanes: int = 1,
) -> bool:
    """Gives `take` the messages of offsets begin..end-1, without those that are damaged; whether
    the broker had them all. With several lanes many are read at a time, and their order is lost."""
    done = 0

    async def lane(at: int, stop: int) -> None:
        nonlocal done
        while at < stop:
            progress(topic, done, end - begin)
            pulled = await link.pull(topic, at)
            if pulled.end:
                return
            for record in _records(pulled.body, at, stop):
                try:
                    message = decode_record(record, inflate_body=False)
                except ProtocolError:
                    continue
                take(message)
            done += min(pulled.next_offset, stop) - at
            at = pulled.next_offset

    size = max(-(-(end - begin) // lanes), LANE)
    failures: list[BaseException] = []
    try:
        async with trio.open_nursery() as nursery:
            for at in range(begin, end, size):
                nursery.start_soon(lane, at, min(at + size, end))
    except* PyrmqError as group:
        failures = leaves(group)
    if failures:
        raise failures[0]
    return done == end - begin


async def each_op(
    link: BrokerLink,
    begin: int,
    end: int,
    take: Callable[[ReceivedMessage], object],
    progress: Progress = no_progress,
) -> bool:
    """Gives `take` the op records of offsets begin..end-1, in no order; whether the broker had them
    all. What a damaged one names stays open, which is what the broker makes of it as well."""

    def pick(message: ReceivedMessage) -> None:
        if message.tags == OP_TAG:
            take(message)

    return await each_record(link, OP_TOPIC, begin, end, pick, progress, lanes=LANES)


class Settled:
    """The halves that op records name, from where they still count on."""

    def __init__(self, link: BrokerLink, where: Bounds) -> None:
        self.where = where
        self.offsets = OffsetSet()
        self._link = link
        self._read_to = where.op

    async def refresh(self, progress: Progress = no_progress) -> None:
        """Reads what was not read yet, and notes where the queues end now."""
        where = self.where
        # In this order: what settles meanwhile is settled, what comes meanwhile is not there.
        where.half_end = max(where.half_end, (await self._link.queue_range(HALF_TOPIC))[1])
        where.op_end = max(where.op_end, (await self._link.queue_range(OP_TOPIC))[1])

        def take(message: ReceivedMessage) -> None:
            for offset in op_offsets(message.body):
                if offset >= where.half_begin:
                    self.offsets.add(offset)

        if await each_op(self._link, self._read_to, where.op_end, take, progress):
            self._read_to = where.op_end


async def each_open_half(
    link: BrokerLink,
    where: Bounds,
    settled: OffsetSet,
    take: Callable[[ReceivedMessage], object],
    progress: Progress = no_progress,
) -> int:
    """Gives `take` the halves that no op record names, without reading runs of those that are
    settled; how many were damaged."""
    damaged = 0
    at = settled.next_absent(where.half)
    while at < where.half_end:
        progress(HALF_TOPIC, at - where.half, where.half_end - where.half)
        pulled = await link.pull(HALF_TOPIC, at)
        if pulled.end:
            break
        for record in _records(pulled.body, at, where.half_end):
            if queue_offset_of(record) in settled:
                continue
            try:
                take(decode_record(record, inflate_body=False))
            except ProtocolError:
                damaged += 1
        at = settled.next_absent(pulled.next_offset)
    return damaged


@dataclass(slots=True)
class Scan:
    """What a broker has pending."""

    table: PendingTable
    where: Bounds
    settled: int
    damaged: int


async def pending(
    link: BrokerLink, limit: int, wanted: Filter | None = None, progress: Progress = no_progress
) -> Scan:
    """The pending transactions of a broker, as of the time when the op records were read."""
    where = await bounds(link)
    known = Settled(link, where)
    await known.refresh(progress)
    settled = known.offsets
    table = PendingTable(limit, wanted)

    def take(message: ReceivedMessage) -> None:
        half = Half.of(message, link.name)
        if not settled_by(half, settled):
            table.add(half, identity_of(message))

    damaged = await each_open_half(link, where, settled, take, progress)
    return Scan(table, where, len(settled), damaged)


@dataclass(slots=True)
class Statistics:
    """What can be counted from outside, and what the broker itself counts (if it says so)."""

    scan: Scan | None
    """None where the broker never had a transaction."""
    discarded: int
    counters: dict[str, str]


COUNTER = "transaction"
"""How the keys begin of the figures that a broker keeps itself, in GET_BROKER_RUNTIME_INFO. pyrmq's
brokers have some, such as transactionHalfCount; Apache's have none."""
MAX_COUNTERS = 64


async def statistics(
    link: BrokerLink, wanted: Filter | None = None, progress: Progress = no_progress
) -> Statistics:
    """Counts the pending ones; a broker without transactions has none."""
    info = await link.runtime_info()
    begin, end = await link.queue_range(CHECK_MAX_TOPIC)
    try:
        scan: Scan | None = await pending(link, 1, wanted, progress)
    except NoTransactionsError:
        scan = None
    names = sorted(name for name in info if name.startswith(COUNTER))[:MAX_COUNTERS]
    return Statistics(scan, end - begin, {name: info[name] for name in names})
