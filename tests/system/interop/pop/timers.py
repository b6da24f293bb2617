"""Timer messages, recalls and priorities: the answers, and what comes of them."""

from __future__ import annotations

import base64

from tests.support.client import Client, batch_command, send_command
from tests.support.records import Record
from tests.support.waiting import eventually

from .asking import Asker, Row, now_ms, shown
from .requests import POP, RECALL, make_group, make_topic, pop, timer

TIMER_TOPIC = "rmq_sys_wheel_timer"
SEND = 310
DAY_MS = 86_400_000
END_TRANSACTION, COMMIT = 37, 8


def read(client: Client, topic: str, queue: int = 0) -> list[Record]:
    return client.pull_all(topic, queue, 0, client.max_offset(topic, queue))


def arrived(client: Client, topic: str, count: int) -> list[Record]:
    """The messages of a topic of one queue when that many are there."""
    return eventually(
        lambda: read(client, topic), f"{count} in {topic}", until=lambda found: len(found) >= count
    )


def relative(record: Record, asked: int) -> Row:
    """A record, with its times told by how far they are from the time asked for."""
    row = shown(record)
    for name in ("TIMER_OUT_MS", "TIMER_DELIVER_MS"):
        if value := record.properties.get(name):
            row["properties"][name] = f"asked {int(value) - asked:+}"
    return row


def sends(asker: Asker) -> None:
    topic = "TimerSends"
    make_topic(asker.client, topic)
    make_topic(asker.client, "TimerRefused")
    now = now_ms()
    asked: dict[str, dict[str, object]] = {
        "seconds": {"TIMER_DELAY_SEC": 600},
        "milliseconds": {"TIMER_DELAY_MS": 600_000},
        "a moment": {"TIMER_DELIVER_MS": now + 600_000},
        "0 seconds": {"TIMER_DELAY_SEC": 0},
        "-1 seconds": {"TIMER_DELAY_SEC": -1},
        "0 milliseconds": {"TIMER_DELAY_MS": 0},
        "now": {"TIMER_DELIVER_MS": now},
        "the past": {"TIMER_DELIVER_MS": now - 60_000},
        "the moment 0": {"TIMER_DELIVER_MS": 0},
        "the moment -1": {"TIMER_DELIVER_MS": -1},
        "two days": {"TIMER_DELAY_SEC": 2 * 86400},
        "just under three days": {"TIMER_DELAY_SEC": 3 * 86400 - 10},
        "three days": {"TIMER_DELAY_SEC": 3 * 86400},
        "three days and a second": {"TIMER_DELAY_SEC": 3 * 86400 + 1},
        "four days": {"TIMER_DELIVER_MS": now + 4 * DAY_MS},
        "2 ** 63 - 1": {"TIMER_DELIVER_MS": 2**63 - 1},
        "2 ** 63 - 1 seconds": {"TIMER_DELAY_SEC": 2**63 - 1},
        "2 ** 63": {"TIMER_DELIVER_MS": 2**63},
        "no number": {"TIMER_DELIVER_MS": "soon"},
        "a fraction": {"TIMER_DELAY_SEC": "1.5"},
        "a plus sign": {"TIMER_DELAY_SEC": "+600"},
        "a blank before": {"TIMER_DELAY_SEC": " 600"},
        "seconds before milliseconds": {"TIMER_DELAY_SEC": 600, "TIMER_DELAY_MS": "odd"},
        "milliseconds before the moment": {"TIMER_DELAY_MS": 600_000, "TIMER_DELIVER_MS": "odd"},
        "a moment in the past, and seconds": {"TIMER_DELIVER_MS": 1, "TIMER_DELAY_SEC": 600},
        "a delay level too": {"TIMER_DELAY_SEC": 600, "DELAY": 3},
        "delay level 0 too": {"TIMER_DELAY_SEC": 600, "DELAY": 0},
        "its own TIMER_OUT_MS": {"TIMER_DELAY_SEC": 600, "TIMER_OUT_MS": now + 5000},
        "its own REAL_TOPIC": {"TIMER_DELAY_SEC": 600, "REAL_TOPIC": "Other", "REAL_QID": 7},
        "deletes": {"TIMER_DELAY_SEC": 600, "TIMER_DEL_UNIQKEY": "X"},
        "deletes in the past": {"TIMER_DELIVER_MS": now - 1, "TIMER_DEL_UNIQKEY": "X"},
        "rolled": {"TIMER_DELAY_SEC": 600, "TIMER_ROLL_TIMES": 3},
    }
    for what, properties in asked.items():
        command = timer(topic, what.encode(), **properties)
        asker.note(what, SEND, asker.client.request(command))
    asker.note(
        "without UNIQ_KEY",
        SEND,
        asker.client.send(topic, b"k", properties={"TIMER_DELAY_SEC": "600"}),
    )
    request = timer(topic, b"v1", TIMER_DELAY_SEC=600)
    names = {"a": "producerGroup", "b": "topic", "c": "defaultTopic", "d": "defaultTopicQueueNums",
             "e": "queueId", "f": "sysFlag", "g": "bornTimestamp", "h": "flag", "i": "properties",
             "j": "reconsumeTimes", "k": "unitMode", "m": "batch"}  # fmt: skip
    asker.ask("request 10", 10, {names[key]: value for key, value in request.ext.items()}, b"v1")
    batch = batch_command(topic, [(b"b1", {"TIMER_DELAY_SEC": "600"}), (b"b2", {})])
    asker.note("a batch, in a message", 320, asker.client.request(batch))
    stored = {
        record.body: record
        for record in read(asker.client, TIMER_TOPIC)
        if record.topic == TIMER_TOPIC
    }
    for body in (
        b"seconds",
        b"a delay level too",
        b"its own REAL_TOPIC",
        b"deletes",
        b"rolled",
        b"k",
    ):
        record = stored.get(body)
        asker.seen(f"stored, {body.decode()}", record and {**shown(record), "offset": "any"})
    at_once = sorted(record.body.decode() for record in read(asker.client, topic))
    asker.seen("stored as plain messages", at_once)
    plain = [record for record in read(asker.client, topic) if record.body in (b"the past", b"now")]
    asker.seen("a plain one", [shown(record) for record in plain])


