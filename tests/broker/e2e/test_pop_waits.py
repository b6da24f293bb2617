"""Pops and notifications that wait: who is woken, by what, and who is not."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import count

import pytest

from tests.broker.e2e.test_requests import create_topic
from tests.support.client import Client, batch_command
from tests.support.popping import (
    FULL,
    NOTIFICATION,
    PEEK,
    POLLING_INFO,
    TIMEOUT,
    ack,
    pop,
    pop_command,
    popped,
)
from tests.support.records import decode_records
from tests.support.server import ServerProcess
from tests.support.wire import Command

POLLING_TIMEOUT = 210
GROUP = "CG_pop"
LONG = 30_000
_numbers = count()


@pytest.fixture
def topic(client: Client) -> str:
    name = f"Waited{next(_numbers)}"
    create_topic(client, name, 4)
    return name


@pytest.fixture
def other(process: ServerProcess) -> Iterator[Client]:
    with Client(process.broker) as opened:
        yield opened


def waiting(client: Client, topic: str, queue_id: int = -1, group: str = GROUP) -> int:
    answer = client.call(POLLING_INFO, consumerGroup=group, topic=topic, queueId=str(queue_id))
    assert answer.code == 0, answer.remark
    return int(answer.ext["pollingNum"])


def with_group(client: Client, topic: str, group: str = GROUP) -> str:
    """The group is there: the first pop of a new one begins once it is in its file."""
    assert client.request(pop_command(topic, group)).code == POLLING_TIMEOUT
    return group


def look_command(topic: str, poll: int, **change: object) -> Command:
    ext = {
        "consumerGroup": GROUP, "topic": topic, "queueId": -1, "pollTime": poll,
        "bornTime": int(time.time() * 1000),
    }  # fmt: skip
    return Command(NOTIFICATION, {k: str(v) for k, v in (ext | change).items()})


@pytest.mark.parametrize("queue_id", [-1, 2])
def test_a_pop_that_waits_gets_the_message_that_comes(
    client: Client, other: Client, topic: str, queue_id: int
) -> None:
    with_group(client, topic)
    client.post(pop_command(topic, pollTime=LONG, queueId=queue_id))
    assert waiting(client, topic, queue_id) == 1
    other.send(topic, b"come", queue_id=2)
    assert [m.body for m in popped(client.receive())] == [b"come"]
    assert waiting(client, topic, queue_id) == 0


def test_a_pop_of_one_queue_does_not_get_another_s(
    client: Client, other: Client, topic: str
) -> None:
    client.post(pop_command(topic, pollTime=LONG, queueId=2))
    other.send(topic, b"other", queue_id=1)
    assert waiting(client, topic, 2) == 1
    other.send(topic, b"come", queue_id=2)
    assert [m.body for m in popped(client.receive())] == [b"come"]


def test_one_message_wakes_one_pop(client: Client, other: Client, topic: str) -> None:
    for _ in range(50):
        client.post(pop_command(topic, pollTime=LONG))
    assert waiting(client, topic) == 50
    for n in range(3):
        other.send(topic, b"%d" % n, queue_id=n)
        assert [m.body for m in popped(client.receive())] == [b"%d" % n]
        assert waiting(client, topic) == 49 - n


def test_what_one_pop_leaves_the_next_one_gets(client: Client, other: Client, topic: str) -> None:
    for _ in range(4):
        client.post(pop_command(topic, pollTime=LONG, maxMsgNums=2))
    assert waiting(client, topic) == 4
    other.request(batch_command(topic, [(b"%d" % n, {}) for n in range(5)]))
    bodies = [[m.body for m in popped(client.receive())] for _ in range(3)]
    assert bodies == [[b"0", b"1"], [b"2", b"3"], [b"4"]]
    assert waiting(client, topic) == 1


def test_each_group_has_its_own_line(client: Client, other: Client, topic: str) -> None:
    for group in ("CG_one", "CG_two"):
        client.post(pop_command(topic, with_group(client, topic, group), pollTime=LONG))
    assert waiting(client, topic, group="CG_one") == 1
    other.send(topic, b"come")
    assert [[m.body for m in popped(client.receive())] for _ in range(2)] == [[b"come"], [b"come"]]


def test_tags_are_waited_for(client: Client, other: Client, topic: str) -> None:
    client.post(pop_command(topic, pollTime=LONG, exp="A"))
    other.send(topic, b"b", properties={"TAGS": "B"})
    assert waiting(client, topic) == 1
    other.send(topic, b"a", properties={"TAGS": "A"})
    assert [m.body for m in popped(client.receive())] == [b"a"]


def test_expressions_are_waited_for(client: Client, other: Client, topic: str) -> None:
    client.post(pop_command(topic, pollTime=LONG, expType="SQL92", exp="n > 5"))
    while not waiting(client, topic):  # a thread looks first whether there is something
        pass
    other.send(topic, b"b", properties={"n": "1"})
    assert waiting(client, topic) == 1
    other.send(topic, b"a", properties={"n": "6"})
    answer = client.receive()
    if answer.code == TIMEOUT:  # there was no time to evaluate it: the client asks again
        answer = client.request(pop_command(topic, expType="SQL92", exp="n > 5"))
    assert [m.body for m in popped(answer)] == [b"a"]


def test_time_is_over(client: Client, topic: str) -> None:
    began = time.monotonic()
    answer = client.request(pop_command(topic, pollTime=300))
    assert answer.code == TIMEOUT
    assert answer.remark == "NO_MESSAGE_IN_QUEUE"
    assert time.monotonic() - began >= 0.2
    assert waiting(client, topic) == 0


def test_no_more_wait_than_may(client: Client, topic: str) -> None:
    assert client.call(25, b"popPollingSize=2").code == 0
    try:
        for _ in range(2):
            client.post(pop_command(topic, pollTime=LONG))
        assert client.request(pop_command(topic, pollTime=LONG)).code == FULL
        assert client.request(pop_command(topic, pollTime=0)).code == TIMEOUT
        assert waiting(client, topic) == 2
    finally:
        client.call(25, b"popPollingSize=1024")


def test_a_topic_that_is_deleted_is_waited_for_no_more(
    client: Client, other: Client, topic: str
) -> None:
    client.post(pop_command(topic, pollTime=LONG))
    client.post(look_command(topic, LONG))
    assert waiting(client, topic) == 1
    assert other.call(215, topic=topic).code == 0
    assert [client.receive().code for _ in range(2)] == [17, 17]


def test_a_group_that_may_consume_no_more(client: Client, other: Client, topic: str) -> None:
    group = f"CG_{topic}"
    client.post(pop_command(topic, with_group(client, topic, group), pollTime=LONG))
    assert waiting(client, topic, group=group) == 1
    body = b'{"groupName":"%s","consumeEnable":false}' % group.encode()
    assert other.call(200, body).code == 0
    other.send(topic, b"come")
    answer = client.receive()
    assert (answer.code, group in (answer.remark or "")) == (16, True)


def test_a_connection_that_ends_waits_no_more(
    process: ServerProcess, client: Client, topic: str
) -> None:
    with Client(process.broker) as gone:
        gone.post(pop_command(topic, pollTime=LONG))
        assert waiting(gone, topic) == 1
    while waiting(client, topic):
        pass
    client.send(topic, b"come")
    assert [m.body for m in pop(client, topic)] == [b"come"]


def test_peeking_takes_nothing(client: Client, topic: str) -> None:
    peek = {"consumerGroup": GROUP, "topic": topic, "queueId": "-1", "maxMsgNums": "2"}
    assert client.call(PEEK, **peek).code == 19
    for n in range(3):
        client.send(topic, b"%d" % n, queue_id=1)
    for _ in range(2):
        answer = client.call(PEEK, **peek)
        assert (answer.code, answer.ext["restNum"]) == (0, "3")
        assert [r.body for r in decode_records(answer.body)] == [b"0", b"1"]
    assert [m.body for m in pop(client, topic)] == [b"0", b"1", b"2"]
    assert client.call(PEEK, **peek).code == 19


def test_notifications(client: Client, other: Client, topic: str) -> None:
    answer = client.request(look_command(topic, 0))
    assert (answer.code, answer.ext["hasMsg"]) == (0, "false")
    assert client.request(look_command(topic, 100)).ext["hasMsg"] == "false", "its time is over"
    client.post(look_command(topic, LONG))
    other.send(topic, b"come", queue_id=3)
    assert client.receive().ext["hasMsg"] == "true"
    assert client.request(look_command(topic, 0, queueId=1)).ext["hasMsg"] == "false"
    assert client.request(look_command(topic, LONG)).ext["hasMsg"] == "true"
    ack(client, pop(client, topic)[0])
    assert client.request(look_command(topic, 0)).ext["hasMsg"] == "false"


def test_of_a_long_attempt_id_the_same_is_kept_of_pops_and_notifications(
    client: Client, topic: str
) -> None:
    client.send(topic, b"m")
    attempt = "a" * 100_000
    assert len(pop(client, topic, order="true", attemptId=attempt)) == 1
    look = look_command(topic, 0, order="true", attemptId=attempt)
    assert client.request(look).ext["hasMsg"] == "true"
    look = look_command(topic, 0, order="true", attemptId="a")
    assert client.request(look).ext["hasMsg"] == "false"


def test_as_many_are_notified_as_there_are_messages(
    client: Client, other: Client, topic: str
) -> None:
    for _ in range(5):
        client.post(look_command(topic, 1500))
    assert waiting(client, topic) == 0, "no pop waits"
    other.request(batch_command(topic, [(b"0", {}), (b"1", {})]))
    assert [client.receive().ext["hasMsg"] for _ in range(2)] == ["true", "true"]
    assert len(pop(other, topic)) == 2
    assert [client.receive().ext["hasMsg"] for _ in range(3)] == ["false"] * 3


@pytest.mark.parametrize("code", [PEEK, NOTIFICATION, POLLING_INFO])
@pytest.mark.parametrize(
    ("change", "refused"),
    [({"topic": "NotThere"}, 17), ({"queueId": "4"}, 29), ({"consumerGroup": "a b"}, 26)],
)
def test_looks_that_are_refused(
    client: Client, topic: str, code: int, change: dict[str, str], refused: int
) -> None:
    ext = {"consumerGroup": GROUP, "topic": topic, "queueId": "0", "maxMsgNums": "1"}
    ext |= {"pollTime": "0", "bornTime": "0"} | change
    assert client.call(code, **ext).code == refused


def test_so_many_may_be_out_without_an_ack(client: Client, other: Client, topic: str) -> None:
    keys = b"enablePopMessageThreshold=true\npopInflightMessageThreshold=3"
    assert client.call(25, keys).code == 0
    try:
        other.request(batch_command(topic, [(b"%d" % n, {}) for n in range(6)]))
        out = [m for _ in range(2) for m in pop(client, topic, maxMsgNums=2)]
        assert [m.body for m in out] == [b"0", b"1", b"2", b"3"]
        assert pop(client, topic) == [], "four are out"
        client.post(pop_command(topic, pollTime=LONG))
        assert waiting(client, topic) == 1
        ack(other, out[0])
        assert [m.body for m in popped(client.receive())] == [b"4", b"5"]
    finally:
        client.call(25, b"enablePopMessageThreshold=false\npopInflightMessageThreshold=10000")
