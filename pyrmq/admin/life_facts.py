"""What stored messages and traces say of the life of a message: facts, each with its source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import Any

from pyrmq.admin.dead_letters import RESENT_FROM
from pyrmq.admin.message_ids import DecodedId, decode_id
from pyrmq.admin.traces import Trace
from pyrmq.admin.txn.finder import State, Transaction
from pyrmq.errors import ClientError
from pyrmq.model.names import DLQ_PREFIX, RETRY_PREFIX, SCHEDULE_TOPIC
from pyrmq.model.properties import (
    DELAY,
    PRODUCER_GROUP,
    REAL_TOPIC,
    TIMER_OUT_MS,
    UNIQ_KEY,
)
from pyrmq.model.record import ReceivedMessage
from pyrmq.model.topic import as_int
from pyrmq.model.transaction import CHECK_TIMES

TRACE = "message trace of clients"


class What(Enum):
    """What a fact is about."""

    SENT = "sent"
    HALF = "half"
    CHECKED = "checked"
    SETTLED = "settled"
    DELAYED = "delayed"
    WAITS = "waits"
    STORED = "stored"
    RESENT = "resent"
    CONSUMED = "consumed"
    FAILED = "failed"
    RETRY = "retry"
    DEAD = "dead letter"
    OFFSET = "offset"


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that is known of a message. `time`: ms since 1970, 0 if it has none. `source`: the
    data that say it. `detail`: the same for programs."""

    what: What
    time: int
    text: str
    source: str
    detail: dict[str, Any] = field(default_factory=dict)


def when(ms: int) -> str:
    """A time in the texts of facts."""
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).astimezone().isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return str(ms)


def place_of(message: ReceivedMessage) -> dict[str, Any]:
    """Where a message is stored."""
    return {
        "topic": message.topic,
        "broker": message.broker_name or message.store_host,
        "queueId": message.queue_id,
        "queueOffset": message.queue_offset,
        "commitLogOffset": message.commit_log_offset,
        "offsetMsgId": message.offset_msg_id,
        "reconsumeTimes": message.reconsume_times,
    }


def _at(message: ReceivedMessage) -> str:
    return (
        f"broker {message.broker_name or message.store_host}, queue {message.queue_id}, "
        f"offset {message.queue_offset}, log offset {message.commit_log_offset}"
    )


def _source(message: ReceivedMessage) -> str:
    return f"log of {message.broker_name or message.store_host}, topic {message.topic}"


def id_of(message: ReceivedMessage) -> DecodedId | None:
    """What the unique id says of its making; None if it says nothing."""
    try:
        return decode_id(message.properties.get(UNIQ_KEY, ""))
    except ClientError:
        return None


def made_at(message_id: str) -> int:
    """When a unique id was made, ms since 1970; 0 if it does not say."""
    try:
        return decode_id(message_id).born
    except ClientError:
        return 0


def sent(message: ReceivedMessage) -> Fact:
    """Who sent it, by the stored message."""
    group = message.properties.get(PRODUCER_GROUP)
    made = id_of(message)
    text = f"from {message.born_host}"
    if made is not None and made.host not in message.born_host:
        text += f" (its id was made on {made.host})"
    text += f" by producer group {group}" if group else ""
    detail = {
        "bornHost": message.born_host,
        "producerGroup": group,
        "uniqueId": message.properties.get(UNIQ_KEY),
        "idHost": made.host if made else None,
    }
    return Fact(What.SENT, message.born_timestamp, text, _source(message), detail)


def stored(message: ReceivedMessage, first: bool) -> Iterator[Fact]:
    """That it is stored in its topic. `first`: of several copies, the first one."""
    from_letter = message.properties.get(RESENT_FROM)
    what = What.RESENT if from_letter else What.STORED
    text = f"in topic {message.topic}: {_at(message)}"
    if from_letter:
        text += f"; resent from dead letter {from_letter}"
    elif not first:
        text += "; again, as its producer sent it more than once"
    detail = {**place_of(message), "resentFrom": from_letter, "bytes": message.store_size}
    yield Fact(what, message.store_timestamp, text, _source(message), detail)
    yield from _delays(message)


def _delays(message: ReceivedMessage) -> Iterator[Fact]:
    own = message.properties
    level, out = own.get(DELAY), own.get(TIMER_OUT_MS)
    if out is not None:
        due = as_int(out, 0)
        times = {n: own.get(f"TIMER_{n}") for n in ("ENQUEUE_MS", "DEQUEUE_MS", "ROLL_TIMES")}
        text = f"timer message, due at {when(due)}"
        if left := as_int(times["DEQUEUE_MS"], 0):
            text += f", left the wheel at {when(left)}"
        yield Fact(What.DELAYED, due, text, "its properties TIMER_…", {"due": due, **times})
    elif level is not None and REAL_TOPIC in own:
        text = f"by delay level {level}"
        yield Fact(What.DELAYED, 0, text, "its property DELAY", {"level": level})