def precision(asker: Asker) -> None:
    """The out time of a moment."""
    topic = "TimerPrecision"
    make_topic(asker.client, topic)
    base = (now_ms() // 1000 + 900) * 1000
    for add in (0, 1, 500, 999, 1000):
        asked = base + add
        asker.client.request(timer(topic, b"p%d" % add, TIMER_DELIVER_MS=asked))
        stored = {record.body: record for record in read(asker.client, TIMER_TOPIC)}
        out = int(stored[b"p%d" % add].properties["TIMER_OUT_MS"])
        asker.seen(f"out time of a whole second and {add} ms", out - asked)


def delivered(asker: Asker) -> None:
    topic = "TimerDelivered"
    make_topic(asker.client, topic, queues=2)
    first = timer(topic, b"later", TIMER_DELAY_MS=2500, TAGS="A", KEYS="k", own="x")
    first.ext["e"] = "1"
    asker.note("in queue 1", SEND, asker.client.request(first))
    asker.note("sooner", SEND, asker.client.request(timer(topic, b"sooner", TIMER_DELAY_SEC=1)))
    found = eventually(
        lambda: read(asker.client, topic, 0) + read(asker.client, topic, 1),
        "both come",
        until=lambda found: len(found) == 2,
    )
    asker.seen("delivered", [shown(record) for record in found])
    early = [
        int(record.properties["TIMER_DEQUEUE_MS"]) < int(record.properties["TIMER_OUT_MS"])
        for record in found
    ]
    asker.seen("before its out time", early)


def _decoded(handle: str) -> list[str]:
    return base64.urlsafe_b64decode(handle + "=" * (-len(handle) % 4)).decode().split(" ")


def _encoded(*fields: object) -> str:
    return base64.urlsafe_b64encode(" ".join(map(str, fields)).encode()).decode()


def recalls(asker: Asker) -> None:
    topic = "RecallTopic"
    make_topic(asker.client, topic)
    make_topic(asker.client, "RecallOther")
    sent = asker.client.request(timer(topic, b"recalled", TIMER_DELAY_SEC=3))
    handle = sent.ext["recallHandle"]
    version, name, broker, at, key = _decoded(handle)
    later = now_ms() + 600_000

    def ask(what: str, **change: object) -> None:
        fields: dict[str, object] = {"producerGroup": "PG", "topic": topic, "recallHandle": handle}
        asker.ask(f"recall, {what}", RECALL, fields | change)

    ask("of one that waits")
    ask("again")
    ask("without the group", producerGroup=None)
    ask("unknown topic", topic="RecallUnknown")
    ask("another topic", topic="RecallOther")
    ask("without a topic", topic=None)
    ask("without a handle", recallHandle=None)
    ask("empty handle", recallHandle="")
    ask("no base64", recallHandle="%%%")
    ask("odd text", recallHandle=_encoded("odd"))
    ask("another version", recallHandle=_encoded("v2", name, broker, at, key))
    ask("six fields", recallHandle=_encoded(version, name, broker, at, key, "more"))
    ask("another broker", recallHandle=_encoded(version, name, "broker-z", at, key))
    ask("the past", recallHandle=_encoded(version, name, broker, now_ms() - 1000, key))
    ask("no number", recallHandle=_encoded(version, name, broker, "soon", key))
    ask("four days", recallHandle=_encoded(version, name, broker, now_ms() + 4 * DAY_MS, key))
    ask("unknown message", recallHandle=_encoded(version, name, broker, later, "7F" * 16))
    ask("odd message id", recallHandle=_encoded(version, name, broker, later, "odd"))
    ask("another time", recallHandle=_encoded(version, name, broker, int(at) + 60_000, key))
    ask("without padding", recallHandle=handle.rstrip("="))
    stored = [
        {**shown(record), "offset": "any"}
        for record in read(asker.client, TIMER_TOPIC)
        if record.properties.get("REAL_TOPIC") == topic and "TIMER_DEL_UNIQKEY" in record.properties
    ]
    asker.seen("stored", stored[:1])
    asker.client.request(timer(topic, b"not recalled", TIMER_DELAY_SEC=4))
    found = arrived(asker.client, topic, 1)
    asker.seen("came", [record.body.decode() for record in found])
    version, name, broker, at, key = _decoded(handle)
    ask("of one that has gone")


def priorities(asker: Asker) -> None:
    topic, group = "Priority", "PriorityGroup"
    make_topic(asker.client, topic, 4, message_type="PRIORITY")
    make_topic(asker.client, "PriorityPlain", 4)
    make_group(asker.client, group)
    values: list[object] = [0, 1, 3, 4, 2**31 - 1, 2**31, -1, "x", "+2", " 2", "02", "1.0"]
    for value in values:
        properties = {"_SYS_MSG_PRIORITY_": str(value)}
        for place in (topic, "PriorityPlain"):
            answer = asker.client.send(
                place, b"%s" % str(value).encode(), queue_id=2, properties=properties
            )
            asker.note(f"{value!r} to {place}", SEND, answer)
    others: dict[str, dict[str, str]] = {
        "and a sharding key": {"__SHARDINGKEY": "k"},
        "and a delay": {"TIMER_DELAY_SEC": "600"},
        "and a delay level": {"DELAY": "18"},
        "and a transaction": {"TRAN_MSG": "true"},
    }
    for what, properties in others.items():
        properties = {"_SYS_MSG_PRIORITY_": "1", **properties}
        asker.note(
            what, SEND, asker.client.send("PriorityPlain", b"o", queue_id=2, properties=properties)
        )
    batch = batch_command(topic, [(b"b", {"_SYS_MSG_PRIORITY_": "1"})], queue_id=2)
    asker.note("in a batch", 320, asker.client.request(batch))
    whole = lambda end: end >= 8  # noqa: E731
    eventually(lambda: asker.client.max_offset(topic, 2), "the last is in its queue", until=whole)
    fields = pop(topic, group, queueId=-1, maxMsgNums=4)
    asker.ask("pop of four from all queues", POP, fields)
    asker.ask("pop of more from all queues", POP, pop(topic, group, queueId=-1, maxMsgNums=32))
    stored = [shown(record) for record in read(asker.client, "PriorityPlain", 2)]
    asker.seen(
        "stored, queue 2",
        [(row["body"], row["properties"].get("_SYS_MSG_PRIORITY_")) for row in stored],
    )


def in_transactions(asker: Asker) -> None:
    """A half with a delay, committed."""
    topic = "TimerTransaction"
    make_topic(asker.client, topic)
    for what, properties in {
        "seconds": {"TIMER_DELAY_SEC": "2"},
        "a level": {"DELAY": "1"},
        "four days": {"TIMER_DELAY_SEC": "345600"},
    }.items():
        text = {"TRAN_MSG": "true", "PGROUP": "PG", "UNIQ_KEY": f"7F0000010001{now_ms():020X}"}
        command = send_command(
            topic, what.encode(), properties=text | properties, change={"f": "4"}
        )
        sent = asker.client.request(command)
        asker.note(f"half with {what}", SEND, sent)
        if sent.code:
            continue
        physical = int(sent.ext["msgId"][-16:], 16)
        ended = {
            "producerGroup": "PG", "tranStateTableOffset": sent.ext["queueOffset"],
            "commitLogOffset": physical, "commitOrRollback": COMMIT,
            "fromTransactionCheck": "false",
            "msgId": text["UNIQ_KEY"], "transactionId": text["UNIQ_KEY"], "topic": topic,
        }  # fmt: skip
        asker.ask(f"commit with {what}", END_TRANSACTION, ended)
    marker = asker.client.request(timer(topic, b"marker", TIMER_DELAY_SEC=4))
    assert marker.code == 0, marker.remark
    found = eventually(
        lambda: read(asker.client, topic),
        "the marker",
        until=lambda found: any(record.body == b"marker" for record in found),
    )
    asker.seen("came", sorted(record.body.decode() for record in found))


def to_the_timer_topic(asker: Asker) -> None:
    """Apache's broker sets no timer any more after these."""
    command = timer(TIMER_TOPIC, b"s", TIMER_DELAY_SEC=600)
    asker.note("with a delay", SEND, asker.client.request(command))
    asker.note("plain", SEND, asker.client.request(timer(TIMER_TOPIC, b"s")))
    make_topic(asker.client, "TimerBatch")
    messages: list[tuple[bytes, dict[str, str]]] = [(b"b3", {}), (b"b4", {})]
    batch = batch_command("TimerBatch", messages, properties={"TIMER_DELAY_SEC": "600"})
    asker.note("a batch with a delay as a whole", 320, asker.client.request(batch))
    for row in asker.rows:
        if "ext" in row and "queueOffset" in row["ext"]:
            row["ext"]["queueOffset"] = "OF THE TIMER TOPIC"


PARTS = {
    "timer sends": sends,
    "timer precision": precision,
    "timers delivered": delivered,
    "recalls": recalls,
    "priorities": priorities,
    "timers in transactions": in_transactions,
    "sends to the timer topic": to_the_timer_topic,
}
