"""Whole tables, for operators and for tools that copy them. [AdminBrokerProcessor]"""

from __future__ import annotations

import trio

from pyrmq.broker.delay import DelayService
from pyrmq.broker.requests.bounded import Bounded
from pyrmq.broker.tables.offsets import OffsetTable
from pyrmq.broker.tables.topics import TopicTable
from pyrmq.engine import Command
from pyrmq.errors import ResponseError
from pyrmq.model.codes import ResponseCode
from pyrmq.net import fastjson
from pyrmq.net.command import Response
from pyrmq.net.server.answers import Elsewhere
from pyrmq.net.server.connection import Connection
from pyrmq.net.server.turns import in_turns

WAITING = 15
"""Copies that are made at a time besides one; more are refused."""
MAX_BODY = 15 << 20
"""Longest body that fits into a frame of RocketMQ's clients."""


class AdminTables:
    """None of them is paged: what RocketMQ's clients ask page by page they get at once."""

    def __init__(self, topics: TopicTable, offsets: OffsetTable, delays: DelayService) -> None:
        self._topics = topics
        self._offsets = offsets
        self._delays = delays
        self._copies = Bounded("copies of whole tables", 1, WAITING)

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
    if len(body) > MAX_BODY:
        raise ResponseError(
            f"the table has {len(body)} bytes: clients take no more than {MAX_BODY}",
            ResponseCode.SYSTEM_ERROR,
        )
    return Response(body=body)
