"""Requests about queues, offsets and locks. [AdminBrokerProcessor, ConsumerManageProcessor]"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine

import trio

from pyrmq.broker.bounds import OneByOne
from pyrmq.broker.requests import fields
from pyrmq.broker.tables.clients import MAX_CLIENT_ID
from pyrmq.broker.tables.groups import GroupTable
from pyrmq.broker.tables.locks import QueueLocks
from pyrmq.broker.tables.offsets import OffsetTable
from pyrmq.broker.tables.offsets_and_queues import NewQueues
from pyrmq.broker.tables.topic_creation import Topics
from pyrmq.engine import Command, Store
from pyrmq.errors import (
    InvalidParameterError,
    NoPermissionError,
    ProtocolError,
    QueryNotFoundError,
    ServiceNotAvailableError,
    TopicNotExistError,
)
from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.model.message import MessageQueue
from pyrmq.model.names import check_group
from pyrmq.model.topic import (
    MULTI_TAG,
    PERM_INHERIT,
    PERM_READ,
    PERM_WRITE,
    SINGLE_TAG,
    TopicConfig,
)
from pyrmq.net import fastjson
from pyrmq.net.command import Response
from pyrmq.net.server.connection import Connection

log = logging.getLogger(__name__)

READERS = 4
"""Look-ups by time at a time; they have threads of their own, as one may read a cold disk."""
MOST_PERM = PERM_READ | PERM_WRITE | PERM_INHERIT
HAND_OVER = "handOver"
"""A field of UPDATE_CONSUMER_OFFSET that only slaves set, pyrmq's own."""
MAX_LOCKS = 65_536
"""Most queues one lock request may name."""


