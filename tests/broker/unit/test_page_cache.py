"""pageCacheDropBehind, on a store of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pyrmq.broker.housekeeping import PageCache
from pyrmq.broker.tables.offsets import OffsetTable
from pyrmq.engine import Store
from tests.support.waiting import eventually

FILE = 1 << 20
BODY = 10_000
PER_FILE = 103
"""Messages in a file of the log."""


class World:
    def __init__(self, root: Path) -> None:
        self.store = Store(root, commit_log_file_size=FILE, flush_interval_commit_log=10)
        self.store.set_topic("T", read_queues=2, write_queues=2)
        self.offsets = OffsetTable(root / "offsets.json", 1)
        self.clients: Any = SimpleNamespace(consumers={"live": object()})
        self.cache = PageCache(self.store, self.offsets, self.clients)

    def fill(self, files: int) -> None:
        for n in range(files * PER_FILE + 10):
            self.store.put("T", n % 2, bytes(BODY))
        end = self.store.stats()["maxPhyOffset"]
        eventually(lambda: self.store.stats()["flushedWhere"] == end, "all is on disk")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.store.close()


async def test_files_behind_all_connected_consumers_are_given_up_once(world: World) -> None:
    world.fill(3)
    world.offsets.keep("T", "live", 0, PER_FILE // 2 + 5)
    world.offsets.keep("T", "live", 1, 10**9)
    world.offsets.keep("T", "gone", 0, 0)
    assert await world.cache.drop() == 1, "the second file is being read"
    assert await world.cache.drop() == 0
    world.offsets.keep("T", "live", 0, 10**9)
    assert await world.cache.drop() == 2, "all but the last one, which is not full"
    got = world.store.get("T", 0, 0)
    assert got.count > 0
    assert bytes(got.slices[0])[-BODY:-1].count(0) > BODY // 2, "it is read again"


async def test_nobody_reads(world: World) -> None:
    world.fill(1)
    world.clients.consumers.clear()
    assert await world.cache.drop() == 1


async def test_many_offsets_are_looked_up_some_at_a_time(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyrmq.broker.housekeeping.OFFSETS_AT_ONCE", 4)
    world.fill(1)
    for n in range(9):
        world.offsets.keep("T", "live", n, 10**9)
        world.offsets.keep(f"T{n}", "live", 0, 0)
    assert sum(map(len, world.cache._next_offsets())) == 18
    assert max(map(len, world.cache._next_offsets())) <= 4 + 9
    world.offsets.keep("T", "live", 1, 0)
    assert await world.cache.drop() == 0
