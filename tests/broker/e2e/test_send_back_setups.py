"""CONSUMER_SEND_MSG_BACK with brokers and groups that are set up otherwise, and over restarts."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.client import Client
from tests.support.delays import (
    await_records,
    back_command,
    dead_letters,
    is_unknown,
    log_end,
    place,
    send_back,
    sent,
    waiting,
)
from tests.support.operators import saved_topics
from tests.support.server import ServerProcess

CONF = "messageDelayLevel=1h 2h 1s\nflushIntervalCommitLog=20\n"
SYSTEM_ERROR = 1
NO_PERMISSION = 16
SUBSCRIPTION_GROUP_NOT_EXIST = 26

Start = Callable[..., ServerProcess]


def out_of_memory(path: Path) -> None:
    """Has the kernel forget the pages of a file."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a broker with more configuration, and with this configuration of a group G."""
    servers: list[ServerProcess] = []

    def started(conf: str = "", **group: object) -> ServerProcess:
        config = tmp_path / "store" / "config"
        config.mkdir(parents=True)
        table = {"G": {"groupName": "G", **group}} if group else {}
        (config / "subscriptionGroup.json").write_text(
            json.dumps({"subscriptionGroupTable": table})
        )
        servers.append(ServerProcess(tmp_path / "store", conf=CONF + conf))
        return servers[-1].start()

    yield started
    for server in servers:
        server.terminate()


def test_a_group_that_is_not_made_on_demand(start: Start) -> None:
    server = start("autoCreateSubscriptionGroup=false\n", consumeEnable=True)
    with Client(server.broker) as client:
        message = sent(client)
        command = back_command(message, "Unknown")
        end_of_log = log_end(client)
        answer = client.request(command)
        assert answer.code == SUBSCRIPTION_GROUP_NOT_EXIST
        assert "Unknown" in (answer.remark or "")
        assert log_end(client) == end_of_log
        assert send_back(client, message, "G").code == 0
    assert not [name for name in saved_topics(server.store) if "Unknown" in name]


def test_a_broker_that_takes_no_messages(start: Start) -> None:
    server = start()
    with Client(server.broker) as client:
        message = sent(client)
    server.terminate()
    server.conf += "brokerPermission=4\n"
    server.start()
    with Client(server.broker) as client:
        end_of_log = log_end(client)
        for level in (0, -1):
            answer = send_back(client, message, "G", level)
            assert (answer.code, "broker-a" in (answer.remark or "")) == (NO_PERMISSION, True)
        assert log_end(client) == end_of_log
    assert not [name for name in saved_topics(server.store) if name.startswith("%")]


def test_a_group_without_retries(start: Start) -> None:
    """It is as good as consumed, whatever is asked for."""
    server = start(retryQueueNums=0)
    with Client(server.broker) as client:
        message, end_of_log = sent(client), log_end(client)
        for offset, level in [(message, 0), (message, 3), (message, -1), (message + 1, 0)]:
            answer = send_back(client, offset, "G", level)
            assert (answer.code, answer.remark) == (0, None)
        assert log_end(client) == end_of_log
        assert is_unknown(client, "%RETRY%G")
        assert is_unknown(client, "%DLQ%G")


def test_a_group_with_its_own_numbers(start: Start) -> None:
    server = start(retryMaxTimes=1, retryQueueNums=3)
    with Client(server.broker) as client:
        for _ in range(60):
            assert send_back(client, sent(client), "G", 1).code == 0
        queues = [record.properties["REAL_QID"] for _, record in waiting(client, "G")]
        assert set(queues) == {"0", "1", "2"}, "at random"
        assert len(queues) == 60
        assert send_back(client, sent(client, times=1), "G", 1).code == 0
        assert len(dead_letters(client, "G")) == 1
        assert saved_topics(server.store)["%RETRY%G"]["writeQueueNums"] == 3
        assert saved_topics(server.store)["%DLQ%G"]["writeQueueNums"] == 1


def test_an_answer_outlives_the_broker(start: Start) -> None:
    """Also the first one, for which the topic is made."""
    server = start()
    with Client(server.broker) as client:
        message = sent(client)
        assert send_back(client, message, "G", -1).code == 0
        assert send_back(client, message, "G").code == 0
    server.kill()
    server.start()
    with Client(server.broker) as client:
        assert len(dead_letters(client, "G")) == 1
        (arrived,) = await_records(client, "%RETRY%G", 1)
        assert arrived.reconsume_times == 1
        # What was stored before the kill comes back as well as ever.
        assert send_back(client, message, "G", -1).code == 0
        assert len(dead_letters(client, "G", 2)) == 2


def test_messages_that_only_the_disk_has(start: Start) -> None:
    """Read in threads: answers may come in any order, each for its own message."""
    server = start("mappedFileSizeCommitLog=262144\nmessageIndexEnable=false\n")
    with Client(server.broker) as client:
        messages = [place(client.send("T", b"%04d" % n * 1000)) for n in range(500)]
    server.terminate()
    for path in (server.store / "commitlog").iterdir():
        out_of_memory(path)
    server.start()
    with Client(server.broker) as client:
        # Odd ones name a place inside of the record.
        commands = [back_command(messages[n] + n % 2, "G", -1) for n in range(400)]
        asked = {client.post(command): n for n, command in enumerate(commands)}
        answers = [client.receive() for _ in commands]
        assert {asked[a.opaque]: a.code for a in answers} == {n: n % 2 for n in range(400)}
        found = [int(r.body[:4]) for r in dead_letters(client, "G", 200)]
        assert sorted(found) == list(range(0, 400, 2))


@pytest.mark.parametrize(
    ("before", "after"), [("::1", "127.0.0.1"), ("127.0.0.1", "::1")], ids=["to-4", "to-6"]
)
def test_a_broker_with_an_address_of_the_other_family(
    start: Start, before: str, after: str
) -> None:
    """The new record has its host, and can be read. (RocketMQ 5.5.0 keeps a bit that says 16 bytes
    for the four of an IPv4 address: nobody can read the record.)"""
    server = start()
    if before != server.host:
        server.host = before
        server.restart(same_ports=False)
    with Client((before, server.broker[1])) as client:
        message = sent(client)
    server.host = after
    server.restart(same_ports=False)
    with Client((after, server.broker[1])) as client:
        for level in (-1, 1):
            assert send_back(client, message, "G", level).code == 0
        records = [*dead_letters(client, "G"), *(record for _, record in waiting(client, "G"))]
        assert [(r.store_host[0], r.born_host[0]) for r in records] == [(after, before)] * 2
        assert client.send("T", b"goes on").code == 0
        assert [record.body for record in client.pull_all("T", 0, 0, 2)] == [b"x", b"goes on"]
