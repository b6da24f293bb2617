"""How long it takes to make topics and groups, by a clock that stands still otherwise."""

from __future__ import annotations

from typing import Any, cast

import pytest

from pyrmq.broker.stats.create_times import BOUNDS_MS, CreateTimes
from pyrmq.engine import Command
from pyrmq.errors import InvalidParameterError
from pyrmq.net.command import Response
from pyrmq.net.server.connection import Connection


class World:
    def __init__(self) -> None:
        self.now = 0.0
        self.took = 0.0
        self.error: Exception | None = None
        self.times = CreateTimes(lambda: self.now)

    async def change(self, connection: Connection, command: Command) -> Response:
        self.now += self.took
        if self.error is not None:
            raise self.error
        return Response()

    async def ask(self, change: Any, topic: str = "T") -> None:
        command = cast(Command, type("Asked", (), {"ext": {"topic": topic}}))
        await change(cast(Connection, None), command)


async def test_topics_by_outcome_and_kind() -> None:
    world = World()
    change = world.times.of_topic(world.change, lambda topic: topic == "SYS")
    for world.took in (0.010, 0.0101, 6.0):
        await world.ask(change)
    await world.ask(change, "SYS")
    world.error = InvalidParameterError("no")
    with pytest.raises(InvalidParameterError):
        await world.ask(change)
    assert {key: row.counts for key, row in world.times.topics.items()} == {
        (True, False): [1, 1, 0, 0, 0, 1],
        (True, True): [0, 0, 0, 0, 0, 1],
        (False, False): [0, 0, 0, 0, 0, 1],
    }
    assert world.times.topics[True, False].row[1] == pytest.approx(6020.1)
    assert world.times.groups == {}


async def test_groups_by_outcome() -> None:
    world = World()
    change = world.times.of_group(world.change)
    world.took = BOUNDS_MS[-1] / 1000
    await world.ask(change)
    world.error = OSError("no")
    with pytest.raises(OSError, match="no"):
        await world.ask(change)
    assert {key: row.counts for key, row in world.times.groups.items()} == {
        True: [0, 0, 0, 0, 1, 0],
        False: [0, 0, 0, 0, 1, 0],
    }
