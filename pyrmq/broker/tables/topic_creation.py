"""Makes and changes topics: for operators, for senders, for groups, and for what the store has.
[TopicConfigManager, TopicAttributes, AttributeParser, AttributeUtil]
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pyrmq.broker.bounds import Creations
from pyrmq.broker.config.broker_config import LiveConfig
from pyrmq.broker.tables.topic_removal import TopicRemoval
from pyrmq.broker.tables.topics import TopicTable, is_plain
from pyrmq.engine import Store
from pyrmq.errors import (
    NOT_CREATED,
    InvalidParameterError,
    ResponseError,
    TopicNotExistError,
)
from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.model.codes import ResponseCode
from pyrmq.model.names import check_topic, is_stored_topic
from pyrmq.model.topic import (
    MAX_QUEUES,
    MESSAGE_TYPE,
    MESSAGE_TYPES,
    PERM_INHERIT,
    PERM_READ,
    PERM_WRITE,
    TopicConfig,
)
from pyrmq.net.server.connection import Connection

log = logging.getLogger(__name__)

ATTRIBUTES: dict[str, tuple[tuple[str, ...], bool]] = {
    "queue.type": (("SimpleCQ", "BatchCQ"), False),
    "cleanup.policy": (("DELETE",), False),
    MESSAGE_TYPE: (MESSAGE_TYPES, True),
}
"""Name to values that are supported, and whether a topic that exists may change it. RocketMQ's
brokers keep and show message.type, as this one does; proxies look at it, here the broker with
enableTopicMessageTypeCheck."""
_RW = PERM_READ | PERM_WRITE


class TopicCreation:
    """Makes topics in a table. A topic counts once the table has `saved` it."""

    def __init__(
        self, config: LiveConfig, store: Store, topics: TopicTable, removal: TopicRemoval
    ) -> None:
        self._config = config
        self._store = store
        self._topics = topics
        self._removal = removal
        self._creations = Creations("topics", "maxNewTopicsPerConnection")

    def adopt_stored(self) -> None:
        """Topics that have messages but no configuration (a crash came before the file was
        written) get one, so that what was acknowledged can be read. Those that were deleted are
        deleted again: the crash came in between, or messages that were delayed came behind."""
        topics, deleted = self._topics, self._topics.deleted
        deleted.undo_unfinished(topic for topic in list(deleted.topics) if topic in topics.topics)
        stored: dict[str, int] = {}
        visible: set[str] = set()
        for topic, queue_id, low, high in self._store.queues():
            stored[topic] = max(stored.get(topic, 0), queue_id + 1)
            if low < high:
                visible.add(topic)
        for topic, queues in stored.items():
            if topic in topics.topics:
                topics.note_queues(topic, queues)
            if topic in topics.topics or topic not in visible:
                continue
            if topic in deleted.topics:
                self._removal.delete_again(topic)
            else:
                self._make_for_stored(topic, queues)

    def adopt_delivered(self, delivered: Iterable[str]) -> None:
        """Topics that delayed messages were delivered to and that have no configuration
        (topics.json was lost) get one, so that consumers can read them."""
        new = {
            topic
            for topic in delivered
            if topic not in self._topics.topics and not self._removal.is_removing(topic)
        }
        if not new:
            return
        queues = dict.fromkeys(new, 0)
        for topic, queue_id, _, _ in self._store.queues():
            if topic in new:
                queues[topic] = max(queues[topic], queue_id + 1)
        for topic in new:
            self._make_for_stored(topic, queues[topic])
        self._topics.tell_watchers()

    def _make_for_stored(self, topic: str, queues: int) -> None:
        n = max(queues, min(4, self._config.now.default_topic_queue_nums))
        log.warning(
            "topic %s is in the store only: made with %d queues",
            escape(topic),
            n,
            extra=about(topic=topic),
        )
        self._topics.put(TopicConfig(topic, n, n))
        self._topics.new_version()

    async def change(self, topic: TopicConfig, attributes: str = "") -> bool:
        """Creates or changes a topic as an operator asks, see `update`; returns whether anything
        is new. OSError if the file cannot be written: then the topic is as it was."""
        return bool(await self.change_all([(topic, attributes)]))

    async def change_all(self, wanted: Sequence[tuple[TopicConfig, str]]) -> list[TopicConfig]:
        """The same of many, with the changes of attributes of each: all of them, in one write of
        the file, or none. Returns those that are new."""
        topics = self._topics
        for topic, attributes in wanted:
            self._checked_attributes(topic, attributes)
        done: list[tuple[TopicConfig, TopicConfig | None, bool]] = []
        for topic, attributes in wanted:
            name = topic.topic_name
            known, was_saved = topics.get(name), topics.is_saved(name)
            if self._update(topic, attributes):
                done.append((topic, known, was_saved))
        if not done:
            for topic, _ in wanted:
                await topics.saved(topic.topic_name)
            return []
        try:
            await topics.save_if_changed()
        except OSError:
            for topic, known, was_saved in reversed(done):
                topics.put_back(topic, known, was_saved)
            raise
        topics.tell_watchers()
        await topics.tell(*(topic for topic, _, _ in done))
        return [topic for topic, _, _ in done]

    def update(self, topic: TopicConfig, attributes: str = "") -> None:
        """Creates or changes a topic; `attributes` are changes such as
        `+queue.type=BatchCQ,-message.type`. Counts once `saved`. [updateAndCreateTopic]"""
        if self._update(topic, attributes):
            self._topics.tell_watchers()

    def _update(self, topic: TopicConfig, attributes: str) -> bool:
        """The same in the table only; whether anything is new."""
        topic.attributes = self._checked_attributes(topic, attributes)
        if self._topics.get(topic.topic_name) == topic:
            return False
        self._topics.put_unsaved(topic)
        return True

    def _checked_attributes(self, topic: TopicConfig, attributes: str) -> dict[str, str]:
        """The attributes that a topic would have. InvalidParameterError, SystemBusyError if it
        cannot be made or changed so."""
        check_topic(topic.topic_name)
        if self._topics.is_reserved(topic.topic_name):
            raise InvalidParameterError(
                f"the topic[{topic.topic_name}] is conflict with system topic"
            )
        for what, n in (("read", topic.read_queue_nums), ("write", topic.write_queue_nums)):
            if not 0 <= n <= MAX_QUEUES:
                raise InvalidParameterError(f"{what}QueueNums {n} must be 0 to {MAX_QUEUES}")
        self._removal.check_not_removing(topic.topic_name)
        known = self._topics.get(topic.topic_name)
        topic.others = known.others if known else {}
        found = changed_attributes(
            known.attributes if known else None,
            attributes,
            mixed=self._config.now.enable_mixed_message_type,
        )
        self._check_kind_of_queues(replace(topic, attributes=found))
        return found

    def _check_kind_of_queues(self, topic: TopicConfig) -> None:
        """A topic that was deleted goes on with the queues that it had."""
        batch = self._topics.deleted.is_batch(topic.topic_name)
        if batch is not None and batch != topic.is_batch:
            kind = "BatchCQ" if batch else "SimpleCQ"
            raise InvalidParameterError(
                f"the topic[{topic.topic_name}] was deleted, and its queues are {kind} until its "
                "messages are gone from the log: make it with the same queue.type"
            )

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
        template = self._topics.get(default_topic)
        if template is None or not template.perm & PERM_INHERIT:
            return None
        self._removal.check_not_removing(topic)
        why = self._why_no_more(topic, by)
        if why is not None:
            if self._creations.may_log():
                log.error(
                    "topic %s not created: %s", escape(topic), escape(why), extra=about(topic=topic)
                )
            raise TopicNotExistError(f"topic[{topic}] not exist, and {NOT_CREATED}{why}")
        n = max(min(queue_nums, template.write_queue_nums), 0)
        created = TopicConfig(
            topic,
            n,
            n,
            template.perm & ~PERM_INHERIT,
            template.topic_filter_type,
            topic_sys_flag=1 if unit else 0,
            attributes={"queue.type": "BatchCQ"} if self._topics.deleted.is_batch(topic) else {},
        )
        log.info(
            "create topic %s with %d queues for a sender",
            escape(topic),
            n,
            extra=about(topic=topic),
        )
        self._creations.count(by)
        self._topics.put_unsaved(created)
        self._topics.tell_watchers()
        return created

    def _why_no_more(self, topic: str, by: Connection | None) -> str | None:
        """Why senders make no more topics. A sender's dead-letter topic counts among those of
        groups, of which each has two at most."""
        config = self._config.now
        count, most = self._topics.plain, config.max_auto_created_topics
        if not is_plain(topic):
            count = len(self._topics.topics) - self._topics.plain
            most = 2 * config.max_auto_created_groups
        if count >= most:
            key = "maxAutoCreatedTopics" if is_plain(topic) else "2 * maxAutoCreatedGroups"
            return f"there are {count} already, {key}={most}"
        return self._creations.why_not(by, config.max_new_topics_per_connection)

    def create_send_back(
        self, topic: str, queues: int, *, unit: bool = False, order: bool = False
    ) -> TopicConfig:
        """The retry or dead-letter topic of a group, created if new."""
        known = self._topics.get(topic)
        if known is None:
            check_topic(topic)
            self._removal.check_not_removing(topic)
            flag = 2 if unit else 0
            known = TopicConfig(topic, queues, queues, _RW, topic_sys_flag=flag, order=order)
            self._topics.put_unsaved(known)
            self._topics.tell_watchers()
        return known

    def create_pop_retry(self, topic: str) -> TopicConfig:
        """The topic to which messages go that a group popped and did not acknowledge, created if
        new. TopicNotExistError if no topic can have that name, SystemBusyError while it is removed.
        [addRetryTopicIfNotExist]"""
        known = self._topics.get(topic)
        if known is None:
            if not is_stored_topic(topic):
                raise TopicNotExistError(f"the topic[{topic[:64]}] cannot be made")
            self._removal.check_not_removing(topic)
            known = TopicConfig(topic, 1, 1, _RW)
            self._topics.put_unsaved(known)
            self._topics.tell_watchers()
        return known


@dataclass(frozen=True, slots=True)
class Topics:
    """A broker's topics, and how they come and go."""

    table: TopicTable
    removal: TopicRemoval
    creation: TopicCreation


