"""Notifications, polling, assignments, and what becomes of messages that are not acknowledged."""

from __future__ import annotations

import json

from tests.support.client import Client
from tests.support.records import Record
from tests.support.waiting import eventually
from tests.support.wire import Command

from .asking import Asker, Row, now_ms, shown
from .pops import fill, take
from .requests import (
    ACK,
    BATCH_ACK,
    CHANGE_INVISIBLE,
    NOTIFICATION,
    POLLING_INFO,
    POP,
    QUERY_ASSIGNMENT,
    SET_MESSAGE_REQUEST_MODE,
    batch_ack,
    make_group,
    make_topic,
    pop,
)
from .timers import TIMER_TOPIC, arrived, read

REVIVE_TOPIC = "rmq_sys_REVIVE_LOG_DefaultCluster"


def notifications(asker: Asker) -> None:
    topic, group = "NotifyTopic", "NotifyGroup"
    fill(asker.client, topic, group, 1)
    fields: dict[str, object] = {
        "consumerGroup": group, "topic": topic, "queueId": 0, "pollTime": 0, "bornTime": now_ms(),
    }  # fmt: skip
    asked: dict[str, dict[str, object]] = {
        "one waits": {},
        "queue -1": {"queueId": -1},
        "in order": {"order": "true"},
        "tags that do not fit": {"expType": "TAG", "exp": "Other"},
        "bad SQL": {"expType": "SQL92", "exp": "a >"},
        "unknown topic": {"topic": "PopUnknown"},
        "unknown group": {"consumerGroup": "PopUnknownGroup"},
        "queue behind the last": {"queueId": 1},
        "born long ago": {"bornTime": now_ms() - 60_000},
    }
    for what, change in asked.items():
        asker.ask(f"notification, {what}", NOTIFICATION, fields | change)
    asker.ask("the message", POP, pop(topic, group))
    asker.ask("notification, none, no wait", NOTIFICATION, fields)
    asker.ask(
        "notification, none for 300 ms",
        NOTIFICATION,
        fields | {"pollTime": 300, "bornTime": now_ms()},
    )


def _woken(asker: Asker, fields: dict[str, object]) -> Command:
    """The answer to a pop that waits until a message is sent."""
    asker.client.post(Command(POP, {name: str(value) for name, value in fields.items()}))
    host, _, port = asker.peer.rpartition(":")
    with Client((host, int(port))) as other:
        look = {name: fields[name] for name in ("consumerGroup", "topic", "queueId")}
        waiting = Asker(other, "", "")
        eventually(
            lambda: waiting.call(POLLING_INFO, look).ext.get("pollingNum") == "1", "it waits"
        )
        other.send(str(fields["topic"]), b"woken")
    return asker.client.receive(20)


def polling(asker: Asker) -> None:
    topic, group = "PollTopic", "PollGroup"
    make_topic(asker.client, topic, 2)
    make_group(asker.client, group)
    fields: dict[str, object] = {"consumerGroup": group, "topic": topic, "queueId": 0}
    asked: dict[str, dict[str, object]] = {
        "none": {},
        "queue -1": {"queueId": -1},
        "unknown topic": {"topic": "PopUnknown"},
        "unknown group": {"consumerGroup": "PopUnknownGroup"},
        "queue behind the last": {"queueId": 2},
    }
    for what, change in asked.items():
        asker.ask(f"polling info, {what}", POLLING_INFO, fields | change)
    asker.ask("pop that waits for 300 ms", POP, pop(topic, group, pollTime=300))
    asker.ask(
        "pop in order that waits for 300 ms", POP, pop(topic, group, pollTime=300, order="true")
    )
    asker.note("pop that is woken", POP, _woken(asker, pop(topic, group, pollTime=15_000)))
    fields = pop(topic, group, queueId=-1, pollTime=15_000)
    asker.note("pop of all queues that is woken", POP, _woken(asker, fields))


