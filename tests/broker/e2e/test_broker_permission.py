"""brokerPermission without 2: producers are refused, and what was begun before comes to its end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.client import Client, batch_command, send_command
from tests.support.operators import create_topic
from tests.support.server import ServerProcess
from tests.support.transactions import COMMIT, ROLLBACK, end, half_command, send_half
from tests.support.waiting import eventually
from tests.support.wire import BINARY, Command

UPDATE_BROKER_CONFIG = 25
NO_PERMISSION = 16
TOPIC = "Guarded"

SENDS = {
    "plain": send_command(TOPIC),
    "long names": send_command(TOPIC, code=10),
    "binary": send_command(TOPIC, serialize=BINARY),
    "batch": batch_command(TOPIC, [(b"a", {}), (b"b", {})]),
    "delayed": send_command(TOPIC, properties={"DELAY": "1"}),
    "half": half_command(TOPIC),
    "unknown topic": send_command("NotMade"),
    "retry": send_command("%RETRY%CG_guarded"),
}


@contextmanager
def permission(client: Client, value: int) -> Iterator[None]:
    answer = client.call(UPDATE_BROKER_CONFIG, f"brokerPermission={value}".encode())
    assert answer.code == 0, answer.remark
    try:
        yield
    finally:
        assert client.call(UPDATE_BROKER_CONFIG, b"brokerPermission=6").code == 0


def assert_forbidden(answer: Command) -> None:
    assert answer.code == NO_PERMISSION, f"{answer.code} {answer.remark}"
    assert answer.remark is not None
    assert "broker-a] sending message is forbidden" in answer.remark
    assert "brokerPermission" in answer.remark
    assert answer.ext["MSG_REGION"] == "DefaultRegion"


@pytest.mark.parametrize("name", SENDS)
def test_what_producers_send_is_refused(client: Client, name: str) -> None:
    create_topic(client, TOPIC, 4)
    before = client.max_offset(TOPIC, 0)
    with permission(client, 4):
        assert_forbidden(client.request(SENDS[name]))
        client.oneway(send_command(TOPIC))
        assert client.call(351, topic="NotMade").code == 17, "nothing is made"
        assert client.max_offset(TOPIC, 0) == before
        assert client.pull(TOPIC, 0, before).code == 19, "reading goes on"
    assert client.send(TOPIC).code == 0
    assert client.max_offset(TOPIC, 0) == before + 1


def test_topics_made_meanwhile_take_nothing(client: Client) -> None:
    with permission(client, 4):
        assert create_topic(client, "Meanwhile").code == 0
        assert_forbidden(client.send("Meanwhile"))
    assert client.send("Meanwhile").code == 0


def test_transactions_that_were_begun_come_to_their_end(client: Client) -> None:
    create_topic(client, "Begun", 1)
    committed, rolled_back = send_half(client, "Begun", b"yes"), send_half(client, "Begun", b"no")
    with permission(client, 4):
        answer = end(client, committed, COMMIT)
        assert answer.code == 0, answer.remark
        assert end(client, rolled_back, ROLLBACK).code == 0
        assert end(client, committed, COMMIT).code == 0, "again is no error"
        assert client.max_offset("Begun", 0) == 1
        assert client.pull("Begun", 0, 0).records[0].body == b"yes"
        assert_forbidden(client.send("Begun"))


def test_delayed_messages_are_delivered(client: Client) -> None:
    create_topic(client, "Later", 1)
    assert client.send("Later", b"later", properties={"DELAY": "1"}).code == 0
    with permission(client, 4):
        eventually(lambda: client.max_offset("Later", 0), "it is delivered", until=lambda n: n == 1)


def test_a_broker_that_starts_so(tmp_path: Path) -> None:
    conf = "brokerPermission=4\n"
    with ServerProcess(tmp_path / "store", conf=conf) as server, Client(server.broker) as client:
        create_topic(client, TOPIC)
        assert_forbidden(client.send(TOPIC))
