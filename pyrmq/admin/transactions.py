"""One transaction: all that a broker has of it, and deciding it in its producer's place."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from enum import Enum

from pyrmq.admin.broker import BrokerLink, Ext
from pyrmq.admin.halves import (
    Filter,
    Half,
    Identity,
    PendingTable,
    as_number,
    identity_of,
    op_offsets,
    settled_by,
)
from pyrmq.admin.offset_set import OffsetSet
from pyrmq.admin.scan import (
    Bounds,
    Progress,
    bounds,
    each_op,
    each_open_half,
    each_record,
    no_progress,
)
from pyrmq.errors import ClientError, ProtocolError, RequestTimeoutError
from pyrmq.model.codes import ResponseCode
from pyrmq.model.message import UNIQ_KEY, ReceivedMessage, decode_record
from pyrmq.model.names import CHECK_MAX_TOPIC, HALF_TOPIC, OP_TOPIC
from pyrmq.model.transaction import (
    PREPARED_QUEUE_OFFSET,
    PRODUCER_GROUP,
    REAL_TOPIC,
    TransactionState,
)
from pyrmq.net.address import offset_of_message_id

OLD_OPS = 5000
"""Op records that are read only to show them."""
MAX_OPS = 100
"""Op records of one transaction that are shown."""
MAX_COPIES = 256
COMMITTED_FLAG = 8
TRANSACTION_MASK = 12


class State(Enum):
    """What has become of a transaction, in words."""

    PENDING = "pending: neither committed nor rolled back"
    COMMITTED = "committed: its message is in its topic"
    SETTLED = "settled without a message in its topic: rolled back (or its message is gone)"
    SET_ASIDE = f"set aside: its producer did not decide, it lies in {CHECK_MAX_TOPIC}"
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
    set_aside: list[ReceivedMessage] = field(default_factory=list)
    committed: list[ReceivedMessage] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)
    state: State = State.PENDING
    notes: list[str] = field(default_factory=list)

    @property
    def message(self) -> ReceivedMessage:
        """The one that says most of it: the last copy, or what else there is."""
        return (self.copies or self.set_aside or self.committed)[-1]

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


async def _half_at(link: BrokerLink, offset: int) -> ReceivedMessage | None:
    begin, end = await link.queue_range(HALF_TOPIC)
    if not begin <= offset < end:
        return None
    pulled = await link.pull(HALF_TOPIC, offset, 1)
    if not pulled.body:
        return None
    message = decode_record(memoryview(pulled.body), inflate_body=False)
    return message if message.queue_offset == offset else None


async def _seeds(
    link: BrokerLink, name: str, where: Bounds, progress: Progress
) -> list[ReceivedMessage]:
    """Messages that a name leads to: a half offset, an offset id or a transaction id."""
    if name.isdecimal() and len(name) < 20:
        half = await _half_at(link, int(name))
        return [half] if half is not None else []
    phys = offset_of_message_id(name)
    if phys is not None and name[-24:-20] == "0000":  # a port has 16 bits
        message = await link.view(phys)
        if message is not None and message.offset_msg_id.upper() == name.upper():
            if REAL_TOPIC not in message.properties:
                raise ClientError(f"{name} is a message of {message.topic}, not of a transaction")
            return [message]
    found = await link.query(HALF_TOPIC, name) or await link.query(CHECK_MAX_TOPIC, name)
    return found or await _searched(link, name, where, progress)


async def _searched(
    link: BrokerLink, name: str, where: Bounds, progress: Progress
) -> list[ReceivedMessage]:
    """Halves with a transaction id, where the index does not know them."""
    found: list[ReceivedMessage] = []

    def take(message: ReceivedMessage) -> None:
        if message.properties.get(UNIQ_KEY) == name and len(found) < MAX_COPIES:
            found.append(message)

    await each_open_half(link, where, OffsetSet(), take, progress)
    return found


async def find(link: BrokerLink, name: str, progress: Progress = no_progress) -> list[Transaction]:
    """The transactions that a name leads to: none, one, or several with one transaction id."""
    where = await bounds(link)
    seeds = await _seeds(link, name, where, progress)
    halves: dict[int, ReceivedMessage] = {}
    aside: dict[int, ReceivedMessage] = {}
    for seed in seeds:
        if seed.topic == HALF_TOPIC:
            halves[seed.commit_log_offset] = seed
        elif seed.topic == CHECK_MAX_TOPIC:
            aside[seed.commit_log_offset] = seed
    for key in {k for s in seeds if (k := s.properties.get(UNIQ_KEY))}:
        halves |= {m.commit_log_offset: m for m in await link.query(HALF_TOPIC, key)}
        aside |= {m.commit_log_offset: m for m in await link.query(CHECK_MAX_TOPIC, key)}
    wanted = {_identity(s) for s in seeds}
    made: dict[Identity, Transaction] = {}
    for identity in wanted:
        made[identity] = Transaction(
            link,
            identity,
            sorted(
                (m for m in halves.values() if _identity(m) == identity),
                key=lambda m: m.queue_offset,
            ),
            [m for _, m in sorted(aside.items()) if _identity(m) == identity],
        )
    for transaction in made.values():
        await _complete(transaction, seeds, where, progress)
    return sorted(made.values(), key=lambda t: t.message.commit_log_offset)


def _identity(message: ReceivedMessage) -> Identity:
    """As of a half, also for the messages that came of one."""
    identity = identity_of(message)
    if isinstance(identity, int) and message.topic != HALF_TOPIC:
        return -1 - message.commit_log_offset
    return identity


async def _complete(
    transaction: Transaction, seeds: list[ReceivedMessage], where: Bounds, progress: Progress
) -> None:
    """Finds the committed message and the op records, and judges."""
    t = transaction
    candidates = [s for s in seeds if s.topic not in (HALF_TOPIC, CHECK_MAX_TOPIC)]
    places = [*t.copies, *t.set_aside, *candidates]
    topics = {m.properties.get(REAL_TOPIC) for m in places if _identity(m) == t.identity}
    keys = {m.properties.get(UNIQ_KEY) for m in places if _identity(m) == t.identity}
    for topic in topics - {None, "", HALF_TOPIC, CHECK_MAX_TOPIC}:
        for key in keys - {None, ""}:
            candidates += await t.link.query(str(topic), str(key))
    own = {m.commit_log_offset for m in t.copies}
    by_place = {
        m.commit_log_offset: m
        for m in candidates
        if m.sys_flag & TRANSACTION_MASK == COMMITTED_FLAG
        and (_identity(m) == t.identity or m.prepared_transaction_offset in own)
    }
    t.committed = [m for _, m in sorted(by_place.items())]
    settled = await _read_ops(t, where, progress)
    t.state = _judge(t, where, settled)


async def _read_ops(t: Transaction, where: Bounds, progress: Progress) -> OffsetSet:
    """Collects the op records of a transaction; what all those settle that still count."""
    if not t.copies:
        return OffsetSet()
    own = {m.queue_offset for m in t.copies}
    stood_for = (as_number(m.properties.get(PREPARED_QUEUE_OFFSET)) for m in t.copies)
    own |= {n for n in stood_for if n is not None and n >= 0}
    found: dict[int, Op] = {}
    settled = OffsetSet()

    def take(message: ReceivedMessage) -> None:
        names = {offset for offset in op_offsets(message.body) if offset in own}
        for offset in names:
            settled.add(offset)
        if names and len(found) < MAX_OPS:
            place = message.queue_offset
            found[place] = Op(place, message.store_timestamp, sorted(names))

    if t.copies[-1].queue_offset >= where.half:
        await each_op(t.link, where.op, where.op_end, take, progress)
    # Older ones settle nothing any more; they are shown if they are near.
    begin = await t.link.offset_at(OP_TOPIC, t.copies[0].store_timestamp - 1000)
    begin = max(begin, where.op_begin)
    await each_op(t.link, begin, min(begin + OLD_OPS, where.op_end), take, progress)
    t.ops = [op for _, op in sorted(found.items())]
    return settled


def _judge(t: Transaction, where: Bounds, settled: OffsetSet) -> State:
    last = t.copies[-1] if t.copies else None
    open_copy = (
        last is not None
        and last.queue_offset >= where.half
        and not settled_by(Half.of(last, t.link.name), settled)
    )
    if t.committed:
        if len(t.committed) > 1:
            t.notes.append(f"delivered {len(t.committed)} times")
        if open_copy:
            t.notes.append("its half is not settled yet: the broker may ask the producer again")
        return State.COMMITTED
    if t.set_aside and (last is None or t.set_aside[-1].commit_log_offset > last.commit_log_offset):
        return State.SET_ASIDE
    if open_copy:
        return State.PENDING
    if last is not None and settled_by(Half.of(last, t.link.name), settled):
        return State.SETTLED
    return State.PASSED


async def set_aside(
    link: BrokerLink, limit: int, wanted: Filter | None = None, progress: Progress = no_progress
) -> tuple[list[Half], int]:
    """The oldest messages that were set aside and that nobody has resumed or committed since, and
    how many were ever set aside of those that are still stored. Their offsets are those in the
    topic where they lie."""
    table = PendingTable(limit, wanted)
    begin, end = await link.queue_range(CHECK_MAX_TOPIC)

    def take(message: ReceivedMessage) -> None:
        table.add(Half.of(message, link.name), identity_of(message))

    await each_record(link, CHECK_MAX_TOPIC, begin, end, take, progress)
    found: dict[Identity, Half] = {}
    for half in table.rows():
        for t in await find(link, half.offset_msg_id, progress):
            if t.state is State.SET_ASIDE:
                found[t.identity] = half
    return list(found.values()), table.count


@dataclass(frozen=True, slots=True)
class Answer:
    """What a broker said to a request that changes something."""

    code: int
    remark: str

    @property
    def done(self) -> bool:
        return self.code == ResponseCode.SUCCESS

    def __str__(self) -> str:
        name = ResponseCode(self.code).name if self.code in _CODES else "unknown code"
        remark = "" if self.done else self.remark  # RocketMQ's answers to success have odd ones
        return f"{self.code} {name}" + (f": {remark}" if remark else "")


_CODES = {int(code) for code in ResponseCode}


def check_decidable(t: Transaction, state: TransactionState) -> ReceivedMessage:
    """The copy that a decision is to name. ClientError for what is decided already."""
    if state is TransactionState.UNKNOWN:
        raise ClientError("unknown is no decision")
    late = t.state is State.SET_ASIDE and state is TransactionState.COMMIT
    if not (t.state is State.PENDING or late):
        hint = " (resume it first)" if t.state is State.SET_ASIDE else ""
        raise ClientError(f"{t.label} is {t.state.value}{hint}")
    if not t.copies:
        raise ClientError(f"{t.label}: its half message is gone; resume it instead")
    return t.copies[-1]


async def decide(t: Transaction, state: TransactionState) -> Answer:
    """END_TRANSACTION for the live copy, as if its producer answered a check."""
    copy = check_decidable(t, state)
    ext: Ext = {
        "topic": t.topic,
        "producerGroup": t.group,
        "tranStateTableOffset": copy.queue_offset,
        "commitLogOffset": copy.commit_log_offset,
        "commitOrRollback": int(state),
        "fromTransactionCheck": True,
        "msgId": t.transaction_id,
        "transactionId": t.transaction_id,
    }
    try:
        answer = await t.link.end_transaction(ext)
    except RequestTimeoutError as e:
        raise RequestTimeoutError(f"{e}: look again before you try again") from e
    return Answer(answer.code, answer.remark or "")


def check_resumable(t: Transaction) -> ReceivedMessage:
    """The set-aside message that can be resumed. ClientError if there is none."""
    if t.state is not State.SET_ASIDE:
        raise ClientError(f"{t.label} is {t.state.value}: only what is set aside can be resumed")
    return t.set_aside[-1]


async def resume(t: Transaction) -> Answer:
    """RESUME_CHECK_HALF_MESSAGE: the broker makes a half of it again, with no checks counted."""
    message = check_resumable(t)
    answer = await t.link.resume(t.topic, message.offset_msg_id)
    return Answer(answer.code, answer.remark or "")


def body_head(message: ReceivedMessage, most: int) -> bytes:
    """The first bytes of a body, decompressed where this can be done."""
    if message.sys_flag & 1 and message.sys_flag & 0x700 in (0, 0x300):
        try:
            return zlib.decompressobj().decompress(message.body[: most + 65536], most)
        except zlib.error as e:
            raise ProtocolError(f"body is not what it says: {e}") from e
    return message.body[:most]
