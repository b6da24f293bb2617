"""Topics that the first send makes: in topics.json before anything is acknowledged.

The file is made impossible to write by a folder in the place of its temporary file, which stops
the superuser too, unlike permissions.
"""

from __future__ import annotations

import socket
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.client import Client, batch_command, send_command
from tests.support.operators import create_topic, saved_topics
from tests.support.server import ServerProcess
from tests.support.wire import BINARY, JSON

SERVICE_NOT_AVAILABLE = 14
GET_ROUTEINFO_BY_TOPIC = 105


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path / "store") as running:
        yield running


@pytest.fixture
def client(server: ServerProcess) -> Iterator[Client]:
    with Client(server.broker) as connection:
        yield connection


def obstacle(server: ServerProcess) -> Path:
    """A folder that keeps topics.json from being written for as long as it is there."""
    folder = server.store / "config" / "topics.json.tmp"
    folder.mkdir(parents=True)
    return folder


def test_whoever_got_an_answer_finds_the_route(server: ServerProcess, client: Client) -> None:
    with Client(server.namesrv) as names:
        for n in range(20):
            assert client.send(f"Routed{n}").code == 0
            assert names.call(GET_ROUTEINFO_BY_TOPIC, topic=f"Routed{n}").code == 0


def test_a_name_server_that_is_away_holds_up_no_topic(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        nobody = taken.getsockname()[1]
    conf = f"namesrvAddr=127.0.0.1:{nobody}\n"
    with ServerProcess(tmp_path / "store", conf=conf) as server, Client(server.broker) as client:
        began = time.monotonic()
        for n in range(5):
            assert client.send(f"Alone{n}").code == 0
        assert time.monotonic() - began < 5 * 3, "not the time that a name server is waited for"


@pytest.mark.parametrize("serialize", [JSON, BINARY])
def test_a_topic_that_cannot_be_saved_takes_no_messages(
    server: ServerProcess, client: Client, serialize: int
) -> None:
    client.send("Before")
    in_the_way = obstacle(server)
    for _ in range(2):
        answer = client.send("New", b"refused", serialize=serialize)
        assert answer.code == SERVICE_NOT_AVAILABLE
        assert "New" in (answer.remark or "")
        assert "cannot be saved" in (answer.remark or "")
    assert client.max_offset("New", 0) == 0
    batch = batch_command("NewBatch", [(b"a", {}), (b"b", {})], serialize=serialize)
    assert client.request(batch).code == SERVICE_NOT_AVAILABLE
    assert client.send("Before").code == 0, "topics that are known go on"
    assert "New" not in saved_topics(server.store)

    in_the_way.rmdir()
    assert client.send("New", b"taken", serialize=serialize).ext["queueOffset"] == "0"
    assert "New" in saved_topics(server.store)
    assert client.request(batch).code == 0
    server.kill()
    server.restart()
    with Client(server.broker) as again:
        assert [r.body for r in again.pull("New", 0, 0).records] == [b"taken"]
        assert [r.body for r in again.pull("NewBatch", 0, 0).records] == [b"a", b"b"]


def test_all_sends_that_wait_for_a_topic_are_refused(server: ServerProcess, client: Client) -> None:
    """None of them waits for ever, whatever the number of topics and connections."""
    client.send("Before")
    in_the_way = obstacle(server)
    with Client(server.broker) as other:
        for n in range(120):
            for connection in (client, other):
                connection.post(send_command(f"New{n % 40}", b"x"))
        for connection in (client, other):
            answers = [connection.receive() for _ in range(120)]
            assert {answer.code for answer in answers} == {SERVICE_NOT_AVAILABLE}
            assert sorted(answer.opaque for answer in answers)[-1] - 119 == min(
                answer.opaque for answer in answers
            )
    in_the_way.rmdir()
    assert client.send("New0").code == 0


def test_a_topic_that_an_operator_makes_is_saved_or_refused(
    server: ServerProcess, client: Client
) -> None:
    client.send("Before")
    in_the_way = obstacle(server)
    made = create_topic(client, "Made", 16)
    sent = client.send("Made", queue_id=15)
    in_the_way.rmdir()
    assert made.code != 0
    assert made.remark
    assert sent.code != 0, "the topic is not on disk, so nothing is acknowledged for it"
    assert create_topic(client, "Made", 16).code == 0
    assert saved_topics(server.store)["Made"]["writeQueueNums"] == 16
    assert client.send("Made", queue_id=15).code == 0


def test_many_new_topics_at_once(server: ServerProcess, client: Client) -> None:
    """400 of them on one connection, before one answer is read: all acknowledged, in order."""
    topics, each = 400, 5
    sent: dict[int, tuple[str, bytes]] = {}
    for n in range(topics * each):
        topic, body = f"Many{n % topics}", b"%05d" % n
        sent[client.post(send_command(topic, body, queues=1))] = (topic, body)
    offsets: dict[str, dict[int, bytes]] = defaultdict(dict)
    for _ in range(len(sent)):
        answer = client.receive(30)
        assert answer.code == 0, answer.remark
        topic, body = sent.pop(answer.opaque)
        offsets[topic][int(answer.ext["queueOffset"])] = body
    server.kill()
    assert {name for name in saved_topics(server.store) if name.startswith("Many")} == set(offsets)
    server.restart()
    with Client(server.broker) as again:
        for n in range(topics):
            wanted = [b"%05d" % (n + topics * i) for i in range(each)]
            assert [offsets[f"Many{n}"][i] for i in range(each)] == wanted
            assert [r.body for r in again.pull_all(f"Many{n}", 0, 0, each)] == wanted
