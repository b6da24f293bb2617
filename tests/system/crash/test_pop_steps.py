"""Kill -9 at each step of a popped message: behind its check point, behind its ack, behind its
revival. What was acknowledged comes no more, anything else comes again, once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker.e2e.test_requests import create_topic
from tests.support.client import Client
from tests.support.popping import PoppedMessage, ack, pop
from tests.support.server import ServerProcess
from tests.support.waiting import eventually

TOPIC, GROUP = "Popped", "CG_pop"
RETRY = f"%RETRY%{GROUP}_{TOPIC}"
SOON = 2000
"""Invisible time, ms, of what is to be revived; a broker needs some seconds more."""


@pytest.fixture(params=["ASYNC_FLUSH", "SYNC_FLUSH"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path / "store", flush=request.param) as server:
        with Client(server.broker) as client:
            create_topic(client, TOPIC, 1)
            for i in range(4):
                client.send(TOPIC, b"m%d" % i)
        yield server


def kill(server: ServerProcess) -> None:
    server.kill()
    server.start()


def taken(client: Client, **change: object) -> list[PoppedMessage]:
    return sorted(pop(client, TOPIC, GROUP, **change), key=lambda m: m.record.body)


def bodies(messages: list[PoppedMessage]) -> list[bytes]:
    return [m.body for m in messages]


def come_again(client: Client, many: int) -> list[PoppedMessage]:
    eventually(
        lambda: client.max_offset(RETRY, 0), "they are revived", 60, until=lambda n: n >= many
    )
    return taken(client)


def test_killed_behind_the_check_point_and_behind_acks(server: ServerProcess) -> None:
    with Client(server.broker) as client:
        popped = taken(client, invisibleTime=SOON)
        assert bodies(popped) == [b"m0", b"m1", b"m2", b"m3"]
    kill(server)
    with Client(server.broker) as client:
        assert taken(client) == [], "they are invisible, and the offset is behind them"
        ack(client, popped[1], GROUP)
        ack(client, popped[3], GROUP)
    kill(server)
    with Client(server.broker) as client:
        assert bodies(come_again(client, 2)) == [b"m0", b"m2"]


def test_killed_behind_the_revival(server: ServerProcess) -> None:
    with Client(server.broker) as client:
        popped = taken(client, invisibleTime=SOON)
        ack(client, popped[0], GROUP)
        again = come_again(client, 3)
    kill(server)  # before its progress is in a file
    with Client(server.broker) as client:
        assert taken(client) == []
        for message in again:
            ack(client, message, GROUP)
        client.send(TOPIC, b"last")
        assert bodies(taken(client, invisibleTime=SOON)) == [b"last"]
        assert bodies(come_again(client, 4)) == [b"last"]
    kill(server)
    with Client(server.broker) as client:
        assert client.max_offset(RETRY, 0) == 4
        assert taken(client) == []
