"""What happens to consumers of the Java client and the Go client while they run: their offsets are
moved, members come and go, the broker goes away; and broadcasting."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.support.client import Client
from tests.support.server import ServerProcess

from . import toolchain
from .conftest import JAVA_CLIENTS, built
from .drivers import Driver, Line
from .txn import TxnServer, serving

CLIENTS = [*JAVA_CLIENTS, pytest.param("go")]
RESET = 222
COUNT = 24


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TxnServer]:
    with serving(tmp_path_factory.mktemp("running"), "", "") as running:
        yield running


def driver(name: str, server: TxnServer) -> Driver:
    return Driver(name, tuple(built(name)), server.namesrv, server.state)


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest, server: TxnServer) -> Driver:
    return driver(request.param, server)


@pytest.fixture
def newest(server: TxnServer) -> Driver:
    return driver(f"java-{toolchain.NEWEST}", server)


def counts(received: list[Line]) -> Counter[str]:
    return Counter(line["properties"]["index"] for line in received)


def test_offsets_are_moved_while_a_consumer_runs(
    client: Driver, server: TxnServer, topic: str, group: str
) -> None:
    """It goes back to the beginning and receives everything once more, and nothing a third time."""
    client.run("produce", topic=topic, group="P-" + group, count=COUNT)
    with client.start("consume", topic=topic, group=group, deliveries=2 * COUNT) as running:
        running.wait_for(lambda report: len(report.received) >= COUNT, "everything came once")
        time.sleep(6)  # offsets are committed every five seconds
        with Client(server.address) as admin:
            moved = admin.call(RESET, group=group, topic=topic, timestamp=0, isForce="true")
            assert moved.code == 0, moved.remark
        received = running.finish().received
    assert set(counts(received).values()) == {2}
    assert len(counts(received)) == COUNT


def test_a_broadcasting_group(newest: Driver, topic: str, group: str) -> None:
    """Each member receives everything."""
    newest.run("produce", topic=topic, group="P-" + group, count=COUNT)
    for _ in range(2):  # offsets are the member's own: another one begins anew
        run = newest.run("consume", topic=topic, group=group, deliveries=COUNT, broadcast=1)
        assert set(counts(run.received).values()) == {1}
        assert len(counts(run.received)) == COUNT


def test_the_broker_is_restarted_under_a_consumer(
    client: Driver, server: TxnServer, topic: str, group: str
) -> None:
    """Nothing that was acknowledged is missing afterwards."""
    if not isinstance(server.process, ServerProcess):
        pytest.skip("Apache's broker cannot be started again at the same address here")
    sent = client.run("produce", topic=topic, group="P-" + group, count=COUNT).sent
    with client.start("consume", topic=topic, group=group, count=2 * COUNT) as running:
        running.wait_for(lambda report: len(report.received) >= COUNT // 2, "it consumes")
        server.process.kill()
        server.process.start()
        sent += client.run("produce", topic=topic, group="P-" + group, count=COUNT).sent
        received = running.finish().received
    assert {line["msgId"] for line in received} == {line["msgId"] for line in sent}
