"""What a broker does for very many groups is done in turns: other tasks run in between."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from pyrmq.broker.broker import Broker
from pyrmq.broker.housekeeping import LOOK
from pyrmq.broker.requests.client_manage import SMALL, ClientManageProcessor
from pyrmq.broker.tables.clients import Client
from pyrmq.net.command import Response
from pyrmq.net.server import turns
from pyrmq.net.server.answers import InTurns
from tests.support.build import FakeConnection
from tests.support.fixtures import Serve

pytestmark = pytest.mark.usefixtures("deadline")

MANY = 1000
"""Groups. A client may have 1024."""


class Others:
    """How often other tasks have run."""

    def __init__(self) -> None:
        self.turns = 0

    async def count(self) -> None:
        while True:
            self.turns += 1
            await trio.lowlevel.checkpoint()


@asynccontextmanager
async def others() -> AsyncIterator[Others]:
    found = Others()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(found.count)
        yield found
        nursery.cancel_scope.cancel()


async def turns_of(work: Callable[[], Awaitable[Any]]) -> int:
    """How often other tasks run while this works."""
    async with others() as found:
        before = found.turns
        await work()
        return found.turns - before


@pytest.fixture(autouse=True)
def short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turns end at once: so the number of turns is that of the places where they may end."""
    monkeypatch.setattr(turns, "TURN_SECONDS", 0.0)


@pytest.fixture
async def broker(serve: Serve) -> AsyncIterator[Broker]:
    async with serve(auto_created_group_expire_time=1) as server:
        yield server.broker


class Member(FakeConnection):
    """A connection that takes notices."""

    def __init__(self) -> None:
        super().__init__()
        self.out: list[bytes] = []

    def send(self, frame: bytes) -> None:
        self.out.append(frame)


class Heartbeats:
    """The processor of a broker, and requests of one connection."""

    def __init__(self, broker: Broker) -> None:
        tables = broker.parts.tables
        self.clients = tables.clients
        self.processor = ClientManageProcessor(
            broker.live, tables.topics, tables.groups, tables.clients
        )
        self.connection: Any = Member()

    def beat(self, groups: int) -> Response | InTurns:
        rows = [
            {"groupName": f"G{n}", "subscriptionDataSet": [{"topic": "T", "subString": "*"}]}
            for n in range(groups)
        ]
        body = json.dumps({"clientID": "c", "consumerDataSet": rows, "producerDataSet": []})
        return self.processor.heartbeat(self.connection, _command(body.encode()))

    def leave(self, group: str) -> Response | InTurns:
        command = _command(b"", clientID="c", consumerGroup=group)
        return self.processor.unregister(self.connection, command)


def _command(body: bytes, **ext: str) -> Any:
    return SimpleNamespace(body=body, ext=ext, language=0, version=1)


@pytest.fixture
def heartbeats(broker: Broker) -> Heartbeats:
    return Heartbeats(broker)


def in_turns(answer: Response | InTurns) -> InTurns:
    assert isinstance(answer, InTurns)
    return answer


async def test_a_small_heartbeat_is_answered_at_once(heartbeats: Heartbeats) -> None:
    answer = heartbeats.beat(3)
    assert isinstance(answer, Response)
    assert len(heartbeats.clients.consumers) == 3


async def test_a_large_heartbeat_lets_others_run(heartbeats: Heartbeats) -> None:
    answer = in_turns(heartbeats.beat(MANY))
    assert not heartbeats.clients.consumers, "nothing is done before its turn"

    async def work() -> None:
        assert await answer.answer == Response(
            ext={"IS_SUPPORT_HEART_BEAT_V2": True, "IS_SUB_CHANGE": True}
        )

    assert await turns_of(work) >= MANY, "one turn for each group"
    assert len(heartbeats.clients.consumers) == MANY
    assert heartbeats.connection.on_close, "it is told when the connection closes"


async def test_a_refused_one_raises_in_its_turn(heartbeats: Heartbeats) -> None:
    body = b" " * SMALL + b'{"clientID": 1}'
    answer = in_turns(heartbeats.processor.heartbeat(heartbeats.connection, _command(body)))
    with pytest.raises(Exception, match="clientID is needed"):
        await answer.answer
    assert isinstance(heartbeats.beat(1), Response), "it is over"


async def test_who_leaves_meanwhile_has_left_behind_it(heartbeats: Heartbeats) -> None:
    first = in_turns(heartbeats.beat(MANY))
    async with trio.open_nursery() as nursery:

        async def run(answer: InTurns) -> None:
            await answer.answer

        nursery.start_soon(run, first)
        while not heartbeats.clients.consumers:
            await trio.lowlevel.checkpoint()
        left = in_turns(heartbeats.leave(f"G{MANY - 1}"))
        again = in_turns(heartbeats.beat(1))
        nursery.start_soon(run, left)
        nursery.start_soon(run, again)
    assert len(heartbeats.clients.consumers) == MANY - 1
    assert isinstance(heartbeats.leave("G0"), Response), "nothing is in turns any more"


async def test_a_connection_that_closes_meanwhile_has_no_groups(heartbeats: Heartbeats) -> None:
    answer = in_turns(heartbeats.beat(MANY))
    async with trio.open_nursery() as nursery:

        async def run() -> None:
            await answer.answer

        nursery.start_soon(run)
        while len(heartbeats.clients.consumers) < 10:
            await trio.lowlevel.checkpoint()
        heartbeats.connection.close()
    assert not heartbeats.clients.consumers
    assert not heartbeats.clients.groups_of(heartbeats.connection)


async def test_a_look_for_silent_clients(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    keeping, clients = broker.parts.housekeeping, broker.parts.tables.clients
    closed: list[Any] = []

    def close(connection: Any) -> None:
        closed.append(connection)
        connection.close()

    monkeypatch.setattr(keeping, "_close", close)
    silent: Any = Member()
    alive: Any = Member()
    for n in range(MANY):
        clients.register_producer(f"P{n}", alive, Client("a", 0, 1, trio.current_time()))
    for seen, who in ((-(10.0**6), silent), (trio.current_time(), alive)):
        for n in range(MANY):
            clients.register_consumer(
                {"groupName": f"G{n}"}, who, Client("x", 0, 1, seen),
                notify=False, keep_subscriptions=False,
            )  # fmt: skip
    assert await turns_of(keeping.expire_clients) >= 2 * MANY // LOOK
    assert closed == [silent], "once, although it is in all groups"
    assert all(list(group.clients) == [alive] for group in clients.consumers.values())


async def test_groups_that_nobody_uses(broker: Broker) -> None:
    groups = broker.parts.tables.groups
    for n in range(MANY):
        groups.require(f"G{n}")
        groups.require(f"G{n}")
    for name in groups.auto_created():
        groups._set_used(name, 0)
    assert await turns_of(groups.note_used) >= MANY // LOOK, "they were asked for just now"
    for name in groups.auto_created():
        groups._set_used(name, 0)
    assert await turns_of(broker.parts.housekeeping.expire_groups) >= MANY // LOOK
    assert not groups.auto_created()


async def test_rows_that_the_garbage_collector_is_told_of(broker: Broker) -> None:
    tables, before = broker.parts.tables, broker.rows()
    tables.groups.require("G")
    tables.topics.creation.create_send_back("T", 1)
    tables.offsets.keep("T", "G", 0, 5)
    assert broker.rows() == before + 3
