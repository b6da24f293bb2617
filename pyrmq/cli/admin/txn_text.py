"""Transactions as text and as JSON. What comes from messages goes through `escape`."""

from __future__ import annotations

import codecs
import time
from collections.abc import Iterator, Sequence
from typing import Any

from pyrmq.admin.txn.finder import Transaction, body_head
from pyrmq.admin.txn.halves import Half, immune_until
from pyrmq.admin.txn.scan import Scan, Statistics
from pyrmq.cli.admin.view import Column, View, moment
from pyrmq.errors import ProtocolError
from pyrmq.escape import escape
from pyrmq.model.record import ReceivedMessage
from pyrmq.model.transaction import CHECK_TIMES


def now_ms() -> int:
    return time.time_ns() // 1_000_000


UNITS = (("d", 86_400, "h", 3600), ("h", 3600, "m", 60), ("m", 60, "s", 1))


def age(ms: int) -> str:
    """A duration for people, in its two largest units."""
    seconds = max(ms, 0) // 1000
    for unit, size, lower, small in UNITS:
        if seconds >= size:
            return f"{seconds // size}{unit} {seconds % size // small}{lower}"
    return f"{seconds}s"


def half_json(half: Half, discarded: bool = False) -> dict[str, Any]:
    return {
        "broker": half.broker,
        "discardedOffset" if discarded else "halfOffset": half.queue_offset,
        "commitLogOffset": half.phys,
        "offsetMsgId": half.offset_msg_id,
        "transactionId": half.transaction_id or None,
        "topic": half.topic,
        "queueId": half.queue_id,
        "producerGroup": half.group,
        "keys": half.keys or None,
        "bornTimestamp": half.born,
        "storeTimestamp": half.stored,
        "checks": half.checks or 0,
        "size": half.size,
        "immuneUntil": half.immune_until,
    }


def table(rows: Sequence[Half], with_broker: bool, discarded: bool = False) -> View:
    """A row for each transaction."""
    now = now_ms()

    def or_dash(text: str | None) -> str:
        return text or "-"

    columns = (
        Column("DISCARDED AT" if discarded else "HALF", "queue_offset"),
        Column("TRANSACTION ID", lambda h: or_dash(h.transaction_id)),
        Column("TOPIC", lambda h: or_dash(h.topic)),
        Column("PRODUCER GROUP", lambda h: or_dash(h.group)),
        Column("KEYS", lambda h: or_dash(h.keys)),
        Column("AGE", lambda h: age(now - h.born)),
        Column("CHECKS", lambda h: h.checks or 0),
        Column("SIZE", "size"),
        Column("IMMUNE UNTIL", lambda h: "-" if h.immune_until is None else moment(h.immune_until)),
        *((Column("BROKER", "broker"),) if with_broker else ()),
    )
    return View([half_json(half, discarded) for half in rows], rows, columns)


def discarded_lines(broker: str, count: int, limit: int) -> Iterator[str]:
    """How many were discarded, in a line."""
    some = f"; of the oldest {limit}," if count > limit else ";"
    yield f"{broker}: {count} in TRANS_CHECK_MAX_TIME_TOPIC{some} those are shown that still are"


def scan_lines(broker: str, scan: Scan, limit: int) -> Iterator[str]:
    """What a scan comes to, in words."""
    found = scan.table
    count = f"{found.count}" if found.exact else f"more than {found.count}"
    text = f"{broker}: {count} pending"
    if found.oldest is not None:
        text += f", the oldest for {age(now_ms() - found.oldest)}"
    if limit < found.count:
        text += f"; the oldest {limit} are shown (--limit)"
    yield text
    if scan.damaged:
        yield f"{broker}: {scan.damaged} half messages are damaged and left out"


def statistics_json(broker: str, found: Statistics) -> dict[str, Any]:
    scan = found.scan
    pending = scan.table if scan is not None else None
    now = now_ms()
    return {
        "broker": broker,
        "pending": pending.count if pending is not None else 0,
        "pendingExact": pending.exact if pending is not None else True,
        "oldestPendingAge": now - pending.oldest
        if pending is not None and pending.oldest is not None
        else None,
        "discarded": found.discarded,
        "places": [
            {
                "topic": topic,
                "producerGroup": group,
                "pending": place.count,
                "oldestPendingAge": now - place.oldest if place.oldest is not None else None,
            }
            for (topic, group), place in (sorted(pending.places.items()) if pending else [])
        ],
        "counters": {k: int(v) if v.isdecimal() else v for k, v in found.counters.items()},
    }


