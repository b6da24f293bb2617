"""Moving the offsets of a group: INVOKE_BROKER_TO_RESET_OFFSET, CLONE_GROUP_OFFSET.
[AdminBrokerProcessor, Broker2Client]"""

from __future__ import annotations

from collections.abc import Callable

import trio

from pyrmq.broker.config.broker_config import LiveConfig
from pyrmq.broker.requests import fields
from pyrmq.broker.tables.clients import ClientTable
from pyrmq.broker.tables.groups import GroupTable
from pyrmq.broker.tables.offsets import OffsetTable
from pyrmq.broker.tables.topics import TopicTable
from pyrmq.engine import Command, Store
from pyrmq.errors import InvalidParameterError, ResponseError, SystemBusyError
from pyrmq.model.codes import RequestCode, ResponseCode
from pyrmq.model.message import MessageQueue
from pyrmq.model.topic import TopicConfig
from pyrmq.net import fastjson
from pyrmq.net.command import Response, encode_request
from pyrmq.net.server.connection import Connection

READERS = 4
"""Requests at a time; they have threads of their own, as they may read a cold disk."""

Offsets = dict[int, int]
"""By queue."""


class ResetOffsetProcessor:
    """`release(topic, queue_id)` answers the pulls that are parked there."""

    def __init__(
        self,
        config: LiveConfig,
        store: Store,
        topics: TopicTable,
        groups: GroupTable,
        clients: ClientTable,
        offsets: OffsetTable,
        release: Callable[[str, int], None],
    ) -> None:
        self._config = config
        self._store = store
        self._topics = topics
        self._groups = groups
        self._clients = clients
        self._offsets = offsets
        self._release = release
        self._readers = trio.CapacityLimiter(READERS)

    async def reset(self, connection: Connection, command: Command) -> Response:
        """INVOKE_BROKER_TO_RESET_OFFSET: by time, or to one offset of one queue. The answer has the
        offsets that hold from now on."""
        group = fields.text(command, "group")
        topic = self._topics.require(fields.text(command, "topic"))
        queue_id = fields.int32(command, "queueId", -1)
        time = fields.int64(command, "timestamp")
        offset = fields.int64(command, "offset", -1)
        self._offsets.check_group(group)
        if queue_id >= topic.read_queue_nums:
            raise InvalidParameterError(
                f"queueId[{queue_id}] is illegal, topic:[{topic.topic_name}] "
                f"topicConfig.readQueueNums:[{topic.read_queue_nums}]"
            )
        if not self._config.now.use_server_side_reset_offset:
            found = await self._of_clients(topic, group, time, fields.flag(command, "isForce"))
            self._tell_clients(connection, command, topic.topic_name, group, time, found)
            return self._answer(topic.topic_name, found)
        self._groups.existing(group)
        if queue_id >= 0 and offset >= 0:
            found = {queue_id: self._in_range(topic.topic_name, queue_id, offset)}
        else:
            queues = [queue_id] if queue_id >= 0 else list(range(topic.read_queue_nums))
            found = await self._by_time(topic.topic_name, queues, time)
        for queue, value in found.items():
            self._offsets.reset(topic.topic_name, group, queue, value)
            self._release(topic.topic_name, queue)
        return self._answer(topic.topic_name, found)

    def _in_range(self, topic: str, queue_id: int, offset: int) -> int:
        low, high = self._store.queue_range(topic, queue_id)
        if not low <= offset <= high + 1:
            raise ResponseError(
                f"Target offset {offset} not in consume queue range [{low}-{high}]",
                ResponseCode.SYSTEM_ERROR,
            )
        return offset

    async def _by_time(self, topic: str, queues: list[int], time: int) -> Offsets:
        """Negative times mean the queues' ends."""

        def look() -> Offsets:
            if time < 0:
                return {q: self._store.queue_range(topic, q)[1] for q in queues}
            return {q: self._store.offset_by_time(topic, q, time) for q in queues}

        return await trio.to_thread.run_sync(look, limiter=self._readers)

    async def _of_clients(self, topic: TopicConfig, group: str, time: int, force: bool) -> Offsets:
        """The offsets that clients are told: without `force` none moves forward."""
        name = topic.topic_name
        queues = list(range(topic.write_queue_nums))
        had = {q: self._offsets.query(name, group, q) for q in queues}
        unknown = next((q for q, offset in had.items() if offset is None), None)
        if unknown is not None:
            raise ResponseError(
                f"THe consumer group <{group[:255]}> not exist",
                ResponseCode.SYSTEM_ERROR,
            )
        found = await self._by_time(name, queues, time)
        return {q: value if force else min(value, had[q] or 0) for q, value in found.items()}

    def _tell_clients(
        self,
        connection: Connection,
        command: Command,
        topic: str,
        group: str,
        time: int,
        found: Offsets,
    ) -> None:
        """RESET_CONSUMER_CLIENT_OFFSET to every client of the group."""
        live = self._clients.consumers.get(group)
        if live is None or not live.clients:
            raise ResponseError(
                f"Consumer not online, so can not reset offset, Group: {group[:255]} "
                f"Topic: {topic} Timestamp: {time}",
                ResponseCode.CONSUMER_NOT_ONLINE,
            )
        ext: dict[str, str | int | bool] = {
            "topic": topic,
            "group": group,
            "timestamp": time,
            "isForce": fields.flag(command, "isForce"),
            "queueId": -1,
        }
        frame = encode_request(
            RequestCode.RESET_CONSUMER_CLIENT_OFFSET, 0, ext, self._body(topic, found), oneway=True
        )
        full = [client.peer for client in live.clients if not client.has_room]
        if full:
            raise SystemBusyError(
                f"{len(full)} clients of the group take no requests now: try again"
            )
        for client in live.clients:
            client.send(frame)

    def _body(self, topic: str, found: Offsets) -> bytes:
        name = self._config.now.broker_name
        table = {
            MessageQueue(topic, name, queue).as_key(): offset for queue, offset in found.items()
        }
        return fastjson.dumps({"offsetTable": table})

    def _answer(self, topic: str, found: Offsets) -> Response:
        return Response(body=self._body(topic, found))

    def clone(self, connection: Connection, command: Command) -> Response:
        """CLONE_GROUP_OFFSET: a group gets the offsets that another has, of one topic or of all."""
        source, target = fields.text(command, "srcGroup"), fields.text(command, "destGroup")
        self._groups.admit(target, connection)
        self._offsets.check_group(target)
        topic = command.ext.get("topic")
        for name in [topic] if topic else self._offsets.topics_of(source):
            for queue, offset in list(self._offsets.all_of(name, source).items()):
                self._groups.require(target, connection)
                self._offsets.commit(name, target, queue, offset)
        return Response()
