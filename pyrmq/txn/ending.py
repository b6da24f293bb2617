"""END_TRANSACTION that is not plain: repeated, late, of an older copy, or of a discarded message.

The engine carries out the plain cases by itself. For the others `machine.TABLE` says by state and
event what is done and what the state is then; `Ender` looks both up and carries it out.
[EndTransactionProcessor]

Discarded messages may still be decided: by a late COMMIT, or taken up again. What stands in
TRANS_CHECK_MAX_TIME_TOPIC is remembered, from the topic itself at start. What became of such a
message before the start is looked up in the index, once that has everything that was in the log
then.
"""

from __future__ import annotations

import logging
import re
from collections import OrderedDict
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from pyrmq.engine import Slice, Store, Transactions
from pyrmq.errors import (
    IllegalOperationError,
    ProtocolError,
    ResponseError,
    SystemBusyError,
    TransactionConflictError,
)
from pyrmq.escape import escape
from pyrmq.model.codes import ResponseCode
from pyrmq.model.names import CHECK_MAX_TOPIC, HALF_TOPIC
from pyrmq.model.properties import UNIQ_KEY
from pyrmq.model.record import ReceivedMessage, decode_record, decode_records
from pyrmq.model.transaction import PRODUCER_GROUP, REAL_QUEUE_ID, REAL_TOPIC, TransactionState
from pyrmq.txn.machine import TABLE, Action, Event, PendingHalf, Rules, State, ended

log = logging.getLogger(__name__)

COMMIT_FLAG = 0x8
TYPE_MASK = 0xC
REMEMBERED = 100_000
"""Messages that are remembered; older ones are looked up in the index."""

Key = tuple[str, int, str, str]
"""UNIQ_KEY, bornTimestamp, producer group and real topic: all copies of one half share them."""


class _Memory(OrderedDict[Key, int]):
    full = False

    def note(self, key: Key, phys: int) -> None:
        self[key] = phys
        self.move_to_end(key)
        if len(self) > REMEMBERED:
            self.full = True
            self.popitem(last=False)


