"""Routes for the queues that the broker assigns: asked for when they are needed, and kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from pyrmq.broker.config.broker_config import BrokerConfig, LiveConfig
from pyrmq.broker.pop import routes as module
from pyrmq.broker.pop.routes import FRESH, UNKNOWN, Routes
from pyrmq.broker.tables.topic_creation import open_topics
from pyrmq.engine import Store
from pyrmq.errors import ConnectError, TopicNotExistError
from pyrmq.model.message import MessageQueue
from pyrmq.model.route import QueueData, TopicRoute
from pyrmq.model.topic import PERM_READ, PERM_WRITE, TopicConfig

RW = PERM_READ | PERM_WRITE
TWO = TopicRoute([QueueData("b", 1, 1, RW), QueueData("a", 1, 1, RW)])


class Asked:
    """Connections to name servers that answer what the test says."""

    def __init__(self) -> None:
        self.count = 0
        self.answer: Any = TWO

    async def perform(self, procedure: Any) -> Any:
        self.count += 1
        procedure.close()
        await trio.lowlevel.checkpoint()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def live(config: BrokerConfig) -> LiveConfig:
    return LiveConfig(replace(config, namesrv_addr="127.0.0.1:9876"))


@pytest.fixture
def asked() -> Asked:
    return Asked()


@pytest.fixture
def routes(tmp_path: Path, live: LiveConfig, store: Store, asked: Asked) -> Routes:
    table = open_topics(tmp_path / "topics.json", live, store).table
    table.put(TopicConfig("T", 2, 2))
    found = Routes(live, table, lambda: pytest.fail("not opened here"))
    found._channels = asked  # type: ignore[assignment]
    return found


async def test_a_route_is_asked_for_once_in_half_a_minute(
    routes: Routes, asked: Asked, autojump_clock: trio.testing.MockClock
) -> None:
    wanted = (MessageQueue("T", "a", 0), MessageQueue("T", "b", 0))
    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(routes.queues, "T")
    assert asked.count == 1
    assert await routes.queues("T") == wanted
    await trio.sleep(FRESH)
    assert await routes.queues("T") == wanted
    assert asked.count == 2


async def test_without_an_answer_what_was_known_counts(
    routes: Routes, asked: Asked, autojump_clock: trio.testing.MockClock
) -> None:
    known = await routes.queues("T")
    asked.answer = ConnectError("of the test")
    await trio.sleep(FRESH)
    assert await routes.queues("T") == known
    assert await routes.queues("U") is None
    asked.answer = TopicNotExistError("of the test")
    await trio.sleep(UNKNOWN)
    assert await routes.queues("T") is None


async def test_so_many_routes_are_kept(
    routes: Routes, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_TOPICS", 2)
    for topic in ("T", "U", "V", "V", "T"):
        await routes.queues(topic)
    assert asked.count == 4, "T has made room for V"


async def test_a_broker_without_name_servers_knows_its_own(
    routes: Routes, live: LiveConfig, asked: Asked
) -> None:
    live.change(replace(live.now, namesrv_addr=""))
    assert await routes.queues("T") == tuple(MessageQueue("T", "broker-a", q) for q in range(2))
    assert await routes.queues("NotThere") is None
    assert asked.count == 0
