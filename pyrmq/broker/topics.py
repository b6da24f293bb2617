"""The broker's topics: config/topics.json, auto-creation, system topics. [TopicConfigManager]"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyrmq.broker import config_file
from pyrmq.broker.config import BrokerConfig
from pyrmq.broker.rows import Rows
from pyrmq.broker.tables import PersistentTable
from pyrmq.broker.topic_attributes import changed
from pyrmq.engine import Store
from pyrmq.errors import InvalidParameterError, NoPermissionError, TopicNotExistError
from pyrmq.escape import escape
from pyrmq.model.names import (
    AUTO_CREATE_TOPIC,
    HALF_TOPIC,
    NO_SEND_TOPICS,
    OP_TOPIC,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    TRACE_TOPIC,
    check_topic,
    is_system_topic,
)
from pyrmq.model.topic import (
    MAX_QUEUES,
    MULTI_TAG,
    PERM_INHERIT,
    PERM_READ,
    PERM_WRITE,
    DataVersion,
    TopicConfig,
)
from pyrmq.net.clock import now_ms

log = logging.getLogger(__name__)

MAX_AUTO_TOPICS = 20_000
"""Topics after which clients make no more by sending; an operator still can."""
_RW = PERM_READ | PERM_WRITE


def _system_topics(config: BrokerConfig) -> list[TopicConfig]:
    cluster, name = config.broker_cluster_name, config.broker_name
    cluster_perm = PERM_INHERIT | (_RW if config.cluster_topic_enable else 0)
    broker_perm = PERM_INHERIT | (_RW if config.broker_topic_enable else 0)
    rows = [
        ("SELF_TEST_TOPIC", 1, _RW),
        ("BenchmarkTest", 1024, _RW),
        (cluster, 16, cluster_perm),
        (name, 1, broker_perm),
        ("OFFSET_MOVED_EVENT", 1, _RW),
        (SCHEDULE_TOPIC, len(config.delay_levels), _RW),
        (f"{cluster}_REPLY_TOPIC", 1, _RW),
        (f"rmq_sys_REVIVE_LOG_{cluster}", 8, _RW),
        (f"rmq_sys_SYNC_BROKER_MEMBER_{name}", 1, PERM_INHERIT),
        (HALF_TOPIC, 1, _RW),
        (OP_TOPIC, 1, _RW),
        ("rmq_sys_wheel_timer", 1, _RW),
    ]
    if config.auto_create_topic_enable:
        rows.append((AUTO_CREATE_TOPIC, config.default_topic_queue_nums, _RW | PERM_INHERIT))
    if config.trace_topic_enable:
        rows.append((config.msg_trace_topic_name, 1, _RW))
    return [TopicConfig(topic, n, n, perm) for topic, n, perm in rows]


class TopicTable(PersistentTable):
    """All topics of this broker. The engine's send path knows those that are in the file."""

    def __init__(self, path: Path, config: BrokerConfig, store: Store) -> None:
        super().__init__(path)
        self.topics: dict[str, TopicConfig] = {}
        self.version = DataVersion(timestamp=now_ms())
        self._config = config
        self._store = store
        self._watchers: list[Callable[[], None]] = []
        self.tell_first: Callable[[], Awaitable[None]] | None = None
        """Waits until name servers know of new topics."""
        self._unsaved: set[str] = set()
        self._rows: list[Rows[str]] = []
        self._file_rows = self.rows(lambda t: config_file.row(t.topic_name, t.to_json()))
        own = {system.topic_name for system in _system_topics(config)}
        self._own = frozenset(own | {TRACE_TOPIC})
        self._load()

    def _load(self) -> None:
        value = config_file.load(self.path)
        self.version = DataVersion.from_json(value.get("dataVersion"))
        table = value.get("topicConfigTable")
        for name, config in (table if isinstance(table, dict) else {}).items():
            try:
                check_topic(str(name))
            except InvalidParameterError as e:
                log.error("%s: %s: topic left out", self.path, escape(e))
                continue
            if isinstance(config, dict):
                self._put(TopicConfig.from_json(str(name), config))
        for system in _system_topics(self._config):
            known = self.topics.get(system.topic_name)
            if (
                known is None
                or known.perm != system.perm
                or known.write_queue_nums < system.write_queue_nums
            ):
                self._put(system)
                self._bump()
        self._adopt_stored()
        if not self._config.auto_create_topic_enable:
            template = self.topics.get(AUTO_CREATE_TOPIC)
            if template is not None:
                template.perm = _RW

    def _adopt_stored(self) -> None:
        """Topics that have messages but no configuration (a crash came before the file was
        written) get one, so that what was acknowledged can be read."""
        stored: dict[str, int] = {}
        for topic, queue_id, _, _ in self._store.queues():
            stored[topic] = max(stored.get(topic, 0), queue_id + 1)
        for topic, queues in stored.items():
            if topic not in self.topics:
                n = max(queues, min(4, self._config.default_topic_queue_nums))
                log.warning("topic %s is in the store only: made with %d queues", escape(topic), n)
                self._put(TopicConfig(topic, n, n))
                self._bump()

    def to_json(self) -> dict[str, Any]:
        return {
            "dataVersion": self.version.to_json(),
            "topicConfigTable": self._file_rows.freeze(),
        }

    def rows(self, row: Callable[[TopicConfig], bytes]) -> Rows[str]:
        """All topics as rows, also those that come."""
        rows: Rows[str] = Rows(lambda name: row(self.topics[name]))
        for name in self.topics:
            rows.change(name)
        self._rows.append(rows)
        return rows

    def is_saved(self, topic: str) -> bool:
        """Whether a topic that clients made is in the file yet."""
        return topic not in self._unsaved

    async def saved(self, topic: str) -> None:
        """Waits until the file and the name servers know the topic; only then the engine takes
        messages for it, so that a crash leaves no acknowledged message in a topic that nobody
        knows, and whoever got an answer finds the topic's route."""
        await self.save_if_changed()
        if topic in self._unsaved:
            if self.tell_first is not None:
                await self.tell_first()
            self._unsaved.discard(topic)
            self._set_in_engine(self.topics[topic])

    def get(self, topic: str) -> TopicConfig | None:
        return self.topics.get(topic)

    def is_system(self, topic: str) -> bool:
        """Whether a topic is the broker's own: statistics have what others hold by itself too.
        [TopicValidator.isSystemTopic]"""
        return topic in self._own or is_system_topic(topic)

    def require(self, topic: str) -> TopicConfig:
        """TOPIC_NOT_EXIST if there is none."""
        known = self.topics.get(topic)
        if known is None:
            raise TopicNotExistError(f"topic[{topic[:255]}] not exist")
        return known

    def _put(self, topic: TopicConfig) -> None:
        topic.read_queue_nums = min(max(topic.read_queue_nums, 0), MAX_QUEUES)
        topic.write_queue_nums = min(max(topic.write_queue_nums, 0), MAX_QUEUES)
        for rows in self._rows:
            rows.change(topic.topic_name)
        self.topics[topic.topic_name] = topic
        if topic.topic_name not in self._unsaved:
            self._set_in_engine(topic)

    def _set_in_engine(self, topic: TopicConfig) -> None:
        self._store.set_topic(
            topic.topic_name,
            read_queues=topic.read_queue_nums,
            write_queues=topic.write_queue_nums,
            multi_tag=topic.topic_filter_type == MULTI_TAG,
            sendable=topic.topic_name not in NO_SEND_TOPICS
            and not topic.topic_name.startswith(RETRY_PREFIX),
            batch=topic.is_batch,
        )

    def watch(self, watcher: Callable[[], None]) -> None:
        """`watcher` is called after every change that name servers should hear of."""
        self._watchers.append(watcher)

    def _changed_for_all(self) -> None:
        for watcher in self._watchers:
            watcher()

    def announce(self) -> None:
        """Tells name servers of all topics, under a new version: what they are told has changed."""
        self._bump()
        self._changed_for_all()

    def set_auto_create(self, enabled: bool) -> None:
        """autoCreateTopicEnable as it is from now on: topics are made after TBW102 or not."""
        queues = self._config.default_topic_queue_nums
        template = self.topics.get(AUTO_CREATE_TOPIC)
        if template is None:
            if not enabled:
                return
            template = TopicConfig(AUTO_CREATE_TOPIC, queues, queues)
        perm = _RW | PERM_INHERIT if enabled else _RW
        self._put(replace(template, perm=perm))
        self.announce()

    def _bump(self) -> None:
        self.version.next(now_ms())
        self.changed()

    def update(self, topic: TopicConfig, attributes: str = "") -> None:
        """Creates or changes a topic as an operator asks; `attributes` are changes such as
        `+queue.type=BatchCQ,-message.type`. Counts once `saved`. [updateAndCreateTopic]"""
        check_topic(topic.topic_name)
        if is_system_topic(topic.topic_name) or topic.topic_name in {
            self._config.broker_cluster_name,
            self._config.broker_name,
        }:
            raise InvalidParameterError(
                f"the topic[{topic.topic_name}] is conflict with system topic"
            )
        for what, n in (("read", topic.read_queue_nums), ("write", topic.write_queue_nums)):
            if not 0 <= n <= MAX_QUEUES:
                raise InvalidParameterError(f"{what}QueueNums {n} must be 0 to {MAX_QUEUES}")
        known = self.topics.get(topic.topic_name)
        topic.attributes = changed(known.attributes if known else None, attributes)
        if self.topics.get(topic.topic_name) != topic:
            self._unsaved.add(topic.topic_name)
            self._put(topic)
            self._bump()
            self._changed_for_all()

    def create_in_send(
        self, topic: str, default_topic: str, queue_nums: int, unit: bool
    ) -> TopicConfig | None:
        """Creates a topic after the template that the sender names; None if that may not be.
        [createTopicInSendMessageMethod]"""
        template = self.topics.get(default_topic)
        if template is None or not template.perm & PERM_INHERIT:
            return None
        if len(self.topics) >= MAX_AUTO_TOPICS:
            log.error("topic %s not created: there are %d already", escape(topic), len(self.topics))
            return None
        n = max(min(queue_nums, template.write_queue_nums), 0)
        created = TopicConfig(
            topic,
            n,
            n,
            template.perm & ~PERM_INHERIT,
            template.topic_filter_type,
            topic_sys_flag=1 if unit else 0,
        )
        log.info("create topic %s with %d queues for a sender", escape(topic), n)
        self._unsaved.add(topic)
        self._put(created)
        self._bump()
        self._changed_for_all()
        return created

    def create_send_back(self, topic: str, queues: int, *, unit: bool = False) -> TopicConfig:
        """The retry or dead-letter topic of a group, created if new."""
        known = self.topics.get(topic)
        if known is None:
            check_topic(topic)
            known = TopicConfig(topic, queues, queues, _RW, topic_sys_flag=2 if unit else 0)
            self._unsaved.add(topic)
            self._put(known)
            self._bump()
            self._changed_for_all()
        return known


def check_sendable(topic: str) -> None:
    """NoPermissionError for topics that clients may not send to."""
    if topic in NO_SEND_TOPICS:
        raise NoPermissionError(f"Sending message to topic[{topic}] is forbidden.")
