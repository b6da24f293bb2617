"""Pulls that wait: answered when a message comes, when their time is over, and not before."""

from __future__ import annotations

import time
from itertools import count
from pathlib import Path

import pytest

from tests.broker.e2e.test_requests import create_topic
from tests.support.client import PULL_SUBSCRIPTION, PULL_SUSPEND, Client, pull_command
from tests.support.records import Record, decode_records
from tests.support.server import ServerProcess
from tests.support.wire import BINARY, JSON

HOLD = PULL_SUSPEND | PULL_SUBSCRIPTION

_numbers = count()


@pytest.fixture
def topic(client: Client) -> str:
    name = f"Held{next(_numbers)}"
    create_topic(client, name, 4)
    return name


@pytest.fixture
def other(process: ServerProcess) -> Client:
    """A second connection, which sends."""
    return Client(process.broker)


def assert_waits(client: Client) -> None:
    """A pull of this connection has no answer yet: what is asked behind it is answered first."""
    client.max_offset("T", 0)


def received(client: Client) -> list[Record]:
    answer = client.receive()
    assert answer.code == 0
    return decode_records(answer.body)


@pytest.mark.parametrize("serialize", [JSON, BINARY])
def test_a_parked_pull_gets_the_message_that_comes(
    client: Client, other: Client, topic: str, serialize: int
) -> None:
    with other:
        opaque = client.post(
            pull_command(topic, 0, 0, sys_flag=HOLD, suspend_ms=20_000, serialize=serialize)
        )
        assert_waits(client)
        other.send(topic, b"elsewhere", queue_id=1)
        assert_waits(client)
        other.send(topic, b"come")
        answer = client.receive()
        assert (answer.opaque, answer.serialize, answer.code) == (opaque, serialize, 0)
        assert answer.ext["nextBeginOffset"] == "1"
        assert [r.body for r in decode_records(answer.body)] == [b"come"]


def test_a_pull_on_a_queue_that_cannot_be_opened_is_refused(
    client: Client, process: ServerProcess, topic: str
) -> None:
    """Its refusal is all that happens: the broker serves on."""
    folder = process.store / "consumequeue" / topic
    folder.write_bytes(b"a file where the topic's folder should be")
    try:
        answer = client.request(pull_command(topic, 0, 0, sys_flag=HOLD, suspend_ms=20_000))
        assert answer.code == 14
        assert "Not a directory" in (answer.remark or "")
    finally:
        folder.unlink()
    assert client.send(topic, b"come").code == 0
    assert client.pull(topic, 0, 0).next_offset == 1


def test_other_requests_go_on_while_a_pull_waits(client: Client, topic: str) -> None:
    client.post(pull_command(topic, 0, 0, sys_flag=HOLD, suspend_ms=20_000))
    for n in range(3):
        assert client.send(topic, b"x", queue_id=1).ext["queueOffset"] == str(n)
    assert_waits(client)


def test_a_tag_that_does_not_match_keeps_it_waiting(
    client: Client, other: Client, topic: str
) -> None:
    with other:
        client.post(
            pull_command(topic, 0, 0, sys_flag=HOLD, suspend_ms=20_000, subscription="red || blue")
        )
        assert_waits(client)  # it is parked before the first message comes
        for _ in range(3):
            other.send(topic, b"no", properties={"TAGS": "green"})
            other.send(topic, b"no")
        assert_waits(client)
        other.send(topic, b"yes", properties={"TAGS": "blue"})
        assert [r.body for r in received(client)] == [b"yes"]


def test_suspend_time_over_answers_not_found(client: Client, topic: str) -> None:
    began = time.monotonic()
    client.post(pull_command(topic, 0, 0, sys_flag=HOLD, suspend_ms=300))
    answer = client.receive()
    assert time.monotonic() - began > 0.29, "not before its time"
    assert (answer.code, answer.ext["nextBeginOffset"]) == (19, "0")


def test_many_parked_pulls_end_in_the_order_of_their_times(client: Client, topic: str) -> None:
    late = client.post(pull_command(topic, 0, 0, sys_flag=HOLD, suspend_ms=400))
    early = client.post(pull_command(topic, 1, 0, sys_flag=HOLD, suspend_ms=100))
    assert [client.receive().opaque, client.receive().opaque] == [early, late]


def test_without_suspend_the_answer_comes_at_once(client: Client, topic: str) -> None:
    assert client.pull(topic, 0, 0, suspend_ms=20_000).code == 19
    assert client.pull(topic, 0, 0, sys_flag=HOLD, suspend_ms=0).code == 19


def test_a_pull_behind_the_end_is_not_parked(client: Client, topic: str) -> None:
    client.send(topic)
    pulled = client.pull(topic, 0, 99, sys_flag=HOLD, suspend_ms=20_000)
    assert (pulled.code, pulled.next_offset, pulled.max_offset) == (21, 1, 1)


def test_many_consumers_wait_on_one_queue(
    process: ServerProcess, client: Client, topic: str
) -> None:
    waiting = [Client(process.broker) for _ in range(50)]
    for number, consumer in enumerate(waiting):
        consumer.post(
            pull_command(topic, 0, 0, group=f"g{number}", sys_flag=HOLD, suspend_ms=20_000)
        )
    for consumer in waiting[:10]:
        consumer.close()
    assert_waits(waiting[-1])
    client.send(topic, b"all")
    for consumer in waiting[10:]:
        with consumer:
            assert [r.body for r in received(consumer)] == [b"all"]


def test_a_stop_answers_parked_pulls(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "store") as server, Client(server.broker) as client:
        client.send("Stopping", queue_id=1)
        client.post(pull_command("Stopping", 0, 0, sys_flag=HOLD, suspend_ms=60_000))
        assert_waits(client)
        server.terminate(timeout=30)
        (answer,) = client.until_closed()
        assert answer.code == 19
