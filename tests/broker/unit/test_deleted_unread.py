"""What retention deletes before groups consume it; what a topic with fewer queues still has."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing

from pyrmq.broker.config.broker_config import BrokerConfig, LiveConfig
from pyrmq.broker.stats.consume_stats import ConsumeStatsProcessor
from pyrmq.broker.tables import deleted_unread
from pyrmq.broker.tables.clients import ClientTable
from pyrmq.broker.tables.deleted_unread import DeletedUnread
from pyrmq.broker.tables.groups import GroupTable
from pyrmq.broker.tables.offsets import OffsetTable
from pyrmq.broker.tables.topic_creation import open_topics
from pyrmq.engine import Store
from pyrmq.model.topic import TopicConfig
from pyrmq.net import fastjson
from tests.support.waiting import eventually

FILE = 16_384
HOUR = 3_600_000
FAR = 10**14
"""A time at which every file is old."""


class World:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = Store(
            folder / "store", commit_log_file_size=FILE, sync_flush=True, file_reserved_time=HOUR
        )
        config = BrokerConfig(store_path_root_dir=folder)
        opened = open_topics(folder / "topics.json", LiveConfig(config), self.store)
        self.topics, self.creation = opened.table, opened.creation
        self.offsets = OffsetTable(folder / "consumerOffset.json", 1)
        self.clients = ClientTable(lambda group: None)
        self.unread = DeletedUnread(self.store, self.topics, self.offsets)
        stats: Any = SimpleNamespace(get_tps=lambda *_: 0.0, put_tps=lambda _: 0.0)
        self.asked = ConsumeStatsProcessor(
            "b", ("127.0.0.1", 1), self.store, self.topics,
            GroupTable(folder / "groups.json", LiveConfig(config)), self.clients, self.offsets,
            stats, self.unread,
        )  # fmt: skip

    def fill(self, count: int, queue: int = 0, topic: str = "T") -> None:
        for _ in range(count):
            self.store.put(topic, queue, b"x" * 3_000)
        end = self.store.stats()["maxPhyOffset"]
        eventually(lambda: self.store.confirmed() >= end, "all is flushed, and so visible")

    def delete(self) -> int:
        """Deletes all files of the log but the last; how many messages went."""
        low = self.store.queue_range("T", 0)[0]
        self.store.clean(FAR, True)
        return self.store.queue_range("T", 0)[0] - low

    async def progress(self, group: str) -> tuple[dict[Any, Any], dict[int, Any]]:
        command: Any = SimpleNamespace(ext={"consumerGroup": group}, body=b"")
        answer = await self.asked.consume_stats(SimpleNamespace(), command)  # type: ignore[arg-type]
        found = fastjson.loads_object(answer.body)
        return found, {dict(key)["queueId"]: row for key, row in found["offsetTable"].items()}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    made.creation.update(TopicConfig("T", 4, 4))
    yield made
    made.store.close()


async def test_only_what_a_group_had_not_read_is_counted_and_once(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    await world.topics.saved("T")
    world.fill(40)
    world.offsets.commit("T", "behind", 0, 3)
    world.offsets.commit("T", "ready", 0, 40)
    world.offsets.commit("T", "CID_RMQ_SYS_TRANS_X", 0, 0)
    caplog.set_level(logging.ERROR, deleted_unread.log.name)
    assert world.delete() > 3
    low = world.store.queue_range("T", 0)[0]
    await world.unread.look()
    await world.unread.look()
    assert world.unread.of_group("behind") == world.unread.total == low - 3
    assert world.unread.of_group("ready") == 0
    assert [r.getMessage() for r in caplog.records] == [
        f"group behind lost {low - 3} messages of topic T: "
        "they were deleted before it consumed them"
    ]
    found, rows = await world.progress("behind")
    assert found["deletedUnread"] == low - 3
    assert rows[0]["minOffset"] == low
    world.fill(40)
    world.offsets.commit("T", "behind", 0, low + 1)
    world.delete()
    await world.unread.look()
    new = world.store.queue_range("T", 0)[0]
    assert world.unread.of_group("behind") == low - 3 + (new - low - 1)


async def test_it_looks_by_itself_when_the_log_begins_later(
    world: World, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    await world.topics.saved("T")
    world.fill(20)
    world.delete()
    world.offsets.commit("T", "old", 0, 0)  # what was deleted before the start is not counted
    world.fill(20)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.unread.run)
        await trio.sleep(100)
        assert world.unread.total == 0
        world.delete()
        gone = world.store.queue_range("T", 0)[0]
        await trio.sleep(100)
        nursery.cancel_scope.cancel()
    assert 0 < world.unread.total < gone


def test_many_groups_are_told_in_few_lines(
    world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deleted_unread, "MOST_LINES", 2)
    caplog.set_level(logging.ERROR, deleted_unread.log.name)
    world.unread._tell({("T", f"g{n}"): n + 1 for n in range(5)})
    lines = [r.getMessage() for r in caplog.records]
    assert [line.split(" ")[1] for line in lines[:2]] == ["g4", "g3"]
    assert lines[2] == "3 more groups of topics lost 6 messages in the same way"
    assert world.unread.total == 15


async def test_queues_that_a_topic_has_no_more_count(world: World) -> None:
    await world.topics.saved("T")
    for queue, count in enumerate((1, 2, 3, 4)):
        world.fill(count, queue)
        world.offsets.commit("T", "G", queue, 0)
    await world.creation.change(TopicConfig("T", 2, 2))
    _, rows = await world.progress("G")
    assert {q: row["brokerOffset"] for q, row in rows.items()} == {0: 1, 1: 2, 2: 3, 3: 4}
    world.offsets.commit("T", "G", 3, 4)
    _, rows = await world.progress("G")
    assert sorted(rows) == [0, 1, 2]
    command: Any = SimpleNamespace(ext={"topic": "T"}, body=b"")
    answer = await world.asked.topic_stats(SimpleNamespace(), command)  # type: ignore[arg-type]
    table = fastjson.loads_object(answer.body)["offsetTable"]
    assert sorted(dict(key)["queueId"] for key in table) == [0, 1, 2, 3]
    # After a start it is known by what is stored.
    await world.topics.save_if_changed()
    again = open_topics(
        world.topics.path,
        LiveConfig(BrokerConfig(store_path_root_dir=world.folder)),
        world.store,
    )
    assert again.table.queues_of(again.table.require("T")) == 4
    await again.creation.change(TopicConfig("T", 6, 6))
    assert again.table.queues_of(again.table.require("T")) == 6