def statistics_lines(broker: str, found: Statistics) -> Iterator[str]:
    if found.scan is None:
        yield f"{broker}: no transaction was ever sent to it"
    else:
        yield from scan_lines(broker, found.scan, found.scan.table.count)
        now = now_ms()
        for (topic, group), place in sorted(found.scan.table.places.items()):
            oldest = age(now - place.oldest) if place.oldest is not None else "-"
            name = f"{escape(topic)} {escape(group)}"
            yield f"  {name}: {place.count} pending, the oldest for {oldest}"
    yield f"{broker}: {found.discarded} in TRANS_CHECK_MAX_TIME_TOPIC"
    for key, value in found.counters.items():
        yield f"  {escape(key)}={escape(value)}"


def place_json(message: ReceivedMessage) -> dict[str, Any]:
    return {
        "queueId": message.queue_id,
        "queueOffset": message.queue_offset,
        "commitLogOffset": message.commit_log_offset,
        "offsetMsgId": message.offset_msg_id,
        "storeTimestamp": message.store_timestamp,
        "checks": message.properties.get(CHECK_TIMES),
    }


def transaction_json(t: Transaction, body: int) -> dict[str, Any]:
    message = t.message
    text, form = head_of(message, body)
    return {
        "broker": t.link.name,
        "transactionId": t.transaction_id or None,
        "state": t.state.name,
        "topic": t.topic,
        "producerGroup": t.group,
        "bornTimestamp": message.born_timestamp,
        "bornHost": message.born_host,
        "immuneUntil": immune_until(message),
        "halves": [place_json(m) for m in t.copies],
        "ops": [
            {"queueOffset": op.queue_offset, "storeTimestamp": op.stored, "names": op.names}
            for op in t.ops
        ],
        "committed": [place_json(m) for m in t.committed],
        "discarded": [place_json(m) for m in t.discarded],
        "notes": t.notes,
        "properties": message.properties,
        "bodyLength": len(message.body),
        "body": text,
        "bodyEncoding": form,
    }


def transaction_lines(t: Transaction, body: int) -> Iterator[str]:
    """Everything about one transaction."""
    message = t.message
    yield f"transaction {escape(t.label)} on {escape(t.link.name)}"
    yield f"  {t.state.value}"
    for note in t.notes:
        yield f"  note: {note}"
    yield f"  topic {escape(t.topic)}, producer group {escape(t.group)}"
    sent = f"{moment(message.born_timestamp)} ({age(now_ms() - message.born_timestamp)} ago)"
    yield f"  sent {sent} from {escape(message.born_host)}"
    until = immune_until(message)
    if until is not None:
        yield f"  its producer is not asked before {moment(until)}"
    for m in t.copies:
        yield f"  half       {_place(m)}"
    for op in t.ops:
        names = ", ".join(map(str, op.names))
        yield f"  op         at {op.queue_offset}, {moment(op.stored)}, settles {names}"
    for m in t.discarded:
        yield f"  discarded  {_place(m)}"
    for m in t.committed:
        yield f"  committed  queue {m.queue_id}, {_place(m)}"
    for name, value in sorted(message.properties.items()):
        yield f"  {escape(name)}={escape(value)}"
    text, form = head_of(message, body)
    yield f"  body of {len(message.body)} bytes as stored, {form}: {escape(text)}"


def _place(m: ReceivedMessage) -> str:
    checks = m.properties.get(CHECK_TIMES)
    asked = f", checks {escape(checks)}" if checks else ""
    return f"at {m.queue_offset}, {moment(m.store_timestamp)}, {m.offset_msg_id}{asked}"


def head_of(message: ReceivedMessage, most: int) -> tuple[str, str]:
    """The beginning of a body, and whether it is `text` or `hex`."""
    try:
        head = body_head(message, most)
    except ProtocolError:
        head = message.body[:most]
    # A character that the cut goes through is left out.
    whole = len(head) < most
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(head, whole), "text"
    except UnicodeDecodeError:
        return head.hex(), "hex"
