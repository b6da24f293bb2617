"""QUERY_ASSIGNMENT: the queues of a member, by the route that the name server tells."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

import pytest

from tests.broker.e2e.test_requests import create_topic
from tests.support.client import HEART_BEAT, Client
from tests.support.server import ServerProcess

QUERY, SET = 400, 401
_numbers = count()


@pytest.fixture
def topic(client: Client) -> str:
    name = f"Assigned{next(_numbers)}"
    create_topic(client, name, 4)
    return name


@pytest.fixture
def group() -> str:
    return f"CG_{next(_numbers)}"


def beat(client: Client, client_id: str, group: str, topic: str) -> None:
    consumer = {
        "groupName": group, "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
        "subscriptionDataSet": [{"topic": topic, "subString": "*", "subVersion": 1}],
    }  # fmt: skip
    body = {"clientID": client_id, "consumerDataSet": [consumer], "producerDataSet": []}
    assert client.call(HEART_BEAT, json.dumps(body).encode()).code == 0


def ask(client: Client, topic: str, group: str, **change: object) -> dict[str, Any]:
    body = {
        "topic": topic, "consumerGroup": group, "clientId": "c", "strategyName": "AVG",
        "messageModel": "CLUSTERING",
    }  # fmt: skip
    answer = client.call(QUERY, json.dumps(body | change).encode())
    assert answer.code == 0, answer.remark
    found: dict[str, Any] = json.loads(answer.body)
    return found


def queues(found: dict[str, Any]) -> list[tuple[str, int, str]]:
    rows = found["messageQueueAssignments"]
    return sorted(
        (r["messageQueue"]["topic"], r["messageQueue"]["queueId"], r["mode"]) for r in rows
    )


def set_mode(client: Client, topic: str, group: str, mode: str, share: int = 0) -> None:
    body = {"topic": topic, "consumerGroup": group, "mode": mode, "popShareQueueNum": share}
    assert client.call(SET, json.dumps(body).encode()).code == 0


def test_one_member_pulls_all_queues(client: Client, topic: str, group: str) -> None:
    beat(client, "c", group, topic)
    assert queues(ask(client, topic, group)) == [(topic, q, "PULL") for q in range(4)]


def test_two_members_share_them(
    process: ServerProcess, client: Client, topic: str, group: str
) -> None:
    beat(client, "c", group, topic)
    with Client(process.broker) as other:
        beat(other, "d", group, topic)
        assert queues(ask(client, topic, group)) == [(topic, q, "PULL") for q in (0, 1)]
        assert queues(ask(client, topic, group, clientId="d")) == [
            (topic, q, "PULL") for q in (2, 3)
        ]


def test_a_group_that_pops_has_any_queue_of_each_broker(
    client: Client, topic: str, group: str
) -> None:
    beat(client, "c", group, topic)
    set_mode(client, topic, group, "POP")
    assert queues(ask(client, topic, group)) == [(topic, -1, "POP")]
    set_mode(client, topic, group, "PULL")
    assert queues(ask(client, topic, group)) == [(topic, q, "PULL") for q in range(4)]


def test_broadcasting_members_have_all(client: Client, topic: str, group: str) -> None:
    found = ask(client, topic, group, messageModel="BROADCASTING")
    assert queues(found) == [(topic, q, "PULL") for q in range(4)]


def test_what_the_broker_does_not_know_leaves_the_client_what_it_has(
    client: Client, topic: str, group: str
) -> None:
    assert ask(client, topic, group) == {}, "no member of the group"
    beat(client, "c", group, topic)
    assert ask(client, "NotThere", group) == {}
    assert ask(client, topic, group, strategyName="CONFIG") == {}
    assert ask(client, topic, group, clientId="stranger") == {"messageQueueAssignments": []}


def test_the_keys_of_the_configuration(client: Client, topic: str, group: str) -> None:
    beat(client, "c", group, topic)
    assert client.call(25, b"defaultMessageRequestMode=POP").code == 0
    try:
        assert queues(ask(client, topic, group)) == [(topic, -1, "POP")]
        retry = f"%RETRY%{group}"
        assert {mode for _, _, mode in queues(ask(client, retry, group))} == {"PULL"}
        assert client.call(25, b"serverLoadBalancerEnable=false").code == 0
        assert queues(ask(client, topic, group)) == [(topic, q, "POP") for q in range(4)]
    finally:
        client.call(25, b"defaultMessageRequestMode=PULL\nserverLoadBalancerEnable=true")
