"""A slave of either make under a master of the other: the same log, the same messages.

Apache's slave reports first once 5 s have passed, and syncs its tables once a minute.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from pyrmq import Message, sync
from tests.support import ports
from tests.support.client import Client
from tests.system.ha.processes import Node, eventually

from .store import peer

FILE = 1 << 20
CONF = (
    f"mappedFileSizeCommitLog={FILE}\nslaveReadEnable=true\nmappedFileSizeConsumeQueue=20000\n"
    "autoCreateTopicEnable=true\n"
)
OWN = {
    "brokerName": "broker-a",
    "mappedFileSizeCommitLog": FILE,
    "mappedFileSizeConsumeQueue": 20_000,
}
FOLLOWS = 60.0
"""Seconds that a slave may take."""


@pytest.fixture(scope="module")
def namesrv(home: Path) -> Iterator[str]:
    with peer.NameServer(home / "namesrv-ha") as server:
        yield server.address


def send_all_kinds(namesrv: str, count: int) -> int:
    """Sends so many messages that files roll; how many are in the topic T."""
    with sync.Producer("senders", namesrv=namesrv) as producer:
        for n in range(count):
            producer.send(Message("T", b"%d" % n + b"x" * 2000, tags="A", keys=f"k{n}"))
        producer.send_batch([Message("T", b"batch-%d" % n) for n in range(20)])
        producer.send(Message("Later", b"later", delay_time_level=1))
    return count + 20


def log_of(store: Path, end: int) -> dict[str, bytes]:
    """The files of a log up to a physical offset."""
    return {
        path.name: path.read_bytes()[: end - int(path.name)]
        for path in sorted((store / "commitlog").iterdir())
        if path.name.isdecimal() and int(path.name) < end
    }


def ha_end(address: tuple[str, int]) -> int:
    import json

    with Client(address) as client:
        status = json.loads(client.call(907).body)
    if status["master"]:
        return int(status["masterCommitLogMaxOffset"])
    return int(status["haClientRuntimeInfo"]["maxOffset"])


def count_of(address: tuple[str, int], topic: str, queues: int) -> int:
    with Client(address) as client:
        total = 0
        for queue in range(queues):
            end = client.max_offset(topic, queue)
            total += len(client.pull_all(topic, queue, 0, end))
    return total


def test_ours_under_apaches_master(home: Path, namesrv: str, tmp_path: Path) -> None:
    store = tmp_path / "apache"
    broker = peer.RealBroker(store, namesrv, CONF, home=home / "master-apache")
    with broker, closing(_Ending(Node(tmp_path / "ours", namesrv, **OWN, **_slave()))) as ours:
        slave = ours.node.start()
        sent = send_all_kinds(namesrv, 1200)
        eventually(
            lambda: slave.end_of_log() == ha_end(broker.address) > 2 * FILE, FOLLOWS, slave.stderr
        )
        slave.stop()
        sent += send_all_kinds(namesrv, 300)
        slave.start()
        eventually(lambda: slave.end_of_log() == ha_end(broker.address), FOLLOWS, slave.stderr)
        end = slave.end_of_log()
        assert log_of(slave.store, end) == log_of(store, end)
        with Client(slave.address) as client:
            eventually(lambda: b'"T"' in client.call(21).body, FOLLOWS, slave.stderr)
        assert count_of(slave.address, "T", 8) == sent
        assert count_of(broker.address, "T", 8) == sent


@pytest.mark.thorough("Apache's slave waits for 5 s, and syncs its tables once a minute")
def test_apaches_slave_under_ours(home: Path, namesrv: str, tmp_path: Path) -> None:
    store = tmp_path / "apache"
    # With a port of its own it has a VIP port, at which Apache's slave asks for topics.
    own = {**OWN, "listenPort": ports.free_port_triple()}
    with closing(_Ending(Node(tmp_path / "ours", namesrv, **own))) as ours:
        master = ours.node.start()
        conf = CONF + "brokerRole=SLAVE\nbrokerId=1\n"
        sent = send_all_kinds(namesrv, 10)
        with peer.RealBroker(store, namesrv, conf, home=home / "slave-apache") as broker:
            eventually(
                lambda: ha_end(broker.address) == master.end_of_log(), FOLLOWS, master.stderr
            )
            sent += send_all_kinds(namesrv, 1500)
            eventually(
                lambda: ha_end(broker.address) == master.end_of_log(), FOLLOWS, master.stderr
            )
            end = master.end_of_log()
            assert end > 2 * FILE
            assert log_of(store, end) == log_of(master.store, end)
            (row,) = master.status()["haConnectionInfo"]
            assert row["inSync"] is True
            eventually(lambda: master.status()["haConnectionInfo"][0]["slaveAckOffset"] == end)
            with Client(broker.address) as client:
                eventually(lambda: b'"T"' in client.call(21).body, 90, broker.state)
            eventually(lambda: count_of(broker.address, "T", 4) == sent, FOLLOWS, broker.state)


def _slave() -> dict[str, object]:
    return {"brokerRole": "SLAVE", "brokerId": 1}


class _Ending:
    def __init__(self, node: Node) -> None:
        self.node = node

    def close(self) -> None:
        self.node.end()
