"""Lists of topics and groups are one write of their file, however long they are, or nothing."""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pyrmq.broker.config.broker_config import BrokerConfig, LiveConfig
from pyrmq.broker.requests.group_admin import GroupProcessor
from pyrmq.broker.requests.queues import QueueProcessor
from pyrmq.broker.tables import config_file
from pyrmq.broker.tables.clients import ClientTable
from pyrmq.broker.tables.groups import GroupTable
from pyrmq.broker.tables.locks import QueueLocks
from pyrmq.broker.tables.new_queues import NewQueues
from pyrmq.broker.tables.offsets import OffsetTable
from pyrmq.broker.tables.topic_creation import open_topics
from pyrmq.engine import Store
from pyrmq.errors import ServiceNotAvailableError

OPERATOR: Any = SimpleNamespace(peer="127.0.0.1:1")


class World:
    def __init__(self, folder: Path, store: Store) -> None:
        config = BrokerConfig(store_path_root_dir=folder)
        opened = open_topics(folder / "topics.json", LiveConfig(config), store)
        self.topics = opened.table
        self.groups = GroupTable(folder / "subscriptionGroup.json", LiveConfig(config))
        offsets = OffsetTable(folder / "consumerOffset.json", 1)
        clients = ClientTable(lambda group: None)
        new = NewQueues(LiveConfig(config), self.topics, offsets)
        self.queue_requests = QueueProcessor(store, opened, self.groups, offsets, QueueLocks(), new)
        self.group_requests = GroupProcessor(self.groups, offsets, clients)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    store = Store(tmp_path / "store")
    yield World(tmp_path, store)
    store.close()


@pytest.fixture
def saves(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of files that are written."""
    names: list[str] = []
    save = config_file.save

    def counted(path: Path, content: Any) -> None:
        names.append(path.name)
        save(path, content)

    monkeypatch.setattr(config_file, "save", counted)
    return names


def _command(**body: Any) -> Any:
    return SimpleNamespace(ext={}, body=json.dumps(body).encode())


async def test_a_list_of_topics(world: World, saves: list[str], tmp_path: Path) -> None:
    await world.topics.save_if_changed()
    saves.clear()
    wanted = [{"topicName": f"T{n}", "readQueueNums": 2} for n in range(300)]
    await world.queue_requests.update_topics(OPERATOR, _command(topicConfigList=wanted))
    assert saves.count("topics.json") == 1
    saved = json.loads((tmp_path / "topics.json").read_text())["topicConfigTable"]
    assert saved["T0"]["readQueueNums"] == saved["T299"]["readQueueNums"] == 2
    assert all(world.topics.is_saved(f"T{n}") for n in range(300))


async def test_a_list_of_groups(world: World, saves: list[str], tmp_path: Path) -> None:
    await world.groups.save_if_changed()
    saves.clear()
    wanted = [{"groupName": f"G{n}"} for n in range(300)]
    await world.group_requests.update_list(OPERATOR, _command(groupConfigList=wanted))
    assert saves == ["subscriptionGroup.json"]
    saved = json.loads((tmp_path / "subscriptionGroup.json").read_text())
    assert {f"G{n}" for n in range(300)} <= saved["subscriptionGroupTable"].keys()


async def test_a_list_that_cannot_be_saved(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = [{"topicName": "Kept", "readQueueNums": 3, "writeQueueNums": 3}]
    await world.queue_requests.update_topics(OPERATOR, _command(topicConfigList=kept))
    groups = [{"groupName": "Kept", "retryMaxTimes": 3}]
    await world.group_requests.update_list(OPERATOR, _command(groupConfigList=groups))

    def full(path: Path, content: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(config_file, "save", full)
    topics = [{"topicName": "New"}, {"topicName": "Kept", "readQueueNums": 5}]
    with pytest.raises(ServiceNotAvailableError, match="2 topics cannot be saved: No space left"):
        await world.queue_requests.update_topics(OPERATOR, _command(topicConfigList=topics))
    assert world.topics.get("New") is None
    assert world.topics.require("Kept").read_queue_nums == 3
    groups = [{"groupName": "New"}, {"groupName": "Kept", "retryMaxTimes": 9}]
    with pytest.raises(ServiceNotAvailableError, match="2 groups cannot be saved"):
        await world.group_requests.update_list(OPERATOR, _command(groupConfigList=groups))
    assert "New" not in world.groups.groups
    assert world.groups.groups["Kept"].values["retryMaxTimes"] == 3
