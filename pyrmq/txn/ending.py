"""END_TRANSACTION that is not plain: repeated, late, or of an older copy.

The plain cases never come here, the engine settles them. [EndTransactionProcessor]
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from pyrmq.engine import Store, Transactions
from pyrmq.errors import IllegalOperationError, ResponseError, TransactionConflictError
from pyrmq.model.codes import ResponseCode
from pyrmq.model.properties import UNIQ_KEY
from pyrmq.model.record import ReceivedMessage, decode_record
from pyrmq.model.transaction import PRODUCER_GROUP, REAL_QUEUE_ID, REAL_TOPIC, TransactionState
from pyrmq.txn.discarded import Discarded
from pyrmq.txn.machine import TABLE, Action, Event, PendingHalf, Rules, State, ended

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


class Ender:
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

    def end(self, request: EndTransaction) -> int | None:
        """Does what a request asks for. Returns the physical offset up to which the log must be
        durable before SUCCESS is answered (0: at once), None if nothing is to be answered."""
        if request.commit_or_rollback is TransactionState.UNKNOWN:
            return None
        half = self._half(request)
        if request.commit_or_rollback is TransactionState.COMMIT and not _has_queue(half):
            raise _refused(
                "the half message can never be delivered: its property REAL_QID is no queue id"
            )
        live = self._engine.live(half.commit_log_offset)
        discarded = self.discarded.find(half) if live is None else None
        if live is not None:
            state = State.PENDING
        else:
            state = State.SETTLED if discarded is None else State.DISCARDED
        event = ended(
            request.commit_or_rollback,
            self._now() - half.born_timestamp,
            self._immunity(live),
            request.from_transaction_check,
            self.rules,
        )
        commit = request.commit_or_rollback is TransactionState.COMMIT
        if state is State.SETTLED and self._was_committed(half) is (not commit):
            event = Event.OTHERWISE
        action, _ = TABLE[state, event]
        if action is Action.SAY_OTHERWISE:
            raise _otherwise(half, committed=not commit)
        if action is Action.SAY_TOO_LATE:
            raise IllegalOperationError(
                "the half message's immunity is over: its producer will be asked"
            )
        if action in (Action.DELIVER, Action.DROP):
            assert live is not None
            with self._taking(half.properties[REAL_TOPIC]):
                return self._engine.settle(live, action is Action.DELIVER)
        if action is Action.DELIVER_LATE:
            assert discarded is not None
            return self._deliver_late(half, discarded)
        if action is Action.FORGET:
            self.discarded.close(half)
            self._engine.decide_discarded(half.commit_log_offset, False)
            return 0
        self.repeated += 1
        self._engine.write_owed()  # settled counts once its op record is written
        return self._engine.progress()[2]

    def _immunity(self, live: int | None) -> int | None:
        """In seconds, of a half that waits."""
        facts = self._engine.find(live) if live is not None else None
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

    def resume(self, phys: int) -> int:
        """Has a message that was discarded asked about again; returns what must be durable."""
        record = self._engine.record(phys, discarded=True)
        if record is None:
            raise _refused(f"there is no message that was discarded at physical offset {phys}")
        message = decode_record(memoryview(record), inflate_body=False)
        state = State.DISCARDED if self.discarded.find(message) == phys else State.SETTLED
        action, _ = TABLE[state, Event.RESUME]
        if action is Action.REFUSE:
            raise _refused("it was delivered, rolled back or taken up again meanwhile")
        _, end = self._engine.resume(phys)
        self.discarded.close(message)
        return end

    def _deliver_late(self, half: ReceivedMessage, discarded: int) -> int:
        with self._taking(half.properties[REAL_TOPIC]):
            end = self._engine.deliver_late(discarded, half.commit_log_offset)
        self.discarded.close(half)
        self._engine.decide_discarded(half.commit_log_offset, True)
        return end

    def _was_committed(self, half: ReceivedMessage) -> bool | None:
        """How a settled half was settled; None if nobody knows. What was settled before the start,
        or long ago, is looked up in the index: a message that is there was committed, one that is
        not was rolled back if all that was settled since the start is remembered."""
        committed, complete = self._engine.decided(half.commit_log_offset)
        if committed is not None:
            return committed
        delivered = self.discarded.delivered(half)
        return delivered if delivered or complete else None


def _otherwise(half: ReceivedMessage, *, committed: bool) -> TransactionConflictError:
    code = ResponseCode.TRANSACTION_SHOULD_ROLLBACK
    text = "COMMIT came after its half was rolled back: the message is not delivered"
    if committed:
        code = ResponseCode.TRANSACTION_SHOULD_COMMIT
        text = "ROLLBACK came after its half was committed: the message is delivered"
    p = half.properties
    return TransactionConflictError(
        f"transaction {p.get(UNIQ_KEY, '')} of group {p.get(PRODUCER_GROUP)} for topic "
        f"{p.get(REAL_TOPIC)}: {text}",
        code,
    )


def _has_queue(half: ReceivedMessage) -> bool:
    """As the engine reads it."""
    text = half.properties.get(REAL_QUEUE_ID, "")
    return bool(_QUEUE_ID.fullmatch(text)) and int(text) < 1 << 32


def _refused(text: str) -> ResponseError:
    return ResponseError(text, ResponseCode.SYSTEM_ERROR)
