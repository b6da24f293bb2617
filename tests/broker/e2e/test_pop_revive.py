"""Messages that were popped and not acknowledged come back; a group that is switched to pull gets
them too."""

from __future__ import annotations

import json
from itertools import count

import pytest

from tests.broker.e2e.test_requests import create_topic
from tests.support.client import HEART_BEAT, Client
from tests.support.popping import ack, pop, pop_command, popped
from tests.support.records import Record
from tests.support.waiting import eventually

_numbers = count()


@pytest.fixture
def topic(client: Client) -> str:
    name = f"Revived{next(_numbers)}"
    create_topic(client, name, 2)
    return name


@pytest.fixture
def group() -> str:
    return f"CG_revived_{next(_numbers)}"


def test_a_message_comes_back_until_it_is_acknowledged(
    client: Client, topic: str, group: str
) -> None:
    client.send(topic, b"m", properties={"k": "v"})
    first = pop(client, topic, group, invisibleTime=1000)
    assert [m.body for m in first] == [b"m"]
    for times in (1, 2):
        answer = client.request(pop_command(topic, group, pollTime=30_000, invisibleTime=1000))
        (again,) = popped(answer)
        assert (again.body, again.record.topic) == (b"m", topic)
        assert again.record.reconsume_times == times
        assert again.record.properties["k"] == "v"
        assert again.handle.retry == "1"
        assert answer.ext["msgOffsetInfo"] == f"1 0 {times - 1}"
    ack(client, again, group)
    client.send(topic, b"next")
    answer = client.request(pop_command(topic, group, pollTime=30_000))
    assert [m.body for m in popped(answer)] == [b"next"], "what is acknowledged does not come back"


def test_of_a_batch_only_what_is_not_acknowledged_comes_back(
    client: Client, topic: str, group: str
) -> None:
    for n in range(5):
        client.send(topic, b"%d" % n)
    messages = pop(client, topic, group, invisibleTime=2000)
    for message in messages[::2]:
        ack(client, message, group)
    found: list[bytes] = []
    while len(found) < 2:
        answer = client.request(pop_command(topic, group, pollTime=30_000))
        found += [m.body for m in popped(answer)]
    assert sorted(found) == [b"1", b"3"]


def pulled_retries(client: Client, group: str) -> list[Record]:
    return client.pull(f"%RETRY%{group}", 0, 0, group=group).records


def test_a_group_that_is_switched_to_pull_skips_nothing(
    client: Client, topic: str, group: str
) -> None:
    """Messages that are out at the switch are retried where members pull."""
    subscriptions = [
        {"topic": t, "subString": "*", "subVersion": 1} for t in (topic, f"%RETRY%{group}")
    ]
    consumer = {"groupName": group, "subscriptionDataSet": subscriptions}
    beat = {"clientID": "c", "consumerDataSet": [consumer]}
    assert client.call(HEART_BEAT, json.dumps(beat).encode()).code == 0
    for n in range(3):
        client.send(topic, b"%d" % n, properties={"k": str(n)})
    messages = pop(client, topic, group, invisibleTime=1000)
    ack(client, messages[1], group)
    body = {"topic": topic, "consumerGroup": group, "mode": "PULL"}
    assert client.call(401, json.dumps(body).encode()).code == 0
    records = eventually(
        lambda: pulled_retries(client, group),
        "both messages without an ack are retried",
        until=lambda found: len(found) == 2,
    )
    assert [(r.body, r.properties["k"]) for r in records] == [(b"0", "0"), (b"2", "2")]
    assert {r.properties["RETRY_TOPIC"] for r in records} == {topic}
    assert {r.reconsume_times for r in records} == {1}
    assert pop(client, topic, group) == [], "they are not there twice"