class QueueProcessor:
    def __init__(
        self,
        store: Store,
        topics: Topics,
        groups: GroupTable,
        offsets: OffsetTable,
        locks: QueueLocks,
        new_queues: NewQueues,
        is_slave: Callable[[str], bool] = lambda peer: False,
        check_deletes: Callable[[Connection, Command, str], None] = lambda *asked: None,
    ) -> None:
        """`is_slave`: whether a peer (`host:port`) is at a host of a slave of this broker.
        `check_deletes`: raises an error unless who makes a request may delete the topic."""
        self._store = store
        self._topics = topics.table
        self._creation = topics.creation
        self._groups = groups
        self._offsets = offsets
        self._locks = locks
        self._new_queues = new_queues
        self._is_slave = is_slave
        self._check_deletes = check_deletes
        self._readers = trio.CapacityLimiter(READERS)
        self._updates = OneByOne()

    def _queue(self, command: Command) -> tuple[str, int]:
        topic = fields.text(command, "topic")
        queue_id = fields.int32(command, "queueId")
        if queue_id < 0:
            raise InvalidParameterError(f"queueId[{queue_id}] is illegal")
        return topic, queue_id

    def max_offset(self, connection: Connection, command: Command) -> Response:
        return Response(ext={"offset": self._store.queue_range(*self._queue(command))[1]})

    def min_offset(self, connection: Connection, command: Command) -> Response:
        return Response(ext={"offset": self._store.queue_range(*self._queue(command))[0]})

    async def search_offset(self, connection: Connection, command: Command) -> Response:
        topic, queue_id = self._queue(command)
        boundary = command.ext.get("boundaryType", "LOWER").upper()
        if boundary not in ("LOWER", "UPPER"):
            raise InvalidParameterError(f"boundaryType {boundary[:32]} is neither LOWER nor UPPER")
        time = fields.int64(command, "timestamp")
        offset = await trio.to_thread.run_sync(
            self._store.offset_by_time,
            topic,
            queue_id,
            time,
            boundary == "UPPER",
            limiter=self._readers,
        )
        return Response(ext={"offset": offset})

    async def earliest_time(self, connection: Connection, command: Command) -> Response:
        time = await trio.to_thread.run_sync(
            self._store.earliest_time, *self._queue(command), limiter=self._readers
        )
        return Response(ext={"timestamp": time})

    def query_offset(
        self, connection: Connection, command: Command
    ) -> Response | Coroutine[None, None, Response]:
        """QUERY_CONSUMER_OFFSET. A group that has offsets in other queues of the topic starts at
        the first message of the queue. One that is new here starts at the first message that the
        queue ever had (of a topic that was deleted and made again, since then), while that is in
        memory; otherwise the client decides by consumeFromWhere."""
        group = fields.text(command, "consumerGroup")
        topic, queue_id = self._queue(command)
        offset = self._offsets.query(topic, group, queue_id)
        if offset is None:
            low, _ = self._store.queue_range(topic, queue_id)
            first = self._topics.deleted.first_offset(topic, queue_id)
            if self._topics.get(topic) is None or not fields.flag(
                command, "setZeroIfNotFound", True
            ):
                raise _no_offset(group, topic, queue_id)
            if self._new_queues.is_new(topic, group, queue_id):
                return Response(ext={"offset": max(low, first)})
            if low > first:
                raise _no_offset(group, topic, queue_id)
            in_memory = self._store.in_memory(topic, queue_id, first, wait=False)
            if in_memory is None:
                return self._first_offset(group, topic, queue_id, first)
            if not in_memory:
                raise _no_offset(group, topic, queue_id)
            offset = first
        return Response(ext={"offset": offset})

    async def _first_offset(self, group: str, topic: str, queue_id: int, first: int) -> Response:
        in_memory = await trio.to_thread.run_sync(
            self._store.in_memory, topic, queue_id, first, limiter=self._readers
        )
        if not in_memory:
            raise _no_offset(group, topic, queue_id)
        return Response(ext={"offset": first})

    def update_offset(self, connection: Connection, command: Command) -> Response:
        group = fields.text(command, "consumerGroup")
        topic, queue_id = self._queue(command)
        offset = fields.int64(command, "commitOffset")
        self._groups.admit(group, connection)
        known = self._topics.require(topic)
        queues = self._topics.queues_of(known)  # what is left in the others is skipped like this
        if queue_id >= queues:
            raise InvalidParameterError(
                f"queueId[{queue_id}] is illegal, topic:[{topic}] has {queues} queues"
            )
        if offset < 0:
            raise InvalidParameterError(f"commitOffset {offset} is negative")
        self._groups.require(group, connection)
        if fields.flag(command, HAND_OVER, False):
            return self._handed_over(connection, topic, group, queue_id, offset)
        if group == self._offsets.table_group:
            return self._in_table(connection, command, topic, queue_id, offset)
        self._offsets.commit(topic, group, queue_id, offset)
        return Response()

    def _in_table(
        self, connection: Connection, command: Command, topic: str, queue_id: int, offset: int
    ) -> Response:
        """From the job that writes a table (reclaimGroup): what is before may be deleted."""
        self._check_deletes(connection, command, topic)
        end = self._store.queue_range(topic, queue_id)[1]
        if offset > end:
            raise InvalidParameterError(
                f"commitOffset {offset} is behind the end of queue {queue_id} of topic[{topic}], "
                f"{end}: the table is of another broker"
            )
        self._offsets.commit_of_table(topic, queue_id, offset)
        return Response()

    def _handed_over(
        self, connection: Connection, topic: str, group: str, queue_id: int, offset: int
    ) -> Response:
        """From a slave: what consumers have committed there while this master was away."""
        if not self._is_slave(connection.peer):
            raise NoPermissionError(
                f"offsets are handed over by slaves of this broker: {connection.peer} is at no "
                "address that a name server has for one"
            )
        end = self._store.queue_range(topic, queue_id)[1]
        if offset > end:
            raise InvalidParameterError(f"commitOffset {offset} is behind the queue's end, {end}")
        taken = self._offsets.take_over(topic, group, queue_id, offset)
        return Response(ext={"taken": taken})

    def lock(self, connection: Connection, command: Command) -> Response:
        group, client_id, queues = self._lock_body(command)
        self._groups.require(group, connection)
        granted = self._locks.lock(group, client_id, queues, trio.current_time())
        return Response(body=fastjson.dumps({"lockOKMQSet": [q.to_json() for q in granted]}))

    def unlock(self, connection: Connection, command: Command) -> Response:
        self._locks.unlock(*self._lock_body(command))
        return Response()

    def _lock_body(self, command: Command) -> tuple[str, str, list[MessageQueue]]:
        body = fastjson.loads_object(command.body)
        group, client_id, queues = (
            body.get("consumerGroup"), body.get("clientId"), body.get("mqSet"),
        )  # fmt: skip
        if not isinstance(group, str) or not isinstance(client_id, str):
            raise InvalidParameterError("consumerGroup and clientId are needed")
        if not isinstance(queues, list) or len(queues) > MAX_LOCKS:
            raise InvalidParameterError(f"mqSet must be a list of at most {MAX_LOCKS} queues")
        check_group(group)
        if len(client_id) > MAX_CLIENT_ID:
            raise InvalidParameterError(f"clientId has more than {MAX_CLIENT_ID} characters")
        named = map(_queue_of, queues)
        return group, client_id, [q for q in named if self._exists(q)]

    def _exists(self, queue: MessageQueue) -> bool:
        topic = self._topics.get(queue.topic)
        return topic is not None and 0 <= queue.queue_id < topic.read_queue_nums

    def topic_config(self, connection: Connection, command: Command) -> Response:
        """GET_TOPIC_CONFIG."""
        topic = fields.text(command, "topic")
        known = self._topics.get(topic)
        if known is None:
            raise TopicNotExistError(f"No topic in this broker. topic: {topic[:255]}")
        return Response(body=fastjson.dumps(known.to_json()))

    async def update_topic(self, connection: Connection, command: Command) -> Response:
        """UPDATE_AND_CREATE_TOPIC; the topic is in its file when this is answered."""
        wanted = TopicConfig(
            topic_name=fields.text(command, "topic"),
            read_queue_nums=fields.int32(command, "readQueueNums"),
            write_queue_nums=fields.int32(command, "writeQueueNums"),
            perm=fields.int32(command, "perm"),
            topic_filter_type=command.ext.get("topicFilterType", SINGLE_TAG),
            topic_sys_flag=fields.int32(command, "topicSysFlag", 0),
            order=fields.flag(command, "order"),
        )
        _check_topic(wanted)
        await self._change_topics(connection, [(wanted, command.ext.get("attributes", ""))])
        return Response()

    async def update_topics(self, connection: Connection, command: Command) -> Response:
        """UPDATE_AND_CREATE_TOPIC_LIST: all of the topics are made or changed, in one write of the
        file, or none."""
        await self._change_topics(connection, _topic_list(command))
        return Response()

    async def _change_topics(
        self, connection: Connection, wanted: list[tuple[TopicConfig, str]]
    ) -> None:
        async with self._updates.all_alone(topic.topic_name for topic, _ in wanted):
            known = {topic.topic_name for topic, _ in wanted} & self._topics.topics.keys()
            try:
                new = await self._creation.change_all(wanted)
            except OSError as e:
                name = wanted[0][0].topic_name
                what = f"topic[{name}]" if len(wanted) == 1 else f"{len(wanted)} topics"
                raise ServiceNotAvailableError(
                    f"{what} cannot be saved: {e.strerror}. Nothing is changed"
                ) from e
        for topic in new:
            what = "changes" if topic.topic_name in known else "makes"
            shown = fastjson.dumps(topic.to_json()).decode()
            log.info(
                "%s %s topic %s",
                escape(connection.peer),
                what,
                escape(shown),
                extra=about(connection=connection.peer),
            )


