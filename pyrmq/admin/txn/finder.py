"""One transaction: all that a broker has of it, and what has become of it."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from enum import Enum

from pyrmq.admin.txn.halves import (
    Half,
    Identity,
    OffsetSet,
    as_number,
    identity_of,
    op_offsets,
    settled_by,
)
from pyrmq.admin.txn.link import BrokerLink
from pyrmq.admin.txn.scan import (
    Bounds,
    Progress,
    Settled,
    bounds,
    each_op,
    each_open_half,
    each_record,
    no_progress,
)
from pyrmq.errors import ClientError, ProtocolError
from pyrmq.model.names import CHECK_MAX_TOPIC, HALF_TOPIC, OP_TOPIC
from pyrmq.model.properties import UNIQ_KEY
from pyrmq.model.record import ReceivedMessage, decode_record
from pyrmq.model.transaction import PREPARED_QUEUE_OFFSET, PRODUCER_GROUP, REAL_TOPIC
from pyrmq.net.address import offset_of_message_id

SHOWN_OPS = 2500
"""Op records that are read after a copy to find those that name it."""
MAX_OPS = 100
"""Op records of one transaction that are shown."""
MAX_COPIES = 64
TAIL = 256
"""Halves at the end of the queue that are read, as an index is a little behind."""
COMMITTED_FLAG = 8
TRANSACTION_MASK = 12


class State(Enum):
    """What has become of a transaction, in words."""

    PENDING = "pending: neither committed nor rolled back"
    COMMITTED = "committed: its message is in its topic"
    SETTLED = "settled without a message in its topic: rolled back (or its message is gone)"
    DISCARDED = f"moved to {CHECK_MAX_TOPIC}: its producer did not decide"
    PASSED = (
        "settled: the broker has passed it, and there is no message in its topic: "
        "rolled back (or its message is gone)"
    )


@dataclass(frozen=True, slots=True)
class Op:
    """An op record that names a copy."""

    queue_offset: int
    stored: int
    names: list[int]


@dataclass(slots=True)
class Transaction:
    """What a broker has of one transaction; bodies are as stored."""

    link: BrokerLink
    identity: Identity
    copies: list[ReceivedMessage]
    """The half and its copies, by queue offset."""
    discarded: list[ReceivedMessage] = field(default_factory=list)
    committed: list[ReceivedMessage] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)
    state: State = State.PENDING
    notes: list[str] = field(default_factory=list)

    @property
    def message(self) -> ReceivedMessage:
        """The one that says most of it: the last copy, or what else there is."""
        return (self.copies or self.discarded or self.committed)[-1]

    @property
    def transaction_id(self) -> str:
        return self.message.properties.get(UNIQ_KEY, "")

    @property
    def topic(self) -> str:
        return self.message.properties.get(REAL_TOPIC, "")

    @property
    def group(self) -> str:
        return self.message.properties.get(PRODUCER_GROUP, "")

    @property
    def label(self) -> str:
        """A short name for it."""
        return self.transaction_id or f"half offset {self.message.queue_offset}"


class TransactionFinder:
    """Finds transactions on one broker; op records are read once for all of them, and what came
    since for each."""

    def __init__(self, link: BrokerLink, progress: Progress = no_progress) -> None:
        self.link = link
        self._progress = progress
        self._where: Bounds | None = None
        self._settled: Settled | None = None

    async def find(self, name: str, *, ops: bool = True) -> list[Transaction]:
        """The transactions that a name leads to: none, one, or several with one transaction id.
        Without `ops` no op records are read, and PENDING may be SETTLED."""
        if self._where is None:
            self._where = await bounds(self.link)
            self._settled = Settled(self.link, self._where)
        seeds = await self._seeds(name)
        keys = {k for s in seeds if (k := s.properties.get(UNIQ_KEY))}
        halves = {s.commit_log_offset: s for s in seeds if s.topic == HALF_TOPIC}
        discarded = {s.commit_log_offset: s for s in seeds if s.topic == CHECK_MAX_TOPIC}
        for key in keys:
            halves |= {m.commit_log_offset: m for m in await self.link.query(HALF_TOPIC, key)}
            discarded |= {
                m.commit_log_offset: m for m in await self.link.query(CHECK_MAX_TOPIC, key)
            }
        if keys:
            halves |= {m.commit_log_offset: m for m in await self._latest(keys)}
        found = []
        for identity in {_identity(s) for s in seeds}:
            t = Transaction(
                self.link,
                identity,
                [m for _, m in sorted(halves.items()) if _identity(m) == identity],
                [m for _, m in sorted(discarded.items()) if _identity(m) == identity],
            )
            await self._complete(t, [s for s in seeds if _identity(s) == identity], ops)
            found.append(t)
        return sorted(found, key=lambda t: t.message.commit_log_offset)

    async def _seeds(self, name: str) -> list[ReceivedMessage]:
        """Messages that a name leads to: a half offset, an offset id or a transaction id."""
        if name.isdecimal() and len(name) < 20:
            half = await _half_at(self.link, int(name))
            return [half] if half is not None else []
        phys = offset_of_message_id(name)
        if phys is not None and name[-24:-20] == "0000":  # a port has 16 bits
            message = await self.link.view(phys)
            if message is not None and message.offset_msg_id.upper() == name.upper():
                committed = message.sys_flag & TRANSACTION_MASK == COMMITTED_FLAG
                if not committed and REAL_TOPIC not in message.properties:  # 5.5 takes it out
                    raise ClientError(
                        f"{name} is a message of {message.topic}, not of a transaction"
                    )
                return [message]
        found = await self.link.query(HALF_TOPIC, name)
        found = found or await self.link.query(CHECK_MAX_TOPIC, name)
        return found or await self._searched(name)

    async def _searched(self, name: str) -> list[ReceivedMessage]:
        """Halves with a transaction id, where the index does not know them."""
        assert self._where is not None
        found: list[ReceivedMessage] = []

        def take(message: ReceivedMessage) -> None:
            if message.properties.get(UNIQ_KEY) == name and len(found) < MAX_COPIES:
                found.append(message)

        _, self._where.half_end = await self.link.queue_range(HALF_TOPIC)
        await each_open_half(self.link, self._where, OffsetSet(), take, self._progress)
        return found

    async def _latest(self, keys: set[str]) -> list[ReceivedMessage]:
        """Copies among the last halves of the queue."""
        found: list[ReceivedMessage] = []

        def take(message: ReceivedMessage) -> None:
            if message.properties.get(UNIQ_KEY) in keys and len(found) < MAX_COPIES:
                found.append(message)

        begin, end = await self.link.queue_range(HALF_TOPIC)
        await each_record(self.link, HALF_TOPIC, max(begin, end - TAIL), end, take)
        return found

    async def _complete(self, t: Transaction, seeds: list[ReceivedMessage], ops: bool) -> None:
        """Finds the committed message and the op records, and judges."""
        assert self._where is not None
        assert self._settled is not None
        places = [*t.copies, *t.discarded, *seeds]
        topics = {m.properties.get(REAL_TOPIC) for m in places}
        candidates = [s for s in seeds if s.topic in topics]
        for topic in topics - {None, "", HALF_TOPIC, CHECK_MAX_TOPIC}:
            for key in {m.properties.get(UNIQ_KEY) for m in places} - {None, ""}:
                candidates += await self.link.query(str(topic), str(key))
        own = {m.commit_log_offset for m in t.copies}
        by_place = {
            m.commit_log_offset: m
            for m in candidates
            if m.sys_flag & TRANSACTION_MASK == COMMITTED_FLAG
            and (_identity(m) == t.identity or m.prepared_transaction_offset in own)
        }
        t.committed = [m for _, m in sorted(by_place.items())]
        if ops and t.copies:
            if t.copies[-1].queue_offset >= self._where.half:
                await self._settled.refresh(self._progress)
            t.ops = await self._ops_of(t)
        _judge(t, self._where, self._settled.offsets)

    async def _ops_of(self, t: Transaction) -> list[Op]:
        """Op records that name a copy, as far as they are near."""
        own = {m.queue_offset for m in t.copies}
        own |= {n for m in t.copies if (n := _stood_for(m)) is not None and n >= 0}
        found: dict[int, Op] = {}

        def take(message: ReceivedMessage) -> None:
            names = {offset for offset in op_offsets(message.body) if offset in own}
            if names and len(found) < MAX_OPS:
                place = message.queue_offset
                found[place] = Op(place, message.store_timestamp, sorted(names))

        first, end = await self.link.queue_range(OP_TOPIC)
        read_to = first
        for copy in (t.copies[0], t.copies[-1]):
            begin = await self.link.offset_at(OP_TOPIC, copy.store_timestamp - 1000)
            begin = max(begin, read_to)
            read_to = max(min(begin + SHOWN_OPS, end), read_to)
            await each_op(self.link, begin, read_to, take, self._progress)
        return [op for _, op in sorted(found.items())]


async def find(link: BrokerLink, name: str, progress: Progress = no_progress) -> list[Transaction]:
    """The transactions that a name leads to on one broker."""
    return await TransactionFinder(link, progress).find(name)


async def _half_at(link: BrokerLink, offset: int) -> ReceivedMessage | None:
    begin, end = await link.queue_range(HALF_TOPIC)
    if not begin <= offset < end:
        return None
    pulled = await link.pull(HALF_TOPIC, offset, 1)
    if not pulled.body:
        return None
    message = decode_record(memoryview(pulled.body), inflate_body=False)
    return message if message.queue_offset == offset else None


def _identity(message: ReceivedMessage) -> Identity:
    """As of a half, also for the messages that came of one."""
    identity = identity_of(message)
    if isinstance(identity, int) and message.topic != HALF_TOPIC:
        return -1 - message.commit_log_offset
    return identity


def _judge(t: Transaction, where: Bounds, settled: OffsetSet) -> None:
    """Says what has become of it."""
    last = t.copies[-1] if t.copies else None
    named = {offset for op in t.ops for offset in op.names}
    decided = last is not None and (
        settled_by(Half.of(last, t.link.name), settled)
        or not named.isdisjoint({last.queue_offset, _stood_for(last)})
    )
    open_copy = last is not None and last.queue_offset >= where.half and not decided
    if t.committed:
        t.state = State.COMMITTED
        if len(t.committed) > 1:
            t.notes.append(f"delivered {len(t.committed)} times")
        if open_copy:
            t.notes.append("its half is not settled yet: the broker may ask the producer again")
    elif t.discarded and (
        last is None or t.discarded[-1].commit_log_offset > last.commit_log_offset
    ):
        t.state = State.DISCARDED
    elif open_copy:
        t.state = State.PENDING
    else:
        t.state = State.SETTLED if decided else State.PASSED


def _stood_for(copy: ReceivedMessage) -> int | None:
    """Queue offset of the half that a copy says it stands for."""
    return as_number(copy.properties.get(PREPARED_QUEUE_OFFSET))


def body_head(message: ReceivedMessage, most: int) -> bytes:
    """The first bytes of a body, decompressed where this can be done."""
    if most < 1:  # 0 means no limit to zlib
        return b""
    if message.sys_flag & 1 and message.sys_flag & 0x700 in (0, 0x300):
        try:
            return zlib.decompressobj().decompress(message.body[: most + 65536], most)
        except zlib.error as e:
            raise ProtocolError(f"body is not what it says: {e}") from e
    return message.body[:most]
