"""Orderly pops: a queue gives nothing while an earlier message is out."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest

from tests.broker.e2e.test_requests import create_topic
from tests.support.client import Client
from tests.support.popping import CHANGE, PoppedMessage, ack, ack_command, pop, pop_command, popped

_numbers = count()


@pytest.fixture
def topic(client: Client) -> str:
    name = f"Ordered{next(_numbers)}"
    create_topic(client, name, 2)
    for n in range(4):
        client.send(name, b"%d" % n, queue_id=0)
    return name


def orderly(client: Client, topic: str, **change: object) -> list[PoppedMessage]:
    return pop(client, topic, order="true", **change)


def test_the_next_batch_comes_when_all_are_done(client: Client, topic: str) -> None:
    answer = client.request(pop_command(topic, order="true", maxMsgNums=2))
    first = popped(answer)
    assert [m.body for m in first] == [b"0", b"1"]
    assert answer.ext["reviveQid"] == "999"
    assert answer.ext["orderCountInfo"] == "0 0 0"
    assert orderly(client, topic) == []
    ack(client, first[1])
    assert orderly(client, topic) == []
    ack(client, first[0])
    assert [m.body for m in orderly(client, topic)] == [b"2", b"3"]


def test_another_queue_is_not_held_up(client: Client, topic: str) -> None:
    assert len(orderly(client, topic)) == 4
    client.send(topic, b"other", queue_id=1)
    assert [m.body for m in orderly(client, topic)] == [b"other"]


def test_an_attempt_may_be_repeated(client: Client, topic: str) -> None:
    first = orderly(client, topic, maxMsgNums=2, attemptId="a")
    assert orderly(client, topic, maxMsgNums=2, attemptId="b") == []
    again = orderly(client, topic, maxMsgNums=2, attemptId="a")
    assert [m.body for m in again] == [m.body for m in first]
    for message in again:
        ack(client, message)
    assert [m.body for m in orderly(client, topic, attemptId="a")] == [b"2", b"3"]


def test_a_long_attempt_id_is_cut(client: Client, topic: str) -> None:
    """Of a longer one the first 255 characters count, and they are in the file."""
    orderly(client, topic, maxMsgNums=2, attemptId="a" * 255 + "b")
    again = orderly(client, topic, maxMsgNums=2, attemptId="a" * 255 + "c")
    assert [m.body for m in again] == [b"0", b"1"]
    assert orderly(client, topic, maxMsgNums=2, attemptId="a" * 254) == []


def test_a_change_of_what_is_done_has_the_fields_that_clients_read(
    client: Client, topic: str
) -> None:
    first = orderly(client, topic, maxMsgNums=1)[0]
    ack(client, first)
    answer = client.request(ack_command(first, code=CHANGE, invisibleTime=1000))
    assert answer.code == 0
    assert answer.ext == {"popTime": "0", "invisibleTime": "0", "reviveQid": "0"}


def test_what_is_not_acknowledged_comes_again_and_is_counted(client: Client, topic: str) -> None:
    first = orderly(client, topic, maxMsgNums=2)
    ack(client, first[0])
    answer = client.request(ack_command(first[1], code=CHANGE, invisibleTime=0))
    assert (answer.code, answer.ext["reviveQid"]) == (0, "999")
    again = client.request(pop_command(topic, order="true", maxMsgNums=2))
    assert [m.body for m in popped(again)] == [b"1", b"2"]
    assert again.ext["orderCountInfo"] == "0 qo0%1 1;0 0 0"


def test_an_ack_wakes_the_pop_that_waits(client: Client, topic: str) -> None:
    first = orderly(client, topic, maxMsgNums=1)
    client.post(pop_command(topic, order="true", pollTime=30_000))
    client.post(ack_command(first[0]))
    answers = [client.receive() for _ in range(2)]
    assert sorted(len(a.body) > 0 for a in answers) == [False, True]
    found = next(a for a in answers if a.body)
    assert [m.body for m in popped(found)] == [b"1", b"2", b"3"]


def test_messages_that_become_visible_wake_the_pop_that_waits(client: Client, topic: str) -> None:
    assert len(orderly(client, topic, invisibleTime=300)) == 4
    answer = client.request(pop_command(topic, order="true", pollTime=30_000))
    assert [m.body for m in popped(answer)] == [b"0", b"1", b"2", b"3"]


def test_acks_of_what_was_not_popped(client: Client, topic: str) -> None:
    first = orderly(client, topic, maxMsgNums=1)[0]
    other = replace(first, handle=replace(first.handle, offset=2))
    answer = client.request(ack_command(other))
    assert answer.code == 13
    stale = replace(first, handle=replace(first.handle, pop_time=first.handle.pop_time - 1))
    assert client.request(ack_command(stale)).code == 0, "of another pop: nothing changes"
    assert orderly(client, topic) == []
