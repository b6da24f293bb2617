"""How far queues and groups are, and who is connected, for operators. [AdminBrokerProcessor]"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import trio

from pyrmq.broker.requests import fields
from pyrmq.broker.stats.broker_stats import BrokerStats
from pyrmq.broker.tables.clients import Client, ClientTable
from pyrmq.broker.tables.groups import GroupTable
from pyrmq.broker.tables.offsets import OffsetTable
from pyrmq.broker.tables.offsets_and_queues import DeletedUnread
from pyrmq.broker.tables.topics import TopicTable
from pyrmq.engine import Command, Store
from pyrmq.errors import InvalidParameterError, ResponseError
from pyrmq.model.codes import LANGUAGES, ResponseCode
from pyrmq.model.message import MessageQueue
from pyrmq.model.topic import TopicConfig
from pyrmq.net import fastjson
from pyrmq.net.address import Address, format_address
from pyrmq.net.clock import now_ms
from pyrmq.net.command import Response
from pyrmq.net.server.connection import Connection
from pyrmq.net.server.turns import TURN_SECONDS, in_turns

MAX_QUEUES = 32_768
"""Most queues that one answer tells of."""
MAX_SUBSCRIPTIONS = 16_384
"""Most subscriptions of single members that one answer tells of."""
READERS = 4
"""Requests at a time; they have threads of their own, as they may read a cold disk."""

Key = tuple[tuple[str, object], ...]
Place = tuple[str, int, int, int]
"""Topic, queue, the offset that a group committed, and where its next pull is expected."""


class ConsumeStatsProcessor:
    def __init__(
        self,
        broker_name: str,
        address: Address,
        store: Store,
        topics: TopicTable,
        groups: GroupTable,
        clients: ClientTable,
        offsets: OffsetTable,
        stats: BrokerStats,
        deleted_unread: DeletedUnread,
    ) -> None:
        self._broker_name = broker_name
        self._address = address
        self._store = store
        self._topics = topics
        self._groups = groups
        self._clients = clients
        self._offsets = offsets
        self._stats = stats
        self._deleted_unread = deleted_unread
        self._readers = trio.CapacityLimiter(READERS)

    def _key(self, topic: str, queue_id: int) -> Key:
        """A queue as fastjson writes one that is an object's key."""
        return MessageQueue(topic, self._broker_name, queue_id).as_key()

    async def topic_stats(self, connection: Connection, command: Command) -> Response:
        """GET_TOPIC_STATS_INFO: where the queues of a topic begin and end, and when the last
        message of each was stored."""
        topic = fields.text(command, "topic")
        known = self._topics.require(topic)
        queues = max(known.read_queue_nums, known.write_queue_nums)
        table = await trio.to_thread.run_sync(
            self._topic_rows, topic, queues, self._topics.queues_of(known), limiter=self._readers
        )
        tps = self._stats.put_tps(topic)
        return Response(body=fastjson.dumps({"offsetTable": table, "topicPutTps": tps}))

    def _topic_rows(self, topic: str, queues: int, had: int) -> dict[Key, dict[str, int]]:
        """Of the topic's queues, and of those that it `had` and that still hold messages."""
        rows = {}
        for queue_id in range(had):
            low, high = self._store.queue_range(topic, queue_id)
            if queue_id >= queues and low >= high:
                continue
            rows[self._key(topic, queue_id)] = {
                "lastUpdateTimestamp": max(self._time(topic, queue_id, high - 1), 0),
                "maxOffset": high,
                "minOffset": low,
            }
        return rows

    def _unread(self, topic: str, queue_id: int, offset: int) -> bool:
        """Whether a queue has a message at `offset` or behind it."""
        low, high = self._store.queue_range(topic, queue_id)
        return max(low, offset) < high

    def _time(self, topic: str, queue_id: int, offset: int) -> int:
        return self._store.store_time(topic, queue_id, offset) if offset >= 0 else 0

    async def consume_stats(self, connection: Connection, command: Command) -> Response:
        """GET_CONSUME_STATS: how far a group is in its topics, or in those that are named. Those of
        `topicList` count also if the group's members do not want them. Queues that a topic has no
        more count while they hold what the group has not consumed. `minOffset` of a queue and
        `deletedUnread` (messages that retention deleted before the group consumed them, since the
        broker's start) are ours."""
        group = fields.text(command, "consumerGroup")
        listed = command.ext.get("topicList")
        named = listed or command.ext.get("topic") or ""
        topics = [t for t in dict.fromkeys(named.split(";")) if t] or self._offsets.topics_of(group)
        wanted: list[Place] = []
        tps = 0.0
        for known in self._consumed(group, topics, all_of_them=bool(listed)):
            if len(wanted) + self._topics.queues_of(known) > MAX_QUEUES:
                raise InvalidParameterError(
                    f"more than {MAX_QUEUES} queues: name fewer topics (topicList)"
                )
            await trio.lowlevel.checkpoint()
            wanted += self._places(known, group, known.read_queue_nums)
            tps += self._stats.get_tps(known.topic_name, group)
        table = await trio.to_thread.run_sync(self._group_rows, wanted, limiter=self._readers)
        body = {
            "consumeTps": tps,
            "deletedUnread": self._deleted_unread.of_group(group),
            "offsetTable": table,
        }
        return Response(body=fastjson.dumps(body))

    async def all_consume_stats(self, connection: Connection, command: Command) -> Response:
        """GET_BROKER_CONSUME_STATS: the same of all groups, a table for each of their topics."""
        ordered = fields.flag(command, "isOrder")
        wanted: list[tuple[str, list[tuple[float, list[Place]]]]] = []
        queues = 0
        turn = time.monotonic() + TURN_SECONDS
        for group in sorted(self._groups.groups):
            if time.monotonic() >= turn:
                await trio.lowlevel.checkpoint()
                turn = time.monotonic() + TURN_SECONDS
            topics: list[tuple[float, list[Place]]] = []
            for known in self._consumed(group, self._offsets.topics_of(group)):
                if ordered and not known.order:
                    continue
                queues += self._topics.queues_of(known)
                if queues > MAX_QUEUES:
                    raise InvalidParameterError(
                        f"more than {MAX_QUEUES} queues: ask for the groups one by one "
                        "(GET_CONSUME_STATS, mqadmin consumerProgress -g)"
                    )
                places = self._places(known, group, known.write_queue_nums)
                topics.append((self._stats.get_tps(known.topic_name, group), places))
            if topics:
                wanted.append((group, topics))
        rows = await trio.to_thread.run_sync(self._broker_rows, wanted, limiter=self._readers)
        tables = [stats["offsetTable"] for one in rows for some in one.values() for stats in some]
        behind = [row for table in tables for row in table.values()]
        body = {
            "brokerAddr": format_address(self._address),
            "consumeStatsList": rows,
            "totalDiff": sum(row["brokerOffset"] - row["consumerOffset"] for row in behind),
            "totalInflightDiff": sum(row["pullOffset"] - row["consumerOffset"] for row in behind),
        }
        return Response(body=fastjson.dumps(body))

    def _consumed(
        self, group: str, topics: list[str], *, all_of_them: bool = False
    ) -> Iterator[TopicConfig]:
        """Those of the topics that exist, without what the group consumed before it subscribed to
        something else, unless `all_of_them`."""
        live = None if all_of_them else self._clients.consumers.get(group)
        for topic in topics:
            known = self._topics.get(topic)
            if known is None:
                continue
            if live is not None and live.subscriptions and topic not in live.subscriptions:
                continue
            yield known

    def _places(self, known: TopicConfig, group: str, queues: int) -> list[Place]:
        """The first `queues` of a topic, and those behind that hold what the group has not
        consumed: a topic with fewer queues than it had hides no message."""
        topic = known.topic_name
        places = []
        for queue_id in range(max(queues, self._topics.queues_of(known))):
            offset = self._offsets.query(topic, group, queue_id)
            if offset is None:
                offset = self._topics.deleted.first_offset(topic, queue_id)
            if queue_id >= queues and not self._unread(topic, queue_id, offset):
                continue
            pulled = self._offsets.next_pull(topic, group, queue_id)
            places.append((topic, queue_id, offset, max(pulled, offset)))
        return places

    def _broker_rows(
        self, wanted: list[tuple[str, list[tuple[float, list[Place]]]]]
    ) -> list[dict[str, list[dict[str, Any]]]]:
        return [
            {
                group: [
                    {"consumeTps": tps, "offsetTable": self._group_rows(places)}
                    for tps, places in topics
                ]
            }
            for group, topics in wanted
        ]

    def _group_rows(self, wanted: list[Place]) -> dict[Key, dict[str, int]]:
        rows = {}
        for topic, queue_id, offset, pulled in wanted:
            low, high = self._store.queue_range(topic, queue_id)
            rows[self._key(topic, queue_id)] = {
                "brokerOffset": high,
                "consumerOffset": offset,
                "lastTimestamp": max(self._time(topic, queue_id, offset - 1), 0),
                "minOffset": low,
                "pullOffset": pulled,
            }
        return rows

    def consumers(self, connection: Connection, command: Command) -> Response:
        """GET_CONSUMER_CONNECTION_LIST. Where members subscribe differently, each connection also
        has what it wants (`subscriptions`): RocketMQ's format has one table for all."""
        name = fields.text(command, "consumerGroup")
        group = self._clients.consumers.get(name)
        if group is None or not group.clients:
            raise ResponseError(
                f"the consumer group[{name[:255]}] not online", ResponseCode.CONSUMER_NOT_ONLINE
            )
        connections = _connections(group.clients)
        if group.agreement.differs:
            room = MAX_SUBSCRIPTIONS
            for shown, member in zip(connections, group.clients, strict=True):
                wanted = group.agreement.shown(member)
                if wanted is not None and len(wanted) <= room:
                    room -= len(wanted)
                    shown["subscriptions"] = wanted
        body = {
            "connectionSet": connections,
            "consumeFromWhere": group.consume_from_where,
            "consumeType": group.consume_type,
            "messageModel": group.message_model,
            "subscriptionTable": {t: s.to_json() for t, s in sorted(group.subscriptions.items())},
        }
        return Response(body=fastjson.dumps(body))

    def producers(self, connection: Connection, command: Command) -> Response:
        """GET_PRODUCER_CONNECTION_LIST."""
        name = fields.text(command, "producerGroup")
        members = self._clients.producers.get(name)
        if not members:
            raise ResponseError(
                f"the producer group[{name[:255]}] not exist", ResponseCode.SYSTEM_ERROR
            )
        return Response(body=fastjson.dumps({"connectionSet": _connections(members)}))

    async def all_producers(self, connection: Connection, command: Command) -> Response:
        """GET_ALL_PRODUCER_INFO: the producers of each group. [ProducerTableInfo]"""
        now, clock = now_ms(), trio.current_time()
        rows: list[bytes] = []

        def add(name: str) -> None:
            members = self._clients.producers.get(name, {})
            row = [
                {
                    "clientId": client.client_id,
                    "language": _language(client),
                    "lastUpdateTimestamp": now - int((clock - client.last_seen) * 1000),
                    "remoteIP": f"/{peer.peer}",
                    "version": client.version,
                }
                for peer, client in members.items()
            ]
            if row:
                rows.append(fastjson.member(name, row))

        await in_turns(list(self._clients.producers), add)
        return Response(body=b'{"data":{' + b",".join(rows) + b"}}")


def _language(client: Client) -> str:
    return LANGUAGES[client.language] if 0 <= client.language < len(LANGUAGES) else "OTHER"


def _connections(members: dict[Connection, Client]) -> list[dict[str, Any]]:
    return [
        {
            "clientAddr": connection.peer,
            "clientId": client.client_id,
            "language": _language(client),
            "version": client.version,
        }
        for connection, client in members.items()
    ]