def waiting(message: ReceivedMessage, delays: Sequence[int]) -> Fact:
    """That it waits in the topic of delays or of timers. `delays`: of the broker's levels, ms."""
    target = message.properties.get(REAL_TOPIC, "?")
    due = as_int(message.properties.get(TIMER_OUT_MS), 0)
    how = "as a timer message"
    if message.topic == SCHEDULE_TOPIC:
        level = message.queue_id + 1
        how = f"by delay level {level}"
        due = message.store_timestamp + delays[level - 1] if level <= len(delays) else 0
    text = f"for topic {target} {how}" + (f", due at {when(due)}" if due else "")
    detail = {**place_of(message), "target": target, "due": due or None}
    return Fact(What.WAITS, message.store_timestamp, text, _source(message), detail)


def brought_back(message: ReceivedMessage, group: str) -> Fact:
    """A copy in the retry topic or among the dead letters of a group."""
    times, from_letter = message.reconsume_times, message.properties.get(RESENT_FROM)
    detail = {**place_of(message), "group": group, "resentFrom": from_letter}
    if message.topic.startswith(DLQ_PREFIX):
        many = "1 delivery" if times == 1 else f"{times} deliveries"
        text = f"of group {group} after {many}: {_at(message)}, id {message.offset_msg_id}"
        return Fact(What.DEAD, message.store_timestamp, text, _source(message), detail)
    if from_letter and not times:
        text = f"to group {group} from dead letter {from_letter}: {_at(message)}"
        return Fact(What.RESENT, message.store_timestamp, text, _source(message), detail)
    text = f"number {times} for group {group}: {_at(message)}"
    return Fact(What.RETRY, message.store_timestamp, text, _source(message), detail)


def is_brought_back(topic: str) -> bool:
    return topic.startswith((RETRY_PREFIX, DLQ_PREFIX))


def traced(trace: Trace) -> Fact:
    """What a client did, by its trace."""
    took = f", took {trace.cost_ms} ms"
    detail = {
        "group": trace.group,
        "client": trace.client_host,
        "costMs": trace.cost_ms,
        "success": trace.success,
    }
    if trace.kind == "Pub":
        result = "" if trace.success else ", which failed"
        text = f"by producer group {trace.group} on {trace.client_host}{took}{result}"
        return Fact(What.SENT, trace.time, text, TRACE, detail)
    what = What.CONSUMED if trace.success else What.FAILED
    result = "ok" if trace.success else "not consumed"
    text = f"by group {trace.group or '(not named)'} on {trace.client_host}: {result}{took}"
    return Fact(what, trace.time, text, TRACE, detail)


def transaction(t: Transaction) -> Iterator[Fact]:
    """The halves of a transaction, checks, and what settled it."""
    source = f"half and op topics of {t.link.name}"
    for copy in t.copies:
        text = f"for topic {t.topic} by producer group {t.group}: half offset {copy.queue_offset}"
        if check := as_int(copy.properties.get(CHECK_TIMES), 0):
            text += f", stored again for check {check}"
        detail = {**place_of(copy), "producerGroup": t.group}
        yield Fact(What.HALF, copy.store_timestamp, text, source, detail)
    checks = max((as_int(m.properties.get(CHECK_TIMES), 0) for m in t.copies), default=0)
    if checks:
        often = "once" if checks == 1 else f"{checks} times"
        text = f"the broker asked its producer {often}"
        yield Fact(What.CHECKED, 0, text, source, {"checks": checks})
    at = t.ops[-1].stored if t.ops else _settled_at(t)
    what = What.WAITS if t.state is State.PENDING else What.SETTLED
    detail = {"state": t.state.name, "notes": t.notes}
    yield Fact(what, at, "; ".join([t.state.value, *t.notes]), source, detail)


def _settled_at(t: Transaction) -> int:
    if t.state is State.COMMITTED and t.committed:
        return t.committed[0].store_timestamp
    if t.state is State.DISCARDED and t.discarded:
        return t.discarded[-1].store_timestamp
    return 0


def in_order(facts: Sequence[Fact]) -> list[Fact]:
    """By time; those without one last. What is true first is first where times are equal."""
    order = list(What)
    return sorted(facts, key=lambda f: (not f.time, f.time, order.index(f.what)))
