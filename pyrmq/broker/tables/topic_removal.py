"""Removes topics, and all that belongs to them: DELETE_TOPIC_IN_BROKER and CLEAN_UNUSED_TOPIC.
[TopicConfigManager.deleteTopicConfig, AdminBrokerProcessor.deleteTopic, cleanUnusedTopic]"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence, Set

import trio

from pyrmq.broker.bounds import Bounded
from pyrmq.broker.config.broker_config import LiveConfig
from pyrmq.broker.requests import fields
from pyrmq.broker.tables.config_file import PersistentTable
from pyrmq.broker.tables.groups import GroupTable
from pyrmq.broker.tables.offsets import OffsetTable
from pyrmq.broker.tables.topics import TopicTable
from pyrmq.engine import Command, Store
from pyrmq.errors import (
    InvalidParameterError,
    PyrmqError,
    ServiceNotAvailableError,
    SystemBusyError,
)
from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.model.names import RETRY_PREFIX, check_topic
from pyrmq.net.command import Response
from pyrmq.net.server.answers import Elsewhere
from pyrmq.net.server.connection import Connection

log = logging.getLogger(__name__)

WAITING = 64
"""Deletions that wait for their turn; more are refused."""
AT_ONCE = 256
"""Topics that go together: their files are written once."""


def never(topic: str) -> bool:
    return False


class TopicRemoval:
    """Takes topics out of the table. A topic whose data is being deleted cannot be made."""

    def __init__(self, store: Store, topics: TopicTable) -> None:
        self._store = store
        self._topics = topics
        self._removing: set[str] = set()
        """Topics whose data is being deleted: they are not made meanwhile."""

    def begin(self, topic: str) -> bool:
        """Removes a topic, and keeps it from being made until `end`; whether there was one.
        [deleteTopicConfig]"""
        self._removing.add(topic)
        if self._topics.get(topic) is None:
            return False
        self._topics.deleted.begin(topic, self._topics.drop(topic).is_batch)
        self._store.forget_topic(topic)
        self._topics.new_version()
        self._topics.tell_watchers()
        return True

    def end(self, topic: str) -> None:
        """It may be made again."""
        self._removing.discard(topic)

    def is_removing(self, topic: str) -> bool:
        """Whether the data of a topic is being deleted, and it cannot be made."""
        return topic in self._removing

    def check_not_removing(self, topic: str) -> None:
        """SystemBusyError if the data of a topic is being deleted."""
        if topic in self._removing:
            raise SystemBusyError(f"topic[{topic}] is being deleted: try again")

    def delete_again(self, topic: str) -> None:
        """Deletes messages of a topic that was deleted before."""
        log.info(
            "messages of the deleted topic %s are deleted again",
            escape(topic),
            extra=about(topic=topic),
        )
        try:
            self._topics.deleted.finish({topic: self._store.delete_topic(topic)})
        except (OSError, PyrmqError) as e:
            log.error("topic %s: %s", escape(topic), escape(e), extra=about(topic=topic))


class TopicDeletion:
    """Answers requests that delete topics. `end_pulls(topics)` answers the pulls that are parked on
    topics.

    The messages stay in the log until retention deletes its files; only their keys and ids lead to
    them. A topic that is made again goes on with the offsets of its queues.
    """

    def __init__(
        self,
        config: LiveConfig,
        store: Store,
        topics: TopicTable,
        removal: TopicRemoval,
        groups: GroupTable,
        offsets: OffsetTable,
        end_pulls: Callable[[Set[str]], None],
    ) -> None:
        self._config = config
        self._store = store
        self._topics = topics
        self._removal = removal
        self._groups = groups
        self._offsets = offsets
        self._end_pulls = end_pulls
        self._one = trio.Lock()
        """So many topics at a time."""
        self._commands = Bounded("deletions of topics", 1, WAITING)

    def delete(self, connection: Connection, command: Command) -> Elsewhere:
        """DELETE_TOPIC_IN_BROKER. An unknown topic is no error, as in RocketMQ. The name servers
        know before this is answered, so that no registration brings the topic back that they are
        asked to delete next."""
        topic = fields.text(command, "topic")
        if self._topics.get(topic) is None:
            check_topic(topic)
        if self._topics.is_system(topic):
            raise InvalidParameterError(f"The topic[{topic}] is conflict with system topic.")
        log.info(
            "%s deletes topic %s",
            escape(connection.peer),
            escape(topic),
            extra=about(connection=connection.peer, topic=topic),
        )
        return self._commands.begin(self._delete(topic))

    async def _delete(self, topic: str) -> Response:
        await self.remove([topic, *self._pop_retry_topics(topic)])
        await self._topics.known_to_name_servers()
        return Response()

    def _pop_retry_topics(self, topic: str) -> list[str]:
        """The topics in which POP consumers retry messages of this one. By its name, one of them
        may as well be the retry topic of a group; if there is such a group, it stays.
        [KeyBuilder]"""
        if not self._config.now.clear_retry_topic_when_delete_topic:
            return []
        names = [f"{group}{sep}{topic}" for group in self._offsets.groups_of(topic) for sep in "+_"]
        return [
            RETRY_PREFIX + name
            for name in names
            if name not in self._groups.groups and self._topics.get(RETRY_PREFIX + name) is not None
        ]

    async def remove(self, topics: Sequence[str], keep: Callable[[str], bool] = never) -> None:
        """Removes topics: their configuration, the offsets that groups have of them, and what their
        queues hold. Who pulls from one is told. Those for which `keep` holds when their turn has
        come stay: things may be others by then. ServiceNotAvailableError if a file cannot be
        written: they are gone for now."""
        for start in range(0, len(topics), AT_ONCE):
            await self._remove(topics[start : start + AT_ONCE], keep)

    async def _remove(self, topics: Sequence[str], keep: Callable[[str], bool]) -> None:
        async with self._one:
            gone = {topic for topic in topics if not keep(topic)}
            known = {topic for topic in gone if self._removal.begin(topic)}
            try:
                for topic in gone:
                    self._offsets.remove_topic(topic)
                self._end_pulls(gone)
                await self._save(self._topics)
                ends, failed = await trio.to_thread.run_sync(self._delete_data, gone, known)
                self._topics.deleted.finish(ends)
            finally:
                for topic in gone:
                    self._removal.end(topic)
            await self._offsets.forget(lambda t, _: t in gone and self._topics.get(t) is None)
        if failed is not None:
            raise failed
        for table in (self._topics, self._offsets):
            unsaved = await self._save(table)
            if unsaved is not None:
                raise ServiceNotAvailableError(
                    f"topic[{topics[0]}] is deleted, but this cannot be saved: {unsaved.strerror}"
                )

    async def _save(self, table: PersistentTable) -> OSError | None:
        try:
            await table.save_if_changed()
        except OSError as e:
            return e
        return None

    def _delete_data(
        self, topics: set[str], known: set[str]
    ) -> tuple[dict[str, list[tuple[int, int]]], Exception | None]:
        """Where the queues of each topic go on, and what failed first."""
        ends: dict[str, list[tuple[int, int]]] = {}
        failure: Exception | None = None
        stored = self._stored() if len(known) < len(topics) else set()
        for topic in sorted(topics):
            if topic in known or topic in stored:
                try:
                    ends[topic] = self._store.delete_topic(topic)
                except (OSError, PyrmqError) as e:
                    failure = failure or e
        return ends, failure

    def _stored(self) -> set[str]:
        """Topics with messages that can be read."""
        return {topic for topic, _, low, high in self._store.queues() if low < high}

    def clean_unused(self, connection: Connection, command: Command) -> Elsewhere:
        """CLEAN_UNUSED_TOPIC: messages go whose topic has no configuration. They came to a topic
        that was deleted, being delayed or in a transaction, or a deletion failed."""
        log.info(
            "%s cleans unused topics",
            escape(connection.peer),
            extra=about(connection=connection.peer),
        )
        return self._commands.begin(self._clean_unused())

    async def _clean_unused(self) -> Response:
        stored = await trio.to_thread.run_sync(self._stored)
        unused = sorted(topic for topic in stored if not self._is_used(topic))
        for topic in unused:
            log.info("unused topic %s goes", escape(topic), extra=about(topic=topic))
        await self.remove(unused, self._is_used)
        return Response()

    def _is_used(self, topic: str) -> bool:
        return self._topics.get(topic) is not None or self._topics.is_system(topic)
