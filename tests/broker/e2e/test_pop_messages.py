"""POP_MESSAGE: what is popped, from where, and what is refused."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

import pyrmq.testing
from tests.broker.e2e.test_requests import create_topic
from tests.support.client import Client
from tests.support.popping import TIMEOUT, pop, pop_command, popped
from tests.support.wire import encode

_numbers = count()


@pytest.fixture
def topic(client: Client) -> str:
    name = f"Popped{next(_numbers)}"
    create_topic(client, name, 4)
    return name


def test_messages_of_all_queues_are_popped_once(client: Client, topic: str) -> None:
    for n in range(8):
        client.send(topic, b"%d" % n, queue_id=n % 4)
    answer = client.request(pop_command(topic))
    messages = popped(answer)
    assert sorted(m.body for m in messages) == [b"%d" % n for n in range(8)]
    assert {m.handle.queue_id for m in messages} == {0, 1, 2, 3}
    assert answer.ext["restNum"] == "0"
    assert answer.ext["invisibleTime"] == "60000"
    assert 0 <= int(answer.ext["reviveQid"]) < 8
    assert pop(client, topic) == []


def test_one_queue_and_no_more_than_asked_for(client: Client, topic: str) -> None:
    for n in range(5):
        client.send(topic, b"%d" % n, queue_id=1)
    client.send(topic, b"other", queue_id=2)
    answer = client.request(pop_command(topic, queueId=1, maxMsgNums=2))
    assert [m.body for m in popped(answer)] == [b"0", b"1"]
    assert answer.ext["restNum"] == "3"
    assert answer.ext["startOffsetInfo"] == "0 1 0"
    assert answer.ext["msgOffsetInfo"] == "0 1 0,1"
    answer = client.request(pop_command(topic, queueId=1))
    assert [m.body for m in popped(answer)] == [b"2", b"3", b"4"]
    assert answer.ext["msgOffsetInfo"] == "0 1 2,3,4"


def test_groups_pop_apart(client: Client, topic: str) -> None:
    client.send(topic, b"m")
    assert [m.body for m in pop(client, topic, "CG_one")] == [b"m"]
    assert [m.body for m in pop(client, topic, "CG_two")] == [b"m"]


def test_a_new_group_begins_with_the_last_message(client: Client, topic: str) -> None:
    """initMode 1; with the first message in memory it gets all of them, as in RocketMQ."""
    for n in range(3):
        client.send(topic, b"%d" % n)
    assert [m.body for m in pop(client, topic, "CG_all", initMode=1)] == [b"0", b"1", b"2"]


def test_tags_leave_messages_out_for_good(client: Client, topic: str) -> None:
    for n, tag in enumerate("ABAC"):
        client.send(topic, b"%d" % n, properties={"TAGS": tag})
    answer = client.request(pop_command(topic, queueId=0, exp="A || C"))
    assert [m.body for m in popped(answer)] == [b"0", b"2", b"3"]
    assert answer.ext["msgOffsetInfo"] == "0 0 0,2,3"
    assert pop(client, topic) == []


def test_expressions_select(client: Client, topic: str) -> None:
    for n in range(6):
        client.send(topic, b"%d" % n, properties={"n": str(n)})
    found = pop(client, topic, expType="SQL92", exp="n > 1 AND n < 4")
    assert [m.body for m in found] == [b"2", b"3"]


def test_without_messages_it_is_polling_timeout(client: Client, topic: str) -> None:
    answer = client.request(pop_command(topic))
    assert (answer.code, answer.remark) == (TIMEOUT, "NO_MESSAGE_IN_QUEUE")
    assert answer.ext["restNum"] == "0"
    assert answer.ext["msgOffsetInfo"] == ""


@pytest.mark.parametrize(
    ("change", "code", "word"),
    [
        ({"bornTime": 1, "pollTime": 1}, 210, "timeout"),
        ({"maxMsgNums": 33}, 29, "maxMsgNums"),
        ({"maxMsgNums": 0}, 29, "maxMsgNums"),
        ({"maxMsgNums": -5}, 29, "maxMsgNums"),
        ({"invisibleTime": 0}, 29, "invisibleTime"),
        ({"invisibleTime": -1}, 29, "invisibleTime"),
        ({"invisibleTime": 100 * 365 * 86_400_000}, 29, "invisibleTime"),
        ({"topic": "NotThere"}, 17, "NotThere"),
        ({"queueId": 4}, 29, "queueId"),
        ({"consumerGroup": "a b"}, 26, "group"),
        ({"exp": " || "}, 23, "expression"),
        ({"expType": "SQL92", "exp": "n >"}, 23, ""),
        ({"expType": "CLASS", "exp": "n"}, 23, "expType"),
        ({"pollTime": "long"}, 1, "pollTime"),
    ],
)
def test_what_is_refused(
    client: Client, topic: str, change: dict[str, object], code: int, word: str
) -> None:
    client.send(topic, b"m")
    request = pop_command(topic)
    request.ext.update({name: str(value) for name, value in change.items()})
    answer = client.request(request)
    assert answer.code == code, answer.remark
    assert word in (answer.remark or "")
    assert [m.body for m in pop(client, topic)] == [b"m"], "nothing was popped"


def test_a_missing_born_time_is_now(client: Client, topic: str) -> None:
    client.send(topic, b"m")
    assert len(pop(client, topic, bornTime=0)) == 1
    client.send(topic, b"n")
    assert len(pop(client, topic, bornTime=None)) == 1


def test_a_pop_that_is_late_by_less_is_done(client: Client, topic: str) -> None:
    client.send(topic, b"m")
    born = int(time.time() * 1000) - 60_000
    assert len(pop(client, topic, bornTime=born, pollTime=70_000)) == 1


def test_what_a_group_without_members_pops_is_shown(client: Client, topic: str) -> None:
    pop(client, topic, exp="A || B")
    body = json.loads(client.call(345, group="CG_pop", topic=topic).body)
    assert body["subscriptionData"]["subString"] == "A || B"


class Cold:
    """The engine of pops, as if nothing were in memory."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine

    def pop(self, *args: Any, wait: bool, **more: Any) -> Any:
        return self._engine.pop(*args, wait=True, **more) if wait else None

    def read(self, *args: Any, wait: bool, **more: Any) -> Any:
        return self._engine.read(*args, wait=True, **more) if wait else None


@pytest.mark.parametrize("order", ["true", "false"])
def test_pops_that_come_together_do_not_share_what_is_on_the_disk(order: str) -> None:
    with pyrmq.testing.broker() as running, Client(running.broker_address) as client:
        create_topic(client, "Cold", 1)
        for n in range(4):
            client.send("Cold", b"%d" % n, queue_id=0)
        popping = running.broker.parts.pop.popping
        popping.engine = Cold(popping.engine)
        commands = [replace(pop_command("Cold", order=order), opaque=n) for n in range(4)]
        client.send_raw(b"".join(encode(command) for command in commands))
        answers = [client.receive() for _ in commands]
        found = [m.body for a in answers if a.code == 0 for m in popped(a)]
        assert found == [b"0", b"1", b"2", b"3"]
        assert sorted(a.code for a in answers) == [0, TIMEOUT, TIMEOUT, TIMEOUT]
