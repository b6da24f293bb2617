"""What operators look at: whole tables, and which topics, subscriptions and offsets groups have.
[AdminBrokerProcessor, ConsumerOffsetManager]
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import trio

from pyrmq.broker.bounds import Bounded
from pyrmq.broker.delay import DelayService
from pyrmq.broker.requests import fields
from pyrmq.broker.tables.clients import ClientTable
from pyrmq.broker.tables.offsets import OffsetTable
from pyrmq.broker.tables.topics import TopicTable
from pyrmq.engine import Command, Store
from pyrmq.errors import InvalidParameterError, RequestCodeNotSupportedError, ResponseError
from pyrmq.model.codes import ResponseCode
from pyrmq.model.message import MessageQueue
from pyrmq.net import fastjson
from pyrmq.net.address import Address, format_address
from pyrmq.net.clock import now_ms
from pyrmq.net.command import Response
from pyrmq.net.server.answers import Elsewhere
from pyrmq.net.server.connection import Connection
from pyrmq.net.server.turns import in_turns

TABLES_WAITING = 15
"""Copies that are made at a time besides one; more are refused."""
MAX_TABLE = 15 << 20
"""Longest body that fits into a frame of RocketMQ's clients."""
READERS = 4
"""Requests at a time; they have threads of their own, as they may read a cold disk."""
WAITING = 64
"""Requests that wait for one of them; more are refused."""
MAX_QUEUES = 4096
"""Most queues that one answer tells the times of."""
MAX_ENTRIES = 4096
"""Most entries of a queue in one answer."""
NO_LIMIT = (1 << 63) - 1
"""A correction of the offset of a group that is behind all others."""
MOST_TIME = 253_402_000_000_000
"""The latest time that is written as a date (ms): in the year 9999."""
LAST_EXT_ADDRESS = -(1 << 31) - 1
"""A tags code up to here is the address of an entry's extension. [ConsumeQueueExt]"""


class AdminTables:
    """None of them is paged: what RocketMQ's clients ask page by page they get at once."""

    def __init__(self, topics: TopicTable, offsets: OffsetTable, delays: DelayService) -> None:
        self._topics = topics
        self._offsets = offsets
        self._delays = delays
        self._copies = Bounded("copies of whole tables", 1, TABLES_WAITING)

    def system_topics(self, connection: Connection, command: Command) -> Response:
        """GET_SYSTEM_TOPIC_LIST_FROM_BROKER."""
        return Response(body=fastjson.dumps({"topicList": self._topics.system_names()}))

    def topics(self, connection: Connection, command: Command) -> Elsewhere:
        """GET_ALL_TOPIC_CONFIG."""
        return self._copies.begin(self._topic_table())

    async def _topic_table(self) -> Response:
        members: list[bytes] = []
        await in_turns(
            list(self._topics.topics.values()),
            lambda topic: members.append(fastjson.member(topic.topic_name, topic.to_row())),
        )
        version = fastjson.dumps(self._topics.version.to_json())
        return _answer(
            b'{"dataVersion":' + version + b',"mappingDataVersion":' + version
            + b',"topicConfigTable":{' + b",".join(members)
            + b'},"topicQueueMappingDetailMap":{},"topicQueueMappingInfoMap":{}}'
        )  # fmt: skip

    def offsets(self, connection: Connection, command: Command) -> Elsewhere:
        """GET_ALL_CONSUMER_OFFSET: what consumerOffset.json would have now."""
        return self._copies.begin(self._offset_table())

    async def _offset_table(self) -> Response:
        return _answer(await self._offsets.encoded())

    def delays(self, connection: Connection, command: Command) -> Elsewhere:
        """GET_ALL_DELAY_OFFSET: by level how far it is delivered."""
        return self._copies.begin(self._delay_table())

    async def _delay_table(self) -> Response:
        table = await trio.to_thread.run_sync(self._delays.table)
        return Response(body=fastjson.dumps(table))


def _answer(body: bytes) -> Response:
    if len(body) > MAX_TABLE:
        raise ResponseError(
            f"the table has {len(body)} bytes: clients take no more than {MAX_TABLE}",
            ResponseCode.SYSTEM_ERROR,
        )
    return Response(body=body)


