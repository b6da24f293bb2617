"""Delayed messages, and listeners that fail, with the Java client and the Go client.

The broker has delays of 1 s, 2 s, 3 s, …; PYRMQ_INTEROP_PEER=1 runs all of it against Apache
RocketMQ's, with the same result.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import pytest

from tests.support.client import Client
from tests.support.records import Record
from tests.support.waiting import eventually

from . import toolchain
from .conftest import JAVA_CLIENTS, built
from .drivers import Driver, Line
from .txn import TxnServer, serving

CLIENTS = [*JAVA_CLIENTS, pytest.param("go")]
CONF = f"messageDelayLevel={' '.join(f'{n}s' for n in range(1, 19))}\n"
GET_ROUTEINFO_BY_TOPIC = 105
FIRST = 3
"""Level of the first retry, and here its delay in seconds."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TxnServer]:
    with serving(tmp_path_factory.mktemp("retries"), CONF, "") as running:
        yield running


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest, server: TxnServer) -> Driver:
    return Driver(request.param, tuple(built(request.param)), server.namesrv, server.state)


@pytest.fixture
def newest(server: TxnServer) -> Driver:
    name = f"java-{toolchain.NEWEST}"
    return Driver(name, tuple(built(name)), server.namesrv, server.state)


@pytest.fixture
def known_group(server: TxnServer, topic: str, group: str) -> str:
    """A group whose retry topic has a route already: clients look for a missing one every 30 s."""
    host, _, port = server.namesrv.partition(":")
    with Client(server.address) as client, Client((host, int(port))) as names:
        assert client.heartbeat("early", group, topic).code == 0
        eventually(
            lambda: names.call(GET_ROUTEINFO_BY_TOPIC, topic=f"%RETRY%{group}").code,
            "the retry topic has a route",
            until=lambda code: code == 0,
        )
    return group


def by_message(received: list[Line]) -> dict[str, list[Line]]:
    """Deliveries of each message in the order in which they came."""
    found = defaultdict(list)
    for line in received:
        found[line["properties"]["index"]].append(line)
    return found


def dead_letters(server: TxnServer, group: str) -> list[Record]:
    with Client(server.address) as client:
        topic = f"%DLQ%{group}"
        return client.pull_all(topic, 0, 0, client.max_offset(topic, 0))


def test_delayed(client: Driver, topic: str, group: str) -> None:
    sent = client.run("produce", topic=topic, group="P-" + group, count=6, delay=2).sent
    received = client.run("consume", topic=topic, group=group, count=6, deliveries=6).received
    assert {index: len(lines) for index, lines in by_message(received).items()} == {
        str(line["index"]): 1 for line in sent
    }
    for line in received:
        assert line["properties"]["DELAY"] == "2"
        assert line["properties"]["REAL_TOPIC"] == topic
        # Both times are those of one machine.
        assert line["storeTimestamp"] - line["bornTimestamp"] >= 2000
        assert line["reconsumeTimes"] == 0


def test_a_failed_message_comes_back(client: Driver, topic: str, known_group: str) -> None:
    """Listeners that fail once: a second delivery after the delay of the first retry, none more."""
    client.run("produce", topic=topic, group="P-" + known_group, count=5)
    run = client.run("consume", topic=topic, group=known_group, fail=1, deliveries=10)
    deliveries = by_message(run.received)
    assert {len(lines) for lines in deliveries.values()} == {2}
    assert len(deliveries) == 5
    for first, second in deliveries.values():
        assert (first["reconsumeTimes"], second["reconsumeTimes"]) == (0, 1)
        assert second["storeTimestamp"] - first["storeTimestamp"] >= FIRST * 1000
        assert second["body"] == first["body"]
        assert second["tags"] == first["tags"]
        assert second["topic"] == topic, "clients show the topic that it was sent to"
        assert second["properties"]["RETRY_TOPIC"] == topic
        assert second["properties"]["ORIGIN_MESSAGE_ID"] == first["offsetMsgId"]


def test_what_fails_for_good_is_a_dead_letter(
    client: Driver, server: TxnServer, topic: str, known_group: str
) -> None:
    """Two retries, each a level later, then %DLQ%."""
    client.run("produce", topic=topic, group="P-" + known_group, count=4)
    run = client.run("consume", topic=topic, group=known_group, fail=99, max=2, deliveries=12)
    deliveries = by_message(run.received)
    assert len(deliveries) == 4
    for lines in deliveries.values():
        assert [line["reconsumeTimes"] for line in lines] == [0, 1, 2]
        times = [line["storeTimestamp"] for line in lines]
        assert times[1] - times[0] >= FIRST * 1000
        assert times[2] - times[1] >= (FIRST + 1) * 1000
    dead = dead_letters(server, known_group)
    assert sorted(record.properties["index"] for record in dead) == sorted(deliveries)
    for record in dead:
        first = deliveries[record.properties["index"]][0]
        assert record.reconsume_times == 3
        assert record.properties["RETRY_TOPIC"] == topic
        assert record.properties["ORIGIN_MESSAGE_ID"] == first["offsetMsgId"]


def test_an_orderly_consumer_keeps_its_message_then_gives_it_up(
    newest: Driver, server: TxnServer, topic: str, known_group: str
) -> None:
    """It tries again by itself, at the same place of the queue; then it is a dead letter."""
    newest.run("produce", topic=topic, group="P-" + known_group, count=2, tags="TagA")
    run = newest.run(
        "consume-orderly", topic=topic, group=known_group, fail=99, max=1, threads=4, deliveries=4
    )
    deliveries = by_message(run.received)
    assert {index: len(lines) for index, lines in deliveries.items()} == {"0": 2, "1": 2}
    for first, second in deliveries.values():
        assert first["offsetMsgId"] == second["offsetMsgId"]
    dead = dead_letters(server, known_group)
    assert sorted(record.properties["index"] for record in dead) == ["0", "1"]
