"""The broker's JSON files beside a store: made, and read as a starting broker reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch

from pyrmq.broker.config.broker_config import BrokerConfig, LiveConfig
from pyrmq.broker.tables import config_file
from pyrmq.broker.tables.deleted_topics import DeletedTopics
from pyrmq.broker.tables.groups import GroupTable
from pyrmq.broker.tables.offsets import OffsetTable
from pyrmq.broker.tables.persistent import PersistentTable
from pyrmq.broker.tables.topic_creation import Topics, open_topics
from pyrmq.broker.tables.topics import TopicTable
from pyrmq.engine import Store
from pyrmq.model.topic import TopicConfig
from pyrmq.net import fastjson
from tests.system.faults.bases import LONG_TOPIC
from tests.system.faults.images import Image, take

TIME = 1_700_000_000_000
CONFIG = BrokerConfig(broker_name="broker-a", broker_ip1="127.0.0.1")


def load(folder: Path, store: Store) -> list[PersistentTable]:
    """All tables. ConfigError if a file and its `.bak` cannot be read."""
    return _with(open_topics(folder / "topics.json", LiveConfig(CONFIG), store), folder)


def _with(topics: Topics, folder: Path) -> list[PersistentTable]:
    return [
        topics.table,
        topics.table.deleted,
        GroupTable(folder / "subscriptionGroup.json", LiveConfig(CONFIG)),
        OffsetTable(folder / "consumerOffset.json", 1),
    ]


def content(table: PersistentTable) -> dict[Any, Any]:
    """What a table would write now."""
    return fastjson.loads_object(b"".join(fastjson.parts(table.to_json())))


def save(tables: list[PersistentTable]) -> None:
    for table in tables:
        config_file.save(table.path, table.to_json())


def make(root: Path) -> Image:
    """The files of a broker with some topics, groups and offsets, each with its `.bak`."""
    folder = root / "config"
    with_store = Store(root / "store", commit_log_file_size=4096)
    try:
        with patch("pyrmq.broker.tables.topics.system_topics", return_value=[]):  # a small file
            opened = open_topics(folder / "topics.json", LiveConfig(CONFIG), with_store)
        topics, deleted, groups, offsets = tables = _with(opened, folder)
        assert isinstance(topics, TopicTable)
        assert isinstance(deleted, DeletedTopics)
        assert isinstance(groups, GroupTable)
        assert isinstance(offsets, OffsetTable)
        for topic, queues in (("T", 4), ("Orders", 4), ("Batch", 2), ("Wide", 16)):
            opened.creation.update(TopicConfig(topic, queues, queues))
        opened.creation.create_send_back(LONG_TOPIC, 2)
        deleted.finish({"Gone": [(0, 3), (1, 7)]})
        for group in ("G", "other"):
            with patch("pyrmq.broker.tables.groups.now_ms", return_value=TIME):
                groups.find(group)
            for queue_id in range(4):
                offsets.commit("T", group, queue_id, 5 + queue_id)
        for table in (topics, groups, offsets):
            table.version.timestamp = TIME
        for _ in range(2):
            save(tables)
    finally:
        with_store.close()
    return {f"config/{name}": content for name, content in take(folder).items()}