def assignments(asker: Asker) -> None:
    topic, group = "AssignTopic", "AssignGroup"
    make_topic(asker.client, topic, 4)
    make_group(asker.client, group)
    asker.client.heartbeat("client-1", group, topic)
    usual: dict[str, object] = {
        "topic": topic, "consumerGroup": group, "clientId": "client-1", "strategyName": "AVG",
        "messageModel": "CLUSTERING",
    }  # fmt: skip

    def query(what: str, **change: object) -> None:
        body = {name: value for name, value in (usual | change).items() if value is not None}
        asker.ask(f"assignment, {what}", QUERY_ASSIGNMENT, {}, json.dumps(body).encode())
        found = asker.rows[-1].get("body")
        if isinstance(found, dict) and found.get("messageQueueAssignments"):
            found["messageQueueAssignments"].sort(
                key=lambda each: (each.get("messageQueue") or {}).get("queueId", -9)
            )

    def mode(what: str, **change: object) -> None:
        body: dict[str, object] = {
            "topic": topic, "consumerGroup": group, "mode": "POP", "popShareQueueNum": 0,
        }  # fmt: skip
        body = {name: value for name, value in (body | change).items() if value is not None}
        asker.ask(f"mode, {what}", SET_MESSAGE_REQUEST_MODE, {}, json.dumps(body).encode())

    query("by average")
    query("in a circle", strategyName="AVG_BY_CIRCLE")
    query("unknown strategy", strategyName="ODD")
    query("no strategy", strategyName=None)
    query("broadcast", messageModel="BROADCASTING")
    query("no model", messageModel=None)
    query("unknown client", clientId="client-9")
    query("no client", clientId=None)
    query("unknown group", consumerGroup="PopUnknownGroup")
    query("unknown topic", topic="PopUnknown")
    query("retry topic", topic=f"%RETRY%{group}")
    asker.ask("assignment, no body", QUERY_ASSIGNMENT, {})
    asker.ask("assignment, no JSON", QUERY_ASSIGNMENT, {}, b"x")
    mode("pop")
    query("pop")
    query("pop, broadcast", messageModel="BROADCASTING")
    mode("pop, sharing 2 queues", popShareQueueNum=2)
    query("pop, sharing 2 queues")
    mode("pop, sharing -1", popShareQueueNum=-1)
    query("pop, sharing -1")
    mode("pull", mode="PULL")
    query("pull")
    mode("odd", mode="ODD")
    mode("none", mode=None)
    mode("unknown topic", topic="PopUnknown")
    mode("unknown group", consumerGroup="PopUnknownGroup")
    mode("retry topic", topic=f"%RETRY%{group}")
    mode("no topic", topic=None)
    asker.ask("mode, no body", SET_MESSAGE_REQUEST_MODE, {})
    asker.ask("mode, no JSON", SET_MESSAGE_REQUEST_MODE, {}, b"x")


def _state(record: Record) -> Row:
    """A record of pops; which revive queue it is of, and where there, is chance."""
    row = shown(record)
    del row["offset"]
    if record.topic == REVIVE_TOPIC:
        row["queue"] = "REVIVE"
    if "REAL_QID" in row["properties"]:
        row["properties"]["REAL_QID"] = "REVIVE"
    return row


def _states(records: list[Record], topic: str) -> list[Row]:
    """Those of a topic, in the order of their keys."""
    found = [_state(record) for record in records if f'"t":"{topic}"'.encode() in record.body]
    return sorted(found, key=lambda row: (row["properties"]["UNIQ_KEY"], row["body"]))


def states(asker: Asker) -> None:
    """The records that pops and acknowledgements leave."""
    topic, group = "StateTopic", "StateGroup"
    fill(asker.client, topic, group, 8)
    one = take(asker, "three", topic, group, maxMsgNums=3, invisibleTime=3000)
    asker.ask("ack of the first", ACK, one.ack())
    asker.ask("batch ack of the second and third", BATCH_ACK, {}, batch_ack(one.batch("Bg==")))
    two = take(asker, "the rest", topic, group, invisibleTime=3000)
    asker.ask("change of one", CHANGE_INVISIBLE, two.ack(1, invisibleTime=5000))
    asker.ask(
        "change of one, suspended", CHANGE_INVISIBLE, two.ack(2, invisibleTime=5000, suspend="true")
    )
    asker.seen("timer records", _states(read(asker.client, TIMER_TOPIC), topic))
    found = arrived(asker.client, f"%RETRY%{group}_{topic}", 5)
    revived = [shown(record) | {"offset": "any"} for record in found]
    asker.seen("revived", sorted(revived, key=lambda row: row["body"]))
    queues = [read(asker.client, REVIVE_TOPIC, queue) for queue in range(8)]
    asker.seen("revive records", _states([record for queue in queues for record in queue], topic))
    answer = asker.call(POP, pop(topic, group, invisibleTime=60_000))
    asker.note("pop of what was revived", POP, answer)
    asker.rows[-1]["body"].sort(key=lambda row: row["body"])
    for row in asker.rows[-1]["body"]:
        row["offset"] = "any"
        row["properties"]["POP_CK"] = row["properties"]["POP_CK"].rpartition(" ")[0]


PARTS = {
    "notifications": notifications,
    "polling": polling,
    "assignments": assignments,
    "states": states,
}
