"""The broker's topics: config/topics.json, auto-creation, system topics. [TopicConfigManager]"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyrmq.broker.bounds import Creations
from pyrmq.broker.config.broker_config import BrokerConfig
from pyrmq.broker.tables import config_file
from pyrmq.broker.tables.deleted_topics import DeletedTopics
from pyrmq.broker.tables.persistent import PersistentTable, Rows
from pyrmq.broker.tables.system_topics import CHECKPOINT_TOPIC, system_topics
from pyrmq.broker.tables.topic_attributes import changed
from pyrmq.engine import Store
from pyrmq.errors import (
    NOT_CREATED,
    InvalidParameterError,
    NoPermissionError,
    PyrmqError,
    SystemBusyError,
    TopicNotExistError,
)
from pyrmq.escape import escape
from pyrmq.model.names import (
    AUTO_CREATE_TOPIC,
    DLQ_PREFIX,
    NO_SEND_TOPICS,
    RETRY_PREFIX,
    SYSTEM_TOPICS,
    TRACE_TOPIC,
    check_topic,
    is_stored_topic,
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
from pyrmq.net.server.connection import Connection

log = logging.getLogger(__name__)

_RW = PERM_READ | PERM_WRITE


class TopicTable(PersistentTable):
    """All topics of this broker. The engine's send path knows those that are in the file."""

    def __init__(self, path: Path, config: BrokerConfig, store: Store) -> None:
        super().__init__(path)
        self.topics: dict[str, TopicConfig] = {}
        self.version = DataVersion(timestamp=now_ms())
        self._config = config
        self._writable = _is_writable(config)
        self._store = store
        self._watchers: list[Callable[[], None]] = []
        self.tell_first: Callable[[], Awaitable[None]] | None = None
        """Waits until name servers know of new topics."""
        self._unsaved: set[str] = set()
        self._removing: set[str] = set()
        """Topics whose data is being deleted: they are not made meanwhile."""
        self._stored_queues: dict[str, int] = {}
        """How many queues a topic had, where it has fewer now: the others may still hold
        messages."""
        self.deleted = DeletedTopics(path.with_name("deletedTopics.json"), store)
        self._system = frozenset(t.topic_name for t in system_topics(config))
        self._plain = 0
        """Topics that are not for retries or dead letters."""
        self._creations = Creations("topics", "maxNewTopicsPerConnection")
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
                self._put(TopicConfig.from_row(str(name), config))
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
                self._put(system)
                self._bump()
        self.adopt_stored()
        if not self._config.auto_create_topic_enable:
            template = self.topics.get(AUTO_CREATE_TOPIC)
            if template is not None:
                template.perm = _RW

    def adopt_stored(self) -> None:
        """Topics that have messages but no configuration (a crash came before the file was
        written) get one, so that what was acknowledged can be read. Those that were deleted are
        deleted again: the crash came in between, or messages that were delayed came behind."""
        self.deleted.settle(topic for topic in list(self.deleted.topics) if topic in self.topics)
        stored: dict[str, int] = {}
        visible: set[str] = set()
        for topic, queue_id, low, high in self._store.queues():
            stored[topic] = max(stored.get(topic, 0), queue_id + 1)
            if low < high:
                visible.add(topic)
        for topic, queues in stored.items():
            if topic in self.topics:
                self._note_queues(topic, queues)
            if topic in self.topics or topic not in visible:
                continue
            if topic in self.deleted.topics:
                log.warning("messages of the deleted topic %s are deleted again", escape(topic))
                try:
                    self.deleted.finish({topic: self._store.delete_topic(topic)})
                except (OSError, PyrmqError) as e:
                    log.error("topic %s: %s", escape(topic), escape(e))
            else:
                self._make_for_stored(topic, queues)

    def _make_for_stored(self, topic: str, queues: int) -> None:
        n = max(queues, min(4, self._config.default_topic_queue_nums))
        log.warning("topic %s is in the store only: made with %d queues", escape(topic), n)
        self._put(TopicConfig(topic, n, n))
        self._bump()

    def adopt_delivered(self, topics: Iterable[str]) -> None:
        """Topics that delayed messages were delivered to and that have no configuration
        (topics.json was lost) get one, so that consumers can read them."""
        new = {
            topic for topic in topics if topic not in self.topics and not self.is_removing(topic)
        }
        if not new:
            return
        queues = dict.fromkeys(new, 0)
        for topic, queue_id, _, _ in self._store.queues():
            if topic in new:
                queues[topic] = max(queues[topic], queue_id + 1)
        for topic in new:
            self._make_for_stored(topic, queues[topic])
        self._changed_for_all()

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

    async def change(self, topic: TopicConfig, attributes: str = "") -> bool:
        """Creates or changes a topic as an operator asks, see `update`; returns whether anything
        is new. OSError if the file cannot be written: then the topic is as it was."""
        return bool(await self.change_all([(topic, attributes)]))

    async def change_all(self, wanted: Sequence[tuple[TopicConfig, str]]) -> list[TopicConfig]:
        """The same of many, with the changes of attributes of each: all of them, in one write of
        the file, or none. Returns those that are new."""
        for topic, attributes in wanted:
            self._checked_attributes(topic, attributes)
        done: list[tuple[TopicConfig, TopicConfig | None, bool]] = []
        for topic, attributes in wanted:
            name = topic.topic_name
            known, was_saved = self.topics.get(name), self.is_saved(name)
            if self._update(topic, attributes):
                done.append((topic, known, was_saved))
        if not done:
            for topic, _ in wanted:
                await self.saved(topic.topic_name)
            return []
        try:
            await self.save_if_changed()
        except OSError:
            for topic, known, was_saved in reversed(done):
                self._take_back(topic, known, was_saved)
            raise
        self._changed_for_all()
        await self._tell(*(topic for topic, _, _ in done))
        return [topic for topic, _, _ in done]

    def _take_back(self, topic: TopicConfig, before: TopicConfig | None, was_saved: bool) -> None:
        """`topic` cannot be saved: it is again as `before`, unless it has changed since."""
        name = topic.topic_name
        if self.topics.get(name) is not topic:
            return
        if before is None:
            self._drop(name)
        else:
            if was_saved:
                self._unsaved.discard(name)
            self._put(before)
        self._bump()

    async def saved(self, topic: str) -> None:
        """Waits until the file and the name servers know the topic; only then the engine takes
        messages for it, so that a crash leaves no acknowledged message in a topic that nobody
        knows, and whoever got an answer finds the topic's route."""
        await self.save_if_changed()
        while topic in self._unsaved:
            known = self.topics[topic]
            await self.save_if_changed()
            await self._tell(known)

    async def _tell(self, *saved: TopicConfig) -> None:
        """Tells the name servers of topics as they are in the file; from then on they take
        messages, those that are still so."""
        if self.tell_first is not None:
            await self.tell_first()
        for topic in saved:
            name = topic.topic_name
            if name in self._unsaved and self.topics[name] is topic:
                self._unsaved.discard(name)
                self._set_in_engine(topic)

    def follow(self, topics: Mapping[str, TopicConfig], version: DataVersion) -> None:
        """A slave's: takes over what differs of its master's topics, and their version."""
        changed = [t for name, t in topics.items() if self.topics.get(name) != t]
        for topic in changed:
            self._put(topic)
        if changed:
            self.changed()
        self.version = replace(version)
        if changed:
            self._changed_for_all()

    def get(self, topic: str) -> TopicConfig | None:
        return self.topics.get(topic)

    def queues_of(self, topic: TopicConfig) -> int:
        """How many queues a topic has had: those that it has no more may still hold messages."""
        now = max(topic.read_queue_nums, topic.write_queue_nums)
        return max(now, self._stored_queues.get(topic.topic_name, 0))

    def _note_queues(self, topic: str, queues: int) -> None:
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

    def _put(self, topic: TopicConfig) -> None:
        topic.read_queue_nums = min(max(topic.read_queue_nums, 0), MAX_QUEUES)
        topic.write_queue_nums = min(max(topic.write_queue_nums, 0), MAX_QUEUES)
        for rows in self._rows:
            rows.change(topic.topic_name)
        before = self.topics.get(topic.topic_name)
        if before is None:
            self._plain += _is_plain(topic.topic_name)
        self.topics[topic.topic_name] = topic
        if before is not None:
            self._note_queues(topic.topic_name, self.queues_of(before))
        if topic.topic_name not in self._unsaved:
            self._set_in_engine(topic)

    def _set_in_engine(self, topic: TopicConfig, *, writable: bool = False) -> None:
        self._store.set_topic(
            topic.topic_name,
            read_queues=topic.read_queue_nums,
            write_queues=topic.write_queue_nums,
            multi_tag=topic.topic_filter_type == MULTI_TAG,
            sendable=(self._writable or writable)
            and topic.topic_name not in NO_SEND_TOPICS
            and _may_be_made(topic.topic_name)
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
        """Creates or changes a topic; `attributes` are changes such as
        `+queue.type=BatchCQ,-message.type`. Counts once `saved`. [updateAndCreateTopic]"""
        if self._update(topic, attributes):
            self._changed_for_all()

    def _update(self, topic: TopicConfig, attributes: str) -> bool:
        """The same in this table only; whether anything is new."""
        topic.attributes = self._checked_attributes(topic, attributes)
        if self.topics.get(topic.topic_name) == topic:
            return False
        self._unsaved.add(topic.topic_name)
        self._put(topic)
        self._bump()
        return True

    def _checked_attributes(self, topic: TopicConfig, attributes: str) -> dict[str, str]:
        """The attributes that a topic would have. InvalidParameterError, SystemBusyError if it
        cannot be made or changed so."""
        check_topic(topic.topic_name)
        if is_system_topic(topic.topic_name) or topic.topic_name in {
            *self._system,
            CHECKPOINT_TOPIC,
        }:
            raise InvalidParameterError(
                f"the topic[{topic.topic_name}] is conflict with system topic"
            )
        for what, n in (("read", topic.read_queue_nums), ("write", topic.write_queue_nums)):
            if not 0 <= n <= MAX_QUEUES:
                raise InvalidParameterError(f"{what}QueueNums {n} must be 0 to {MAX_QUEUES}")
        self._check_not_removing(topic.topic_name)
        known = self.topics.get(topic.topic_name)
        topic.others = known.others if known else {}
        found = changed(
            known.attributes if known else None,
            attributes,
            mixed=self._config.enable_mixed_message_type,
        )
        self._check_kind_of_queues(replace(topic, attributes=found))
        return found

    def _check_kind_of_queues(self, topic: TopicConfig) -> None:
        """A topic that was deleted goes on with the queues that it had."""
        batch = self.deleted.is_batch(topic.topic_name)
        if batch is not None and batch != topic.is_batch:
            kind = "BatchCQ" if batch else "SimpleCQ"
            raise InvalidParameterError(
                f"the topic[{topic.topic_name}] was deleted, and its queues are {kind} until its "
                "messages are gone from the log: make it with the same queue.type"
            )

    def mark_ordered(self, names: Iterable[str]) -> None:
        """Those of the topics that exist are ordered: name servers have order configurations for
        them. [updateOrderTopicConfig]"""
        new = [
            topic for topic in map(self.topics.get, names) if topic is not None and not topic.order
        ]
        for topic in new:
            self._put(replace(topic, order=True))
        if new:
            self._bump()
            self._changed_for_all()

    def create_in_send(
        self,
        topic: str,
        default_topic: str,
        queue_nums: int,
        unit: bool,
        *,
        by: Connection | None = None,
    ) -> TopicConfig | None:
        """Creates a topic after the template that the sender names; None if that may not be.
        TOPIC_NOT_EXIST if there are too many. `by` is the sender.
        [createTopicInSendMessageMethod]"""
        template = self.topics.get(default_topic)
        if template is None or not template.perm & PERM_INHERIT:
            return None
        self._check_not_removing(topic)
        why = self._why_no_more(topic, by)
        if why is not None:
            if self._creations.may_log():
                log.error("topic %s not created: %s", escape(topic), escape(why))
            raise TopicNotExistError(f"topic[{topic}] not exist, and {NOT_CREATED}{why}")
        n = max(min(queue_nums, template.write_queue_nums), 0)
        created = TopicConfig(
            topic,
            n,
            n,
            template.perm & ~PERM_INHERIT,
            template.topic_filter_type,
            topic_sys_flag=1 if unit else 0,
            attributes={"queue.type": "BatchCQ"} if self.deleted.is_batch(topic) else {},
        )
        log.info("create topic %s with %d queues for a sender", escape(topic), n)
        self._creations.count(by)
        self._unsaved.add(topic)
        self._put(created)
        self._bump()
        self._changed_for_all()
        return created

    def _why_no_more(self, topic: str, by: Connection | None) -> str | None:
        """Why senders make no more topics. A sender's dead-letter topic counts among those of
        groups, of which each has two at most."""
        config = self._config
        count, most = self._plain, config.max_auto_created_topics
        if not _is_plain(topic):
            count, most = len(self.topics) - self._plain, 2 * config.max_auto_created_groups
        if count >= most:
            key = "maxAutoCreatedTopics" if _is_plain(topic) else "2 * maxAutoCreatedGroups"
            return f"there are {count} already, {key}={most}"
        return self._creations.why_not(by, config.max_new_topics_per_connection)

    def create_send_back(
        self, topic: str, queues: int, *, unit: bool = False, order: bool = False
    ) -> TopicConfig:
        """The retry or dead-letter topic of a group, created if new."""
        known = self.topics.get(topic)
        if known is None:
            check_topic(topic)
            self._check_not_removing(topic)
            flag = 2 if unit else 0
            known = TopicConfig(topic, queues, queues, _RW, topic_sys_flag=flag, order=order)
            self._unsaved.add(topic)
            self._put(known)
            self._bump()
            self._changed_for_all()
        return known

    def is_system(self, topic: str) -> bool:
        """Whether a topic is the broker's own. [TopicValidator.isSystemTopic]"""
        own = is_system_topic(topic) or topic in self._system
        return own or topic == TRACE_TOPIC

    def system_names(self) -> list[str]:
        """The topics that are the broker's own, whether they are there or not."""
        return sorted(SYSTEM_TOPICS | self._system | {TRACE_TOPIC, CHECKPOINT_TOPIC})

    def is_removing(self, topic: str) -> bool:
        """Whether the data of a topic is being deleted, and it cannot be made."""
        return topic in self._removing

    def _check_not_removing(self, topic: str) -> None:
        if topic in self._removing:
            raise SystemBusyError(f"topic[{topic}] is being deleted: try again")

    def begin_removal(self, topic: str) -> bool:
        """Removes a topic, and keeps it from being made until `end_removal`; whether there was one.
        [deleteTopicConfig]"""
        self._removing.add(topic)
        if topic not in self.topics:
            return False
        self.deleted.begin(topic, self._drop(topic).is_batch)
        self._store.forget_topic(topic)
        self._bump()
        self._changed_for_all()
        return True

    def _drop(self, topic: str) -> TopicConfig:
        """Takes it out of the table."""
        for rows in self._rows:
            rows.remove(topic)
        self._plain -= _is_plain(topic)
        self._unsaved.discard(topic)
        self._stored_queues.pop(topic, None)
        return self.topics.pop(topic)

    def end_removal(self, topic: str) -> None:
        """It may be made again."""
        self._removing.discard(topic)

    def configure(self, config: BrokerConfig) -> None:
        """How many topics there may be has changed, or whether the broker takes messages."""
        self._config = config
        writable = _is_writable(config)
        if writable != self._writable:
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


def _is_writable(config: BrokerConfig) -> bool:
    return bool(config.broker_permission & PERM_WRITE)


def _may_be_made(topic: str) -> bool:
    try:
        check_topic(topic)
    except InvalidParameterError:
        return False
    return True


def _is_plain(topic: str) -> bool:
    return not topic.startswith((RETRY_PREFIX, DLQ_PREFIX))


def no_topic(topic: str) -> TopicNotExistError:
    """For requests of clients that expect the topic."""
    return TopicNotExistError(f"topic[{topic[:255]}] not exist, apply first please!")


def check_sendable(topic: str) -> None:
    """NoPermissionError for topics that clients may not send to."""
    if topic in NO_SEND_TOPICS:
        raise NoPermissionError(f"Sending message to topic[{topic}] is forbidden.")
