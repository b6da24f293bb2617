"""Which queues are new to a group that has offsets in others of their topic."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pyrmq.broker.config.broker_config import BrokerConfig, LiveConfig
from pyrmq.broker.tables import new_queues
from pyrmq.broker.tables.new_queues import YOUNG, NewQueues
from pyrmq.broker.tables.offsets import OffsetTable
from pyrmq.broker.tables.topic_creation import open_topics
from pyrmq.engine import Store
from pyrmq.model.topic import TopicConfig


class World:
    def __init__(self, folder: Path, config: BrokerConfig, store: Store) -> None:
        self.now = 1000.0
        self.live = LiveConfig(config)
        opened = open_topics(folder / "topics.json", LiveConfig(config), store)
        self.topics, self.creation = opened.table, opened.creation
        self.offsets = OffsetTable(folder / "consumerOffset.json", 1)
        self.new = NewQueues(self.live, self.topics, self.offsets, lambda: self.now)
        self.resize(4)

    def resize(self, queues: int) -> None:
        self.creation.update(TopicConfig("T", queues, queues))


@pytest.fixture
def world(tmp_path: Path, config: BrokerConfig, store: Store) -> World:
    return World(tmp_path, config, store)


def test_a_group_without_offsets_is_new_itself(world: World) -> None:
    world.offsets.commit("U", "g", 0, 5)
    world.offsets.commit("T", "other", 0, 5)
    world.now += 2 * YOUNG
    assert not world.new.is_new("T", "g", 0)


def test_members_of_a_new_group_start_one_after_the_other(world: World) -> None:
    """What the first of them has written makes no queue new to the others."""
    world.offsets.commit("T", "g", 0, 5)
    world.now += YOUNG
    assert not world.new.is_new("T", "g", 1)
    world.now += 0.1
    assert world.new.is_new("T", "g", 1)


def test_a_topic_that_grows_has_new_queues_at_once(world: World) -> None:
    world.offsets.commit("T", "g", 0, 5)
    world.resize(8)
    assert [world.new.is_new("T", "g", n) for n in (1, 3, 4, 7)] == [False, False, True, True]


def test_offsets_of_before_the_start_and_of_operators(
    world: World, tmp_path: Path, config: BrokerConfig, store: Store
) -> None:
    world.offsets.reset("T", "set", 0, 5)
    assert world.new.is_new("T", "set", 1)
    (tmp_path / "again").mkdir()
    (tmp_path / "again" / "consumerOffset.json").write_text('{"offsetTable":{"T@g":{0:5}}}')
    again = World(tmp_path / "again", config, store)
    assert again.new.is_new("T", "g", 1)


def test_apaches_way_and_slaves(world: World, config: BrokerConfig) -> None:
    world.offsets.reset("T", "g", 0, 5)
    assert world.new.is_new("T", "g", 1)
    for other in (
        replace(config, new_queues_from_first_message=False),
        replace(config, broker_role="SLAVE", broker_id=1),
    ):
        world.live.now = other
        assert not world.new.is_new("T", "g", 1)


def test_what_is_remembered_is_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(new_queues, "MAX_YOUNG", 10)
    for n in range(100):
        world.offsets.commit("T", f"g{n}", 0, 5)
    assert len(world.new._young) == 10
    assert not world.new.is_new("T", "g99", 1)
    world.now += 2 * YOUNG
    world.offsets.commit("T", "last", 0, 5)
    assert len(world.new._young) == 1