def _check_topic(wanted: TopicConfig) -> None:
    """InvalidParameterError for what no topic can have."""
    kind = wanted.topic_filter_type
    if kind not in (SINGLE_TAG, MULTI_TAG):
        raise InvalidParameterError(
            f"topicFilterType {kind[:32]!r} is unknown: use {SINGLE_TAG} or {MULTI_TAG}"
        )
    if not 0 <= wanted.perm <= MOST_PERM:
        raise InvalidParameterError(
            f"perm {wanted.perm} is illegal: the sum of 4 (read), 2 (write) and 1 (inherit)"
        )
    if wanted.topic_sys_flag < 0:
        raise InvalidParameterError(f"topicSysFlag {wanted.topic_sys_flag} is negative")


def _topic_list(command: Command) -> list[tuple[TopicConfig, str]]:
    """The topics of a CreateTopicListRequestBody, and the changes of attributes of each."""
    found = []
    for value in fields.objects(command, "topicConfigList"):
        name = value.get("topicName")
        attributes = value.get("attributes") or {}
        if not isinstance(name, str) or not name:
            raise InvalidParameterError("each topicName of topicConfigList is a text")
        if not isinstance(attributes, dict):
            raise InvalidParameterError(f"attributes of topic[{name[:255]}] must be an object")
        for key in ("readQueueNums", "writeQueueNums", "perm", "topicSysFlag"):
            if type(value.get(key, 0)) is not int:
                raise InvalidParameterError(f"{key} of topic[{name[:255]}] must be a number")
        topic = TopicConfig.from_json(name, {**value, "attributes": {}})
        topic.topic_filter_type = str(value.get("topicFilterType", SINGLE_TAG))
        _check_topic(topic)
        changes = (k if str(k).startswith("-") else f"{k}={v}" for k, v in attributes.items())
        found.append((topic, ",".join(map(str, changes))))
    return found


def _no_offset(group: str, topic: str, queue_id: int) -> QueryNotFoundError:
    return QueryNotFoundError(
        f"no offset of group[{group[:255]}] is known for queue {queue_id} of topic[{topic[:255]}]"
    )


def _queue_of(value: object) -> MessageQueue:
    """One of a request's `mqSet`."""
    try:
        if isinstance(value, dict):
            return MessageQueue.from_json(value)
    except ProtocolError:
        pass
    raise InvalidParameterError("mqSet: a queue has topic and brokerName, and a number as queueId")
