"""How `python -m benches.loopback` runs a load, and what it reads of the result."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from benches.loopback.generator import generate
from benches.loopback.harness import Broker, HarnessError
from benches.loopback.idle import idle_connections
from tests.bench.lying import LyingBroker
from tests.support.scripted.script import Script
from tests.support.scripted.sockets import SocketServer
from tests.support.waiting import eventually

ONE = {"connections": 1, "in_flight": 1, "seconds": 30.0}


@contextmanager
def serving(script: Script) -> Iterator[Broker]:
    with SocketServer(script).serving() as address:
        host, _, port = address.rpartition(":")
        yield Broker(host, int(port), os.getpid(), 0.0)


def test_a_load_and_what_was_refused() -> None:
    script = LyingBroker(lambda n: "refuse" if n in (3, 4) else "store")
    with serving(script) as broker:
        found = generate("send", broker, {**ONE, "count": 20, "body": 100, "topic": "T"})
    assert {c.ext["b"] for c in script.sends} == {"T"}
    assert {len(c.body) for c in script.sends} == {100}
    assert (found["load"], found["connections"], found["in_flight"]) == ("send", 1, 1)
    assert (found["messages"], found["bytes"], found["refused"]) == (18, 1800, 2)
    assert found["first_refusal"] == "SYSTEM_BUSY: too busy"
    assert found["rate"] == pytest.approx(18 / found["seconds"])
    assert 0 < found["p50_us"] <= found["p99_us"] <= found["max_us"]
    assert found["watched_cpu_seconds"] is not None
    assert "missing" not in found


def test_what_was_lost_and_what_came_again() -> None:
    script = LyingBroker(lambda n: {3: "lose", 5: "twice"}.get(n, "store"))
    options = {**ONE, "count": 20, "queues": 1, "verify": True, "settle": 1.0}
    with serving(script) as broker:
        found = generate("send", broker, options)
    assert (found["missing"], found["repeated"]) == (1, 1)


def test_a_run_that_breaks_says_why() -> None:
    with (
        serving(LyingBroker(lambda n: "die" if n == 5 else "store")) as broker,
        pytest.raises(HarnessError, match=r"the connection to .* was lost"),
    ):
        generate("send", broker, {**ONE, "count": 20})
    with (
        serving(LyingBroker()) as broker,
        pytest.raises(HarnessError, match="--connections must be 1 to 60000"),
    ):
        generate("send", broker, {**ONE, "connections": 0})


def test_silent_connections_that_the_broker_closes_are_counted() -> None:
    server = SocketServer(LyingBroker())
    with server.serving() as address:
        host, _, port = address.rpartition(":")
        with idle_connections(Broker(host, int(port), None, 0.0), 5) as idle:
            eventually(lambda: len(server.serves) == 5, "five connections")
            assert idle.closed() == 0
            for one in list(server.serves.values())[:2]:
                one.shutdown(socket.SHUT_RDWR)
            assert eventually(idle.closed, "closed connections", until=lambda n: n >= 2) == 2
