"""The state machine of a half message: states, events, and the table of actions. No I/O, no clock.

A half is PENDING from its append on. It is settled when its producer decides (COMMIT, ROLLBACK). If
no decision can be got (EXHAUSTED, EXPIRED), it is discarded, as RocketMQ calls it: moved to
TRANS_CHECK_MAX_TIME_TOPIC. `tick` says which event time makes in a check pass, `ended` which event
an END_TRANSACTION makes.

The engine settles (PENDING, COMMIT) and (PENDING, ROLLBACK) by itself in the plain case (see
native/crates/broker/src/txn/settle.rs), and does what this table says.
[TransactionalMessageServiceImpl.check, EndTransactionProcessor]
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from pyrmq.engine import half_timing
from pyrmq.model.transaction import TransactionState


class State(Enum):
    PENDING = "pending"
    SETTLED = "settled"
    """Committed or rolled back, and an op record says so."""
    DISCARDED = "discarded"
    """Stands in TRANS_CHECK_MAX_TIME_TOPIC; nobody is asked any more."""


class Event(Enum):
    COMMIT = "commit"
    ROLLBACK = "rollback"
    UNKNOWN = "unknown"
    TOO_LATE = "too late"
    """An answer that is no answer to a check came after the half's immunity was over."""
    OTHERWISE = "otherwise"
    """COMMIT of what was rolled back, or ROLLBACK of what was committed."""
    YOUNG = "young"
    DUE = "due"
    UNREACHABLE = "unreachable"
    """Due, but no producer of its group can be asked."""
    EXHAUSTED = "exhausted"
    """Asked about transactionCheckMax times."""
    EXPIRED = "expired"
    """For as long as messages are kept nobody could be asked."""
    RESUME = "resume"
    """An operator wants it asked about again."""


class Action(Enum):
    DELIVER = "append to the real topic, op record"
    DROP = "op record"
    NOTHING = "nothing"
    SAY_TOO_LATE = "answer ILLEGAL_OPERATION"
    ASK = "append again with one check more, op record, ask a producer"
    DISCARD = "append to TRANS_CHECK_MAX_TIME_TOPIC, op record, log"
    SAY_SETTLED = "answer SUCCESS: it is settled already"
    SAY_OTHERWISE = "answer how it is settled: TRANSACTION_SHOULD_COMMIT or _ROLLBACK; log"
    DELIVER_LATE = "append to the real topic"
    FORGET = "let it stay in TRANS_CHECK_MAX_TIME_TOPIC"
    REOPEN = "append to the half topic without checks"
    REFUSE = "answer an error"


TABLE: dict[tuple[State, Event], tuple[Action, State]] = {
    (State.PENDING, Event.COMMIT): (Action.DELIVER, State.SETTLED),
    (State.PENDING, Event.ROLLBACK): (Action.DROP, State.SETTLED),
    (State.PENDING, Event.UNKNOWN): (Action.NOTHING, State.PENDING),
    (State.PENDING, Event.TOO_LATE): (Action.SAY_TOO_LATE, State.PENDING),
    (State.PENDING, Event.YOUNG): (Action.NOTHING, State.PENDING),
    (State.PENDING, Event.DUE): (Action.ASK, State.PENDING),
    (State.PENDING, Event.UNREACHABLE): (Action.NOTHING, State.PENDING),
    (State.PENDING, Event.EXHAUSTED): (Action.DISCARD, State.DISCARDED),
    (State.PENDING, Event.EXPIRED): (Action.DISCARD, State.DISCARDED),
    (State.PENDING, Event.RESUME): (Action.REFUSE, State.PENDING),
    (State.SETTLED, Event.COMMIT): (Action.SAY_SETTLED, State.SETTLED),
    (State.SETTLED, Event.ROLLBACK): (Action.SAY_SETTLED, State.SETTLED),
    (State.SETTLED, Event.OTHERWISE): (Action.SAY_OTHERWISE, State.SETTLED),
    (State.SETTLED, Event.UNKNOWN): (Action.NOTHING, State.SETTLED),
    (State.SETTLED, Event.TOO_LATE): (Action.SAY_SETTLED, State.SETTLED),
    (State.SETTLED, Event.RESUME): (Action.REFUSE, State.SETTLED),
    (State.DISCARDED, Event.COMMIT): (Action.DELIVER_LATE, State.SETTLED),
    (State.DISCARDED, Event.ROLLBACK): (Action.FORGET, State.SETTLED),
    (State.DISCARDED, Event.UNKNOWN): (Action.NOTHING, State.DISCARDED),
    (State.DISCARDED, Event.RESUME): (Action.REOPEN, State.PENDING),
}
"""Time makes no events for what does not wait: YOUNG to EXPIRED stand for PENDING only. Nor is an
answer too late for what is discarded: nobody will be asked about it."""


@dataclass(frozen=True, slots=True)
class Rules:
    """Times in ms, under RocketMQ's names in snake_case."""

    transaction_time_out: int = 6000
    """Age from which a half is asked about."""
    transaction_check_interval: int = 30_000
    transaction_check_max: int = 15
    file_reserved_time: int = 72 * 3_600_000
    """How long a half waits for somebody who can be asked."""


class PendingHalf(NamedTuple):
    """A half that waits, as the engine gives it."""

    offset: int
    """Of this copy, in the half topic's queue."""
    phys: int
    born_timestamp: int
    since: int
    """Store time of the first copy, or of the last one that somebody was asked about, ms."""
    immunity: int
    """CHECK_IMMUNITY_TIME_IN_SECONDS, -1 if there is none."""
    checks: int
    group: str
    topic: str


def tick(half: PendingHalf, now: int, rules: Rules, reachable: bool) -> Event:
    """What time has done to a half at `now` (ms since 1970). The engine has the rule
    (native/crates/broker/src/txn/due.rs): by the same it finds what a check pass decides about."""
    timing = half_timing(
        half.born_timestamp,
        half.since,
        half.immunity,
        half.checks,
        now,
        rules.transaction_time_out,
        rules.transaction_check_max,
        rules.file_reserved_time,
    )
    event = Event(timing)
    return Event.UNREACHABLE if event is Event.DUE and not reachable else event


_WORDS = {
    TransactionState.COMMIT: Event.COMMIT,
    TransactionState.ROLLBACK: Event.ROLLBACK,
    TransactionState.UNKNOWN: Event.UNKNOWN,
}


def ended(
    word: TransactionState,
    age: int,
    immunity: int | None,
    from_check: bool,
    rules: Rules,
    *,
    committed: bool | None = None,
) -> Event:
    """What an END_TRANSACTION says of a half. `age` in ms; `immunity` in seconds, None if the half
    has none. With an immunity an answer of its own accord counts only within that time.
    `committed`: how the half was settled, if it was and that is known."""
    if committed is not None and committed is not (word is TransactionState.COMMIT):
        return Event.OTHERWISE
    own_accord = word is not TransactionState.UNKNOWN and not from_check
    limit = max((immunity or 0) * 1000, rules.transaction_time_out)
    if own_accord and immunity is not None and age > limit:
        return Event.TOO_LATE
    return _WORDS[word]