class Discarded:
    """Physical offsets in TRANS_CHECK_MAX_TIME_TOPIC of messages that nobody has decided yet."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._end_at_start = store.stats()["maxPhyOffset"]
        self._index_complete = False
        self._open = _Memory()
        self._closed = _Memory()
        self._read_topic()

    def _read_topic(self) -> None:
        offset, end = self._store.queue_range(CHECK_MAX_TOPIC, 0)
        if end - offset > REMEMBERED:
            self._open.full = True
            offset = end - REMEMBERED
        while offset < end:
            got = self._store.get(CHECK_MAX_TOPIC, 0, offset)
            for piece in got.slices:
                for message in decode_records(memoryview(piece), _log_damage, inflate_body=False):
                    self._open.note(key_of(message), message.commit_log_offset)
            if got.next_offset <= offset:
                return
            offset = got.next_offset

    def add(self, key: Key, phys: int) -> None:
        self._closed.pop(key, None)
        self._open.note(key, phys)

    def close(self, half: ReceivedMessage) -> None:
        """It was delivered, taken up again or rolled back."""
        key = key_of(half)
        self._closed.note(key, self._open.pop(key, 0))

    def find(self, half: ReceivedMessage) -> int | None:
        """Physical offset in TRANS_CHECK_MAX_TIME_TOPIC of the message of a half (or of one of that
        topic); None if it was never discarded or is decided. SystemBusyError while that is not
        known."""
        key = key_of(half)
        if not key[0] or key in self._closed:
            return None
        phys = self._open.get(key)
        if phys is None and self._open.full:
            phys = max(self._places(CHECK_MAX_TOPIC, half), default=None)
        if phys is None:
            return None
        if phys < self._end_at_start and self._decided_before(half, phys):
            self.close(half)
            return None
        return phys

    def delivered(self, half: ReceivedMessage) -> bool | None:
        """Whether the index has the committed message of a half; None while it cannot say."""
        try:
            return bool(self._places(half.properties[REAL_TOPIC], half, committed=True))
        except ResponseError:
            return None

    def _decided_before(self, half: ReceivedMessage, phys: int) -> bool:
        """Whether a message that was discarded before the start was delivered or taken up again."""
        delivered = self._places(half.properties[REAL_TOPIC], half, committed=True)
        again = self._places(HALF_TOPIC, half)
        return bool(delivered) or any(place > phys for place in again)

    def _places(self, topic: str, half: ReceivedMessage, *, committed: bool = False) -> list[int]:
        """Physical offsets of the copies of a half in a topic, by the index."""
        self._wait_for_index()
        found: list[Slice] = self._store.query_message(topic, half.properties[UNIQ_KEY])[0]
        messages = [decode_record(memoryview(one), inflate_body=False) for one in found]
        return [
            m.commit_log_offset
            for m in messages
            if key_of(m) == key_of(half)
            and (not committed or m.sys_flag & TYPE_MASK == COMMIT_FLAG)
        ]

    def _wait_for_index(self) -> None:
        if self._index_complete:
            return
        stats = self._store.stats()
        if stats["indexedWhere"] < self._end_at_start:
            raise SystemBusyError("the index is still being made")
        if not stats["indexFiles"]:
            raise ResponseError(
                "without an index (messageIndexEnable) it is not known whether this message was "
                "decided about after it was discarded",
                ResponseCode.SYSTEM_ERROR,
            )
        self._index_complete = True


def key_of(half: ReceivedMessage) -> Key:
    p = half.properties
    return (
        p.get(UNIQ_KEY, ""),
        half.born_timestamp,
        p.get(PRODUCER_GROUP, ""),
        p.get(REAL_TOPIC, ""),
    )


def _log_damage(damage: ProtocolError) -> None:
    log.error("a message of %s cannot be read: %s", CHECK_MAX_TOPIC, escape(damage))


_QUEUE_ID = re.compile(r"\+?[0-9]{1,20}")

Taking = Callable[[str], AbstractContextManager[None]]
"""Within it, a topic takes messages from transactions, whatever it takes from producers."""


@dataclass(frozen=True, slots=True)
class EndTransaction:
    """The request's fields under RocketMQ's names."""

    producer_group: str
    tran_state_table_offset: int
    commit_log_offset: int
    commit_or_rollback: TransactionState
    from_transaction_check: bool = False
    msg_id: str = ""
    transaction_id: str = ""


@dataclass(frozen=True, slots=True)
class _Case:
    """A message that a request is about, and what is known of it."""

    message: ReceivedMessage
    """The half that the request names, or the message that was discarded."""
    state: State
    place: int = -1
    """PENDING: queue offset of the half's newest copy; DISCARDED: physical offset in
    TRANS_CHECK_MAX_TIME_TOPIC."""
    committed: bool | None = None
    """SETTLED: whether it was committed; None if nobody knows."""


class Ender:
    """Carries out what END_TRANSACTION and RESUME_CHECK_HALF_MESSAGE ask for."""

    def __init__(
        self,
        store: Store,
        engine: Transactions,
        rules: Rules,
        now: Callable[[], int],
        taking: Taking = lambda topic: nullcontext(),
    ) -> None:
        self._taking = taking
        self._engine = engine
        self.rules = rules
        self._now = now
        self.discarded = Discarded(store)
        self.repeated = 0
        """Requests for what was settled already."""
        self._actions: dict[Action, Callable[[_Case], int]] = {
            Action.DELIVER: lambda case: self._settle(case, commit=True),
            Action.DROP: lambda case: self._settle(case, commit=False),
            Action.DELIVER_LATE: self._deliver_late,
            Action.FORGET: lambda case: 0,
            Action.REOPEN: lambda case: self._engine.resume(case.place)[1],
            Action.SAY_SETTLED: self._say_settled,
            Action.SAY_OTHERWISE: _say_otherwise,
            Action.SAY_TOO_LATE: _say_too_late,
            Action.REFUSE: _refuse,
        }
        """Each returns up to where the log must be durable before SUCCESS is answered (0: at once),
        or raises what is answered."""

    def end(self, request: EndTransaction) -> int | None:
        """Does what a request asks for. Returns the physical offset up to which the log must be
        durable before SUCCESS is answered (0: at once), None if nothing is to be answered."""
        word = request.commit_or_rollback
        if word is TransactionState.UNKNOWN:
            return None  # in every state nothing is done
        half = self._half(request)
        if word is TransactionState.COMMIT and not _has_queue(half):
            raise _refused(
                "the half message can never be delivered: its property REAL_QID is no queue id"
            )
        case = self._case(half)
        event = ended(
            word,
            self._now() - half.born_timestamp,
            self._immunity(case),
            request.from_transaction_check,
            self.rules,
            committed=case.committed,
        )
        return self._carry_out(case, event)

    def resume(self, phys: int) -> int:
        """Has a message that was discarded asked about again; returns what must be durable."""
        record = self._engine.record(phys, discarded=True)
        if record is None:
            raise _refused(f"there is no message that was discarded at physical offset {phys}")
        message = decode_record(memoryview(record), inflate_body=False)
        state = State.DISCARDED if self.discarded.find(message) == phys else State.SETTLED
        return self._carry_out(_Case(message, state, phys), Event.RESUME)

    def _carry_out(self, case: _Case, event: Event) -> int:
        """Does what the table says; returns what must be durable."""
        action, then = TABLE[case.state, event]
        durable = self._actions[action](case)
        if case.state is State.DISCARDED and then is not State.DISCARDED:
            self.discarded.close(case.message)
            if then is State.SETTLED:
                offset = case.message.commit_log_offset
                self._engine.decide_discarded(offset, event is Event.COMMIT)
        return durable

    def _case(self, half: ReceivedMessage) -> _Case:
        pending = self._engine.live(half.commit_log_offset)
        if pending is not None:
            return _Case(half, State.PENDING, pending)
        discarded = self.discarded.find(half)
        if discarded is not None:
            return _Case(half, State.DISCARDED, discarded)
        return _Case(half, State.SETTLED, committed=self._was_committed(half))

    def _immunity(self, case: _Case) -> int | None:
        """In seconds, of a half that waits."""
        facts = self._engine.find(case.place) if case.state is State.PENDING else None
        if facts is None:
            return None
        immunity = PendingHalf(*facts).immunity
        return immunity if immunity >= 0 else None

    def _half(self, request: EndTransaction) -> ReceivedMessage:
        """The half that a request names, if all that it says of it is right."""
        phys = request.commit_log_offset
        record = self._engine.record(phys) if phys >= 0 else None
        if record is None:
            raise _refused(
                f"Find prepared transaction message failed: there is none at commitLogOffset {phys}"
            )
        half = decode_record(memoryview(record), inflate_body=False)
        key = half.properties.get(UNIQ_KEY, "")
        ids = {request.msg_id, request.transaction_id} - {""}
        if REAL_TOPIC not in half.properties:
            raise _refused(f"the message at commitLogOffset {phys} is no half message")
        if half.properties.get(PRODUCER_GROUP) != request.producer_group:
            raise _refused("The producer group wrong: the half message is of another producerGroup")
        if half.queue_offset != request.tran_state_table_offset:
            raise _refused(
                "The transaction state table offset wrong: tranStateTableOffset "
                f"{request.tran_state_table_offset} is not that of the half message"
            )
        if key and ids and key not in ids:
            raise _refused("msgId and transactionId are of another message")
        return half

    def _settle(self, case: _Case, *, commit: bool) -> int:
        with self._taking(case.message.properties[REAL_TOPIC]):
            return self._engine.settle(case.place, commit)

    def _deliver_late(self, case: _Case) -> int:
        with self._taking(case.message.properties[REAL_TOPIC]):
            return self._engine.deliver_late(case.place, case.message.commit_log_offset)

    def _say_settled(self, case: _Case) -> int:
        self.repeated += 1
        self._engine.write_owed()  # settled counts once its op record is written
        return self._engine.progress()[2]

    def _was_committed(self, half: ReceivedMessage) -> bool | None:
        """How a settled half was settled; None if nobody knows. What was settled before the start,
        or long ago, is looked up in the index: a message that is there was committed, one that is
        not was rolled back if all that was settled since the start is remembered."""
        committed, complete = self._engine.decided(half.commit_log_offset)
        if committed is not None:
            return committed
        delivered = self.discarded.delivered(half)
        return delivered if delivered or complete else None


def _say_otherwise(case: _Case) -> int:
    code = ResponseCode.TRANSACTION_SHOULD_ROLLBACK
    text = "COMMIT came after its half was rolled back: the message is not delivered"
    if case.committed:
        code = ResponseCode.TRANSACTION_SHOULD_COMMIT
        text = "ROLLBACK came after its half was committed: the message is delivered"
    p = case.message.properties
    raise TransactionConflictError(
        f"transaction {p.get(UNIQ_KEY, '')} of group {p.get(PRODUCER_GROUP)} for topic "
        f"{p.get(REAL_TOPIC)}: {text}",
        code,
    )


def _say_too_late(case: _Case) -> int:
    raise IllegalOperationError("the half message's immunity is over: its producer will be asked")


def _refuse(case: _Case) -> int:
    raise _refused("it was delivered, rolled back or taken up again meanwhile")


def _has_queue(half: ReceivedMessage) -> bool:
    """As the engine reads it."""
    text = half.properties.get(REAL_QUEUE_ID, "")
    return bool(_QUEUE_ID.fullmatch(text)) and int(text) < 1 << 32


def _refused(text: str) -> ResponseError:
    return ResponseError(text, ResponseCode.SYSTEM_ERROR)
