"""The table of the broker's topics, config/topics.json, and the topics that every broker has.
[TopicConfigManager, TopicValidator]

`topic_creation` makes and changes topics, `topic_removal` removes them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from pyrmq.broker.config.broker_config import BrokerConfig
from pyrmq.broker.tables import config_file
from pyrmq.broker.tables.config_file import PersistentTable, Rows
from pyrmq.broker.tables.deleted_topics import DeletedTopics
from pyrmq.engine import Store
from pyrmq.errors import (
    InvalidParameterError,
    NoPermissionError,
    TopicNotExistError,
)
from pyrmq.model.broker_name import MEMBER_TOPIC_PREFIX
from pyrmq.model.names import (
    AUTO_CREATE_TOPIC,
    DLQ_PREFIX,
    HALF_TOPIC,
    OP_TOPIC,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    SYSTEM_TOPICS,
    TRACE_TOPIC,
    check_topic,
    is_stored_topic,
    is_system_topic,
    takes_sends,
)
from pyrmq.model.topic import (
    MAX_QUEUES,
    MESSAGE_TYPES,
    MULTI_TAG,
    PERM_INHERIT,
    PERM_READ,
    PERM_WRITE,
    DataVersion,
    TopicConfig,
)
from pyrmq.net.clock import now_ms

log = logging.getLogger(__name__)

_RW = PERM_READ | PERM_WRITE
CHECKPOINT_TOPIC = "CHECKPOINT_TOPIC"
"""A name that RocketMQ keeps for itself; no broker makes it."""


class Watcher(Protocol):
    """Tells name servers of topics."""

    def topics_changed(self) -> None: ...

    async def told(self) -> None:
        """Waits until name servers know the topics as they are now."""


class TopicTable(PersistentTable):
    """All topics of this broker. The engine's send path knows those that are in the file."""

    def __init__(
        self,
        path: Path,
        config: BrokerConfig,
        store: Store,
        on_changed: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(path, on_changed)
        self.topics: dict[str, TopicConfig] = {}
        self.version = DataVersion(timestamp=now_ms())
        self._config = config
        self._writable = _is_writable(config)
        self._store = store
        self._watchers: list[Watcher] = []
        self._unsaved: set[str] = set()
        self._stored_queues: dict[str, int] = {}
        """How many queues a topic had, where it has fewer now: the others may still hold
        messages."""
        self.deleted = DeletedTopics(path.with_name("deletedTopics.json"), store)
        """Topics that were deleted while the log still has messages of theirs."""
        self._system = frozenset(t.topic_name for t in system_topics(config))
        self.plain = 0
        """Topics that are not for retries or dead letters."""
        self._rows: list[Rows[str]] = []
        self._file_rows = self.rows(lambda t: config_file.row(t.topic_name, t.to_row()))
        self._load()

    def _load(self) -> None:
        value = self.load("dataVersion", "topicConfigTable")
        self.version = DataVersion.from_json(value.get("dataVersion"))
        table = value.get("topicConfigTable")
        kept: set[Any] = set()
        for name, config in (table if isinstance(table, dict) else {}).items():
            if isinstance(config, dict) and is_stored_topic(str(name)):
                self.put(TopicConfig.from_row(str(name), config))
            else:
                kept.add(name)
        if kept:
            self._file_rows.keep(value.rows("topicConfigTable", kept))
            config_file.tell_kept(self.path, sorted(map(str, kept)))
        for system in system_topics(self._config):
            known = self.topics.get(system.topic_name)
            if (
                known is None
                or known.perm != system.perm
                or known.write_queue_nums < system.write_queue_nums
            ):
                self.put(system)
                self.new_version()
        if not self._config.auto_create_topic_enable:
            template = self.topics.get(AUTO_CREATE_TOPIC)
            if template is not None:
                template.perm = _RW

    async def save_if_changed(self) -> None:
        """Also deletedTopics.json, first."""
        await self.deleted.save_if_changed()
        await super().save_if_changed()

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
        while topic in self._unsaved:
            known = self.topics[topic]
            await self.save_if_changed()
            await self.tell(known)

    async def tell(self, *saved: TopicConfig) -> None:
        """Tells the name servers of topics as they are in the file; from then on they take
        messages, those that are still so."""
        await self.known_to_name_servers()
        for topic in saved:
            name = topic.topic_name
            if name in self._unsaved and self.topics[name] is topic:
                self._unsaved.discard(name)
                self._set_in_engine(topic)

    def follow(self, topics: Mapping[str, TopicConfig], version: DataVersion) -> None:
        """A slave's: takes over what differs of its master's topics, and their version."""
        changed = [t for name, t in topics.items() if self.topics.get(name) != t]
        for topic in changed:
            self.put(topic)
        if changed:
            self.changed()
        self.version = replace(version)
        if changed:
            self.tell_watchers()

    def get(self, topic: str) -> TopicConfig | None:
        return self.topics.get(topic)

    def queues_of(self, topic: TopicConfig) -> int:
        """How many queues a topic has had: those that it has no more may still hold messages."""
        now = max(topic.read_queue_nums, topic.write_queue_nums)
        return max(now, self._stored_queues.get(topic.topic_name, 0))

    def note_queues(self, topic: str, queues: int) -> None:
        """A topic has had so many queues."""
        if queues > max(self._stored_queues.get(topic, 0), self.topics[topic].read_queue_nums):
            self._stored_queues[topic] = queues

    def keeps(self, topic: str) -> bool:
        """Whether the file has a row of this name that is not understood."""
        return self._file_rows.keeps(topic)

    def require(self, topic: str) -> TopicConfig:
        """TOPIC_NOT_EXIST if there is none."""
        known = self.topics.get(topic)
        if known is None:
            raise TopicNotExistError(f"topic[{topic[:255]}] not exist")
        return known

    def put(self, topic: TopicConfig) -> None:
        """Puts a topic into the table; the engine hears of it if the file has it."""
        topic.read_queue_nums = min(max(topic.read_queue_nums, 0), MAX_QUEUES)
        topic.write_queue_nums = min(max(topic.write_queue_nums, 0), MAX_QUEUES)
        for rows in self._rows:
            rows.change(topic.topic_name)
        before = self.topics.get(topic.topic_name)
        if before is None:
            self.plain += is_plain(topic.topic_name)
        self.topics[topic.topic_name] = topic
        if before is not None:
            self.note_queues(topic.topic_name, self.queues_of(before))
        if topic.topic_name not in self._unsaved:
            self._set_in_engine(topic)

    def _set_in_engine(self, topic: TopicConfig, *, writable: bool = False) -> None:
        self._store.set_topic(
            topic.topic_name,
            read_queues=topic.read_queue_nums,
            write_queues=topic.write_queue_nums,
            multi_tag=topic.topic_filter_type == MULTI_TAG,
            sendable=(self._writable or writable)
            and takes_sends(topic.topic_name)
            and _may_be_made(topic.topic_name)
            and not topic.topic_name.startswith(RETRY_PREFIX),
            batch=topic.is_batch,
            message_type=self._checked_type(topic),
        )

    def _checked_type(self, topic: TopicConfig) -> str | None:
        """The type that sends to a topic must have; None: any."""
        name = topic.topic_name
        if not self._config.enable_topic_message_type_check or self.is_system(name):
            return None
        kind = topic.message_type
        return kind if is_plain(name) and kind in MESSAGE_TYPES else None

    def watch(self, watcher: Watcher) -> None:
        """From now on `watcher` hears of every change that name servers should hear of."""
        self._watchers.append(watcher)

    def tell_watchers(self) -> None:
        """Says that topics have changed."""
        for watcher in self._watchers:
            watcher.topics_changed()

    async def known_to_name_servers(self) -> None:
        """Waits until name servers know the topics as they are now."""
        for watcher in self._watchers:
            await watcher.told()

    def announce(self) -> None:
        """Tells name servers of all topics, under a new version: what they are told has changed."""
        self.new_version()
        self.tell_watchers()

    def set_auto_create(self, enabled: bool) -> None:
        """autoCreateTopicEnable as it is from now on: topics are made after TBW102 or not."""
        queues = self._config.default_topic_queue_nums
        template = self.topics.get(AUTO_CREATE_TOPIC)
        if template is None:
            if not enabled:
                return
            template = TopicConfig(AUTO_CREATE_TOPIC, queues, queues)
        perm = _RW | PERM_INHERIT if enabled else _RW
        self.put(replace(template, perm=perm))
        self.announce()

    def put_unsaved(self, topic: TopicConfig) -> None:
        """Puts a topic, new or changed, that the file does not have yet. Counts once `saved`."""
        self._unsaved.add(topic.topic_name)
        self.put(topic)
        self.new_version()

    def put_back(self, topic: TopicConfig, before: TopicConfig | None, was_saved: bool) -> None:
        """`topic` cannot be saved: it is again as `before`, unless it has changed since."""
        name = topic.topic_name
        if self.topics.get(name) is not topic:
            return
        if before is None:
            self.drop(name)
        else:
            if was_saved:
                self._unsaved.discard(name)
            self.put(before)
        self.new_version()

    def new_version(self) -> None:
        """Marks the table as changed."""
        self.version.next(now_ms())
        self.changed()

    def mark_ordered(self, names: Iterable[str]) -> None:
        """Those of the topics that exist are ordered: name servers have order configurations for
        them. [updateOrderTopicConfig]"""
        new = [
            topic for topic in map(self.topics.get, names) if topic is not None and not topic.order
        ]
        for topic in new:
            self.put(replace(topic, order=True))
        if new:
            self.new_version()
            self.tell_watchers()

    def is_reserved(self, topic: str) -> bool:
        """Whether operators may not make or change a topic of this name."""
        return is_system_topic(topic) or topic in self._system or topic == CHECKPOINT_TOPIC

    def is_system(self, topic: str) -> bool:
        """Whether a topic is the broker's own. [TopicValidator.isSystemTopic]"""
        own = is_system_topic(topic) or topic in self._system
        return own or topic == TRACE_TOPIC

    def system_names(self) -> list[str]:
        """The topics that are the broker's own, whether they are there or not."""
        return sorted(SYSTEM_TOPICS | self._system | {TRACE_TOPIC, CHECKPOINT_TOPIC})

    def drop(self, topic: str) -> TopicConfig:
        """Takes it out of the table."""
        for rows in self._rows:
            rows.remove(topic)
        self.plain -= is_plain(topic)
        self._unsaved.discard(topic)
        self._stored_queues.pop(topic, None)
        return self.topics.pop(topic)

    def configure(self, config: BrokerConfig) -> None:
        """How many topics there may be has changed, or what the broker takes."""
        before, self._config = self._config, config
        writable = _is_writable(config)
        checks = config.enable_topic_message_type_check != before.enable_topic_message_type_check
        if writable != self._writable or checks:
            self._writable = writable
            for topic in self.topics.values():
                if self.is_saved(topic.topic_name):
                    self._set_in_engine(topic)

    @contextmanager
    def taking(self, topic: str) -> Iterator[None]:
        """The engine takes messages of this topic, also where the broker takes none from producers:
        a transaction that was begun before may end."""
        known = self.topics.get(topic)
        if self._writable or known is None or not self.is_saved(topic):
            yield
            return
        self._set_in_engine(known, writable=True)
        try:
            yield
        finally:
            self._set_in_engine(known)


def system_topics(config: BrokerConfig) -> list[TopicConfig]:
    """The topics that every broker with this configuration has."""
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
        (f"{MEMBER_TOPIC_PREFIX}{name}", 1, PERM_INHERIT),
        (HALF_TOPIC, 1, _RW),
        (OP_TOPIC, 1, _RW),
        ("rmq_sys_wheel_timer", 1, _RW),
    ]
    if config.auto_create_topic_enable:
        rows.append((AUTO_CREATE_TOPIC, config.default_topic_queue_nums, _RW | PERM_INHERIT))
    if config.trace_topic_enable:
        rows.append((config.msg_trace_topic_name, 1, _RW))
    return [TopicConfig(topic, n, n, perm) for topic, n, perm in rows]


def _is_writable(config: BrokerConfig) -> bool:
    return bool(config.broker_permission & PERM_WRITE)


def _may_be_made(topic: str) -> bool:
    try:
        check_topic(topic)
    except InvalidParameterError:
        return False
    return True


def is_plain(topic: str) -> bool:
    """Whether a topic is not for retries or dead letters."""
    return not topic.startswith((RETRY_PREFIX, DLQ_PREFIX))


def no_topic(topic: str) -> TopicNotExistError:
    """For requests of clients that expect the topic."""
    return TopicNotExistError(f"topic[{topic[:255]}] not exist, apply first please!")


def check_sendable(topic: str) -> None:
    """NoPermissionError for topics that clients may not send to."""
    if not takes_sends(topic):
        raise NoPermissionError(f"Sending message to topic[{topic}] is forbidden.")