def open_topics(
    path: Path, config: LiveConfig, store: Store, on_changed: Callable[[], None] | None = None
) -> Topics:
    """The topics of a file, and those of the store that the file does not have. ConfigError if the
    file cannot be read. Blocking."""
    table = TopicTable(path, config.now, store, on_changed)
    removal = TopicRemoval(store, table)
    creation = TopicCreation(config, store, table, removal)
    creation.adopt_stored()
    return Topics(table, removal, creation)


def _refused(text: str) -> ResponseError:
    return ResponseError(text, ResponseCode.SYSTEM_ERROR)


def changed_attributes(
    known: Mapping[str, str] | None, text: str, *, mixed: bool = False
) -> dict[str, str]:
    """The attributes of a topic after the changes of `text`: `+name=value` sets, `-name` removes,
    separated by commas. `known`: those that it has, None for a new topic. `mixed`: whether topics
    may have messages of all types.

    An invalid value is SYSTEM_ERROR, as in RocketMQ, but for a type of messages that the
    broker's configuration does not allow."""
    out = dict(known or {})
    seen: set[str] = set()
    for part in filter(None, text.split(",")):
        name, given, value = part[1:].partition("=")
        if part[0] not in "+-" or bool(given) != (part[0] == "+"):
            raise _refused(
                f"attribute {part[:64]!r}: +name=value or -name expected, separated by commas"
            )
        if name in seen:
            raise _refused(f"attribute {name[:64]!r} is there twice")
        seen.add(name)
        _check(name, value, known, adds=bool(given), mixed=mixed)
        if given:
            out[name] = value
        else:
            del out[name]
    return out


def _check(
    name: str, value: str, known: Mapping[str, str] | None, *, adds: bool, mixed: bool
) -> None:
    if name not in ATTRIBUTES:
        raise _refused(
            f"topic attribute {name[:64]!r} is not supported: use {', '.join(ATTRIBUTES)}"
        )
    values, may_change = ATTRIBUTES[name]
    if adds and value not in values:
        raise _refused(f"{name}={value[:64]}: use {' or '.join(values)}")
    if not adds and name not in (known or {}):
        raise _refused(f"the topic has no attribute {name}: there is nothing to remove")
    if known is not None and not may_change and known.get(name) != (value or None):
        raise _refused(f"{name} of a topic that exists cannot be changed")
    if name == MESSAGE_TYPE and value == "MIXED" and not mixed:
        raise InvalidParameterError(
            "MIXED message type is not supported: enableMixedMessageType=false"
        )
