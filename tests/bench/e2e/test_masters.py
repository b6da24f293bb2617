"""A cluster of several masters, and a broker that is killed."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from pyrmq.bench.options import Options
from pyrmq.bench.peers.peer import free_ports
from pyrmq.bench.result import Result
from pyrmq.bench.run import run
from tests.support.client import GET_MAX_OFFSET, Client


@dataclass
class Cluster:
    namesrv: str
    brokers: dict[str, tuple[str, int]]
    """Address and process of each."""

    def ends(self, topic: str, queues: int) -> dict[str, list[int]]:
        """Where the queues of each broker end."""
        found = {}
        for name, (address, _) in self.brokers.items():
            host, _, port = address.rpartition(":")
            with Client((host, int(port))) as client:
                found[name] = [
                    int(client.call(GET_MAX_OFFSET, topic=topic, queueId=q).ext["offset"])
                    for q in range(queues)
                ]
        return found

    def load(self, load: str, topic: str, **options: Any) -> Result:
        return run(Options(load, namesrv=self.namesrv, topic=topic, queues=3, **options))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    store = tmp_path_factory.mktemp("masters")
    words = [sys.executable, "-m", "pyrmq", "server", "--brokers", "2", "--namesrv-port", "0"]
    # A broker that comes back has to have its port again: none that any process may be given.
    port = free_ports(-2, 1, 8, 10, 11)
    words += ["--broker-port", str(port), "--store", str(store), "--log-level", "error"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        brokers = {}
        for line in server.stdout:
            if broker := re.match(r"(\S+): ready broker=(\S+) .*pid=(\d+)", line):
                brokers[broker[1]] = broker[2], int(broker[3])
            elif ready := re.match(r"ready namesrv=(\S+)", line):
                break
        else:
            raise AssertionError("the servers did not start")
        yield Cluster(ready[1], brokers)
        server.send_signal(signal.SIGTERM)
        server.stdout.read()


@pytest.mark.parametrize("load", ["send", "batch", "oneway", "transaction", "latency", "delay"])
def test_all_masters_get_and_give_messages(cluster: Cluster, load: str) -> None:
    found = cluster.load(load, f"All{load}", count=960, verify=True, connections=2)
    assert found.verify is not None
    assert (found.verify.sent, found.verify.received) == (960, 960)
    assert (found.verify.lost, found.verify.twice, found.errors) == (0, 0, [])
    for name, ends in cluster.ends(f"All{load}", 3).items():
        assert min(ends) > 0, name
    # One connection is too few for two brokers: there is one to each.
    read = cluster.load("push", f"All{load}", count=960, from_start=True, connections=1)
    assert (read.messages, read.connections.wanted) == (960, 2)
    read = cluster.load("pull", f"All{load}", count=2000, connections=1, in_flight=1)
    assert (read.messages >= 2000, read.connections.wanted) == (True, 2)


def test_a_rate_is_spread_by_queues_however_connections_divide(cluster: Cluster) -> None:
    found = cluster.load("send", "Spread", rate=2000.0, count=1200, connections=3)
    assert (found.messages, found.warnings.count("Use a multiple")) == (1200, 0)
    first, second = (sum(ends) for ends in cluster.ends("Spread", 3).values())
    assert first + second == 1200
    # By connections it would be 800 and 400.
    assert abs(first - second) < 200
    found = cluster.load("send", "Spread", count=100, connections=3)
    assert any("Use a multiple" in warning for warning in found.warnings)


def test_more_connections_than_queues_are_told(cluster: Cluster) -> None:
    cluster.load("send", "Few", count=60)
    found = cluster.load("push", "Few", count=60, from_start=True, connections=20)
    assert found.connections.wanted == 6
    assert any("Only 6 of 20 connections" in warning for warning in found.warnings)


def test_every_answer_is_kept_though_a_broker_is_killed(cluster: Cluster) -> None:
    """`--verify` tells what is stored from what has no answer. The broker comes back by itself."""
    killed: list[int] = []

    def kill(snapshot: dict[str, Any]) -> None:
        if not killed and snapshot["produced"]:
            pid = next(iter(cluster.brokers.values()))[1]
            killed.append(pid)
            subprocess.run(["kill", "-9", str(pid)], check=True)

    options = Options("send", namesrv=cluster.namesrv, topic="Killed", queues=3)
    options.rate, options.duration, options.verify = 1000.0, 5.0, True
    found = run(options, kill)
    v = found.verify
    assert v is not None
    assert killed
    assert v.sent == v.acknowledged + v.unknown
    assert (v.lost, v.twice, v.refused_received) == (0, 0, 0)
    assert v.received == v.acknowledged + v.unknown_received
    assert found.connections.lost >= 1
    assert found.connections.reconnected >= 1
    assert found.latency["request"].count >= v.sent - v.unknown
