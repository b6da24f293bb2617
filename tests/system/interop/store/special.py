"""Messages that take a path of their own: long topics, retries, delays, inner batches."""

from __future__ import annotations

import json
from pathlib import Path

from pyrmq.engine import Store
from tests.support.client import Client, batch_command
from tests.support.records import MAGIC_V2
from tests.support.waiting import eventually

from . import cargo
from .contents import Contents
from .tool import Tool

SCHEDULE = "SCHEDULE_TOPIC_XXXX"
CONSUMER_SEND_MSG_BACK = 36
INNER = "Inner"
"""A topic with a batch consume queue."""
LATER = "Later"
"""Where delayed messages go."""


def with_long_topic(store: Path, contents: Contents) -> None:
    """Records in the V2 form. The engine writes them: only retries have topics of this length."""
    contents.knows(cargo.LONG_RETRY, 1)
    engine = Store(store, **cargo.ENGINE)
    try:
        for number in range(25):
            body, properties = b"v2 %d" % number, {"RETRY_TOPIC": cargo.MAIN}
            text = "".join(f"{name}\x01{value}\x02" for name, value in properties.items())
            _, _, offset, _ = engine.put(
                cargo.LONG_RETRY, 0, body, text, born_host="[2001:db8::17]:4711"
            )
            contents.stored((cargo.LONG_RETRY, 0), offset, body, properties)
    finally:
        engine.close()


def delayed(contents: Contents, client: Client) -> None:
    """Messages that come due in the next turn, and one that does not within this test."""
    contents.knows(SCHEDULE, 18)
    contents.knows(LATER, 1)
    for level in ("2", "2", "18"):
        body = f"delay level {level}".encode()
        contents.unanswered(body)  # stored elsewhere than the answer will have been read
        assert client.send(LATER, body, queues=1, properties={"DELAY": level}).code == 0


def arrives_later(contents: Contents, client: Client) -> None:
    """What was parked in the turn before is delivered, once."""
    await_messages(client, LATER, 2)
    contents.check(client)
    assert [r.body for r in contents.records[LATER, 0]] == [b"delay level 2"] * 2
    for level, count in ((2, 2), (18, 1)):
        waited = contents.records[SCHEDULE, level - 1]
        assert [r.properties["REAL_TOPIC"] for r in waited].count(LATER) == count


def inner_batches(client: Client, start: int) -> list[str]:
    """Four batches that the broker stores as one record each; the numbers sent."""
    numbers = []
    for first in range(start, start + 12, 3):
        batch = [(b"inner %d" % n, {"number": str(n)}) for n in range(first, first + 3)]
        numbers += [properties["number"] for _, properties in batch]
        unique = {"UNIQ_KEY": f"{first:032X}"}
        answer = client.request(batch_command(INNER, batch, properties=unique, queues=1))
        assert answer.code == 0, answer.remark
        assert answer.ext["queueOffset"] == str(first)
    return numbers


def inner_arrived(tool: Tool, namesrv: str, numbers: list[str]) -> None:
    """The Java client takes the batches apart."""
    read = tool.read(namesrv, [INNER])
    assert [line["queueOffset"] for line in read] == list(range(len(numbers)))
    assert [line["properties"]["number"] for line in read] == numbers


def with_long_group(store: Path) -> None:
    """A group that Apache's broker finds when it starts: 5.5 makes none of more than 120 characters
    for a client, but serves those that there are."""
    path = store / "config" / "subscriptionGroup.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    group = {"groupName": cargo.LONG_GROUP, "retryQueueNums": 1, "retryMaxTimes": 16}
    table = {"subscriptionGroupTable": {cargo.LONG_GROUP: group}}
    path.write_text(json.dumps({**table, "dataVersion": {"counter": 1, "timestamp": 1}}))


def long_retries(contents: Contents, client: Client) -> None:
    """Messages that a consumer sends back: after a second they are in its retry topic."""
    contents.knows(cargo.LONG_RETRY, 1)
    back = contents.records[cargo.MAIN, 1][:5]
    for record in back:
        contents.unanswered(record.body)
        answer = client.call(
            CONSUMER_SEND_MSG_BACK,
            group=cargo.LONG_GROUP,
            offset=record.physical_offset,
            delayLevel=1,
            originMsgId=record.offset_msg_id,
            originTopic=cargo.MAIN,
            unitMode="false",
            maxReconsumeTimes=16,
        )
        assert answer.code == 0, answer.remark
    await_messages(client, cargo.LONG_RETRY, len(back))
    contents.check(client)
    retries = contents.records[cargo.LONG_RETRY, 0]
    assert {(r.magic, r.reconsume_times) for r in retries} == {(MAGIC_V2, 1)}
    assert [r.body for r in retries] == [r.body for r in back]


def await_messages(client: Client, topic: str, count: int) -> None:
    """Until queue 0 of a topic holds so many messages that were delayed."""
    what = f"{count} delayed messages of {topic} are delivered"
    eventually(lambda: client.max_offset(topic, 0), what, until=lambda end: end >= count)