class ConsumeQueryProcessor:
    def __init__(
        self,
        broker_name: str,
        address: Address,
        store: Store,
        topics: TopicTable,
        clients: ClientTable,
        offsets: OffsetTable,
    ) -> None:
        self._broker_name = broker_name
        self._address = address
        self._store = store
        self._topics = topics
        self._clients = clients
        self._offsets = offsets
        self._reads = Bounded("looks at queues", READERS, WAITING)

    def consumed_by(self, connection: Connection, command: Command) -> Response:
        """QUERY_TOPIC_CONSUME_BY_WHO: the groups that have offsets of a topic, or members that want
        it."""
        topic = fields.text(command, "topic")
        live = (
            name for name, group in self._clients.consumers.items() if topic in group.subscriptions
        )
        groups = sorted({*self._offsets.groups_of(topic), *live})
        return Response(body=fastjson.dumps({"groupList": groups}))

    def topics_of(self, connection: Connection, command: Command) -> Response:
        """QUERY_TOPICS_BY_CONSUMER: the topics that a group has offsets of."""
        topics = self._offsets.topics_of(fields.text(command, "group"))
        body = {"brokerAddr": format_address(self._address), "topicList": topics}
        return Response(body=fastjson.dumps(body))

    def subscription(self, connection: Connection, command: Command) -> Response:
        """QUERY_SUBSCRIPTION_BY_CONSUMER: what the members of a group want of a topic, or what it
        has popped lately; nothing if there are none."""
        group, topic = fields.text(command, "group"), command.ext.get("topic", "")
        found = self._clients.subscription(group, topic) or self._clients.popped.find(group, topic)
        body = {
            "group": group,
            "subscriptionData": None if found is None else found.to_json(),
            "topic": topic,
        }
        return Response(body=fastjson.dumps(body))

    def correction(self, connection: Connection, command: Command) -> Response:
        """QUERY_CORRECTION_OFFSET: by queue the least offset that any group has, but those of
        `filterGroups`; of the queues of `compareGroup` the largest number there is where that group
        is behind all others. Offsets of messages that are deleted do not count.

        A queue in which no group has an offset that counts is left out (RocketMQ fails). Groups
        that are left out keep their offsets (RocketMQ deletes them).
        """
        topic = fields.text(command, "topic")
        left_out = set((command.ext.get("filterGroups") or "").split(","))
        least: dict[int, int] = {}
        for group in self._offsets.groups_of(topic):
            if group in left_out:
                continue
            for queue_id, offset in self._offsets.all_of(topic, group).items():
                if offset >= self._first(topic, queue_id):
                    least[queue_id] = min(offset, least.get(queue_id, offset))
        compared = self._offsets.all_of(topic, fields.text(command, "compareGroup"))
        for queue_id, offset in compared.items():
            if least.get(queue_id, offset) > offset:
                least[queue_id] = NO_LIMIT
        return Response(body=fastjson.dumps({"correctionOffsets": least}))

    def _first(self, topic: str, queue_id: int) -> int:
        known = self._topics.get(topic)
        if known is None or not 0 <= queue_id < known.read_queue_nums:
            return 0
        return self._store.queue_range(topic, queue_id)[0]

    def time_span(self, connection: Connection, command: Command) -> Elsewhere:
        """QUERY_CONSUME_TIME_SPAN: when the first and the last message of each queue were stored,
        and the last one that a group has consumed."""
        topic, group = fields.text(command, "topic"), fields.text(command, "group")
        known = self._topics.require(topic)
        if known.write_queue_nums > MAX_QUEUES:
            raise InvalidParameterError(f"topic [{topic}] has more than {MAX_QUEUES} queues")
        queues = range(known.write_queue_nums)
        consumed = {q: self._offsets.query(topic, group, q) or 0 for q in queues}
        return self._reads.begin(self._time_spans(topic, consumed))

    async def _time_spans(self, topic: str, consumed: dict[int, int]) -> Response:
        def look() -> list[dict[str, Any]]:
            return [self._span(topic, queue_id, offset) for queue_id, offset in consumed.items()]

        spans = await self._reads.run(look)
        return Response(body=fastjson.dumps({"consumeTimeSpanSet": spans}))

    def _span(self, topic: str, queue_id: int, offset: int) -> dict[str, Any]:
        low, end = self._store.queue_range(topic, queue_id)
        first = self._store.earliest_time(topic, queue_id)
        last = self._time(topic, queue_id, end - 1)
        consumed = self._time(topic, queue_id, offset - 1) if offset > 0 else first
        delay = 0
        if offset < end:
            delay = now_ms() - self._time(topic, queue_id, max(offset, low))
        return {
            "consumeTimeStamp": consumed,
            "consumeTimeStampStr": _date(consumed),
            "delayTime": delay,
            "maxTimeStamp": last,
            "maxTimeStampStr": _date(last),
            "messageQueue": MessageQueue(topic, self._broker_name, queue_id).to_json(),
            "minTimeStamp": first,
            "minTimeStampStr": _date(first),
        }

    def _time(self, topic: str, queue_id: int, offset: int) -> int:
        """-1 for a message that is not there, as in RocketMQ."""
        return self._store.store_time(topic, queue_id, offset) if offset >= 0 else -1

    def queue_entries(self, connection: Connection, command: Command) -> Response | Elsewhere:
        """QUERY_CONSUME_QUEUE: entries of a queue as they stand in its file."""
        topic, queue_id = fields.text(command, "topic"), fields.int32(command, "queueId")
        index, count = fields.int64(command, "index"), fields.int32(command, "count")
        if not 0 <= count <= MAX_ENTRIES:
            raise InvalidParameterError(f"count {count} must be 0 to {MAX_ENTRIES}")
        known = self._topics.get(topic)
        if known is None or not 0 <= queue_id < max(known.read_queue_nums, known.write_queue_nums):
            raise ResponseError(
                f"{queue_id}@{topic[:255]} is not exist!", ResponseCode.SYSTEM_ERROR
            )
        low, high = self._store.queue_range(topic, queue_id)
        if not low <= index < high:
            return Response(remark=f"Index {index} of {queue_id}@{topic} is not exist!")
        body: dict[str, Any] = {"maxQueueIndex": high, "minQueueIndex": low}
        group = command.ext.get("consumerGroup")
        if group is not None:
            found = self._clients.subscription(group, topic)
            body["subscriptionData"] = None if found is None else found.to_json()
            body["filterData"] = "null" if found else f"{group}@{topic} is not online!"
        end = min(index + count, high)
        return self._reads.begin(self._with_entries(body, topic, queue_id, index, end))

    async def _with_entries(
        self, body: dict[str, Any], topic: str, queue_id: int, start: int, end: int
    ) -> Response:
        try:
            entries = await self._reads.run(self._entries, topic, queue_id, start, end)
        except ModuleNotFoundError:
            raise RequestCodeNotSupportedError(
                "entries of queues are read with numpy, which this broker does not have: "
                "pip install 'pyrmq-broker[arrow]'"
            ) from None
        body["queueData"] = [_entry(*entry) for entry in entries]
        return Response(body=fastjson.dumps(dict(sorted(body.items()))))

    def _entries(
        self, topic: str, queue_id: int, start: int, end: int
    ) -> Iterable[tuple[int, int, int]]:
        out: list[tuple[int, int, int]] = []
        while start < end:
            first, entries = self._store.entries(topic, queue_id, start)
            if not len(entries) or first != start:
                break
            out += entries[: end - start].tolist()
            start += len(entries)
        return out


def _date(ms: int) -> str:
    """As RocketMQ writes times of day, in local time. [UtilAll]"""
    seconds, rest = divmod(max(min(ms, MOST_TIME), -1), 1000)
    return time.strftime("%Y-%m-%d#%H:%M:%S:", time.localtime(seconds)) + f"{rest:03d}"


def _entry(phys: int, size: int, code: int) -> dict[str, Any]:
    entry = {"eval": False, "physicOffset": phys, "physicSize": size, "tagsCode": code}
    return (
        {**entry, "msg": f"Cq extend not exist!addr: {code}"} if code <= LAST_EXT_ADDRESS else entry
    )
