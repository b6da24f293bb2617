"""The requests that operators send to one broker, and the way to the brokers of a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pyrmq.engine import Command
from pyrmq.errors import (
    ProtocolError,
    QueryNotFoundError,
    TopicNotExistError,
)
from pyrmq.model.codes import RequestCode, ResponseCode
from pyrmq.model.names import TRANSACTION_GROUP
from pyrmq.model.record import ReceivedMessage, decode_record
from pyrmq.net import fastjson
from pyrmq.net.address import Address, format_address
from pyrmq.net.client.channel import Channels
from pyrmq.net.client.requests import PullStatus, pull_fields, read_pull
from pyrmq.net.command import MAX_NUMBER, check_success, number

TIMEOUT = 10.0
NAME_SERVER_TIMEOUT = 3.0
PULL_COUNT = 256
"""Messages asked for at a time; brokers send fewer when they think that better."""
QUERY_COUNT = 64
Ext = dict[str, str | int | bool]


def split_records(body: bytes) -> Iterator[memoryview]:
    """The records of an answer as they are. ProtocolError if their sizes do not add up."""
    view = memoryview(body)
    while view:
        size = int.from_bytes(view[:4], "big", signed=True)
        if not 28 <= size <= len(view):
            raise ProtocolError("not message records: sizes do not add up")
        yield view[:size]
        view = view[size:]


def queue_offset_of(record: memoryview) -> int:
    """The queue offset that a record states, without reading the rest of it."""
    return int.from_bytes(record[20:28], "big", signed=True)


@dataclass(frozen=True, slots=True)
class Pulled:
    body: bytes
    next_offset: int
    end: bool
    """Whether the broker has nothing from the offset on."""


class BrokerLink:
    """One broker; every request is a two-way one. Transactions use queue 0 of their topics."""

    def __init__(self, channels: Channels, address: Address, *, timeout: float = TIMEOUT) -> None:
        self._channels = channels
        self._timeout = timeout
        self.address = address
        self.name = format_address(address)

    async def _call(self, code: int, ext: Ext) -> Command:
        channel = await self._channels.get(self.address)
        return await channel.call(code, ext, timeout=self._timeout)

    async def _request(self, code: int, ext: Ext) -> Command:
        return check_success(await self._call(code, ext))

    async def queue_range(self, topic: str) -> tuple[int, int]:
        """First offset and end of a topic's queue; equal where there is nothing, or no topic."""
        place: Ext = {"topic": topic, "queueId": 0}
        try:
            end = number(await self._request(RequestCode.GET_MAX_OFFSET, place), "offset")
            if end <= 0:
                return 0, 0
            begin = number(await self._request(RequestCode.GET_MIN_OFFSET, place), "offset")
        except TopicNotExistError:
            return 0, 0
        return min(max(begin, 0), end), end

    async def group_offset(self, topic: str) -> int | None:
        """How far transactions are settled, as far as the broker has written that down."""
        ext: Ext = {"topic": topic, "queueId": 0, "consumerGroup": TRANSACTION_GROUP}
        try:
            offset = number(await self._request(RequestCode.QUERY_CONSUMER_OFFSET, ext), "offset")
        except (QueryNotFoundError, TopicNotExistError):
            return None
        return offset if offset >= 0 else None

    async def offset_at(self, topic: str, time: int) -> int:
        """The offset of the first message that was stored at a time (ms) or later."""
        ext: Ext = {"topic": topic, "queueId": 0, "timestamp": time}
        return number(await self._request(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, ext), "offset")

    async def pull(self, topic: str, offset: int, count: int = PULL_COUNT) -> Pulled:
        """Records from an offset on; `next_offset` is beyond `offset` unless that is the end."""
        ext = pull_fields(topic, 0, offset, count)
        pulled = read_pull(await self._call(RequestCode.PULL_MESSAGE, ext))
        if pulled.status is PullStatus.FOUND:
            return Pulled(pulled.body, pulled.next_beyond(offset), False)
        if pulled.status is PullStatus.NO_NEW_MESSAGE or pulled.next_offset <= offset:
            return Pulled(b"", offset, True)
        return Pulled(b"", pulled.next_offset, False)

    async def view(self, phys: int) -> ReceivedMessage | None:
        """The message at a physical offset."""
        answer = await self._call(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": phys})
        if answer.code != ResponseCode.SUCCESS:
            return None
        try:
            message = decode_record(memoryview(answer.body), inflate_body=False)
        except ProtocolError:
            return None  # RocketMQ answers with whatever stands there
        return message if message.commit_log_offset == phys else None

    async def query(self, topic: str, key: str) -> list[ReceivedMessage]:
        """Messages of a topic that the index knows under a unique key, by physical offset."""
        ext: Ext = {
            "topic": topic,
            "key": key,
            "maxNum": QUERY_COUNT,
            "beginTimestamp": 0,
            "endTimestamp": MAX_NUMBER,
        }
        try:
            answer = await self._request(RequestCode.QUERY_MESSAGE, ext)
        except (QueryNotFoundError, TopicNotExistError):
            return []
        found = [decode_record(r, inflate_body=False) for r in split_records(answer.body)]
        return sorted(
            {
                m.commit_log_offset: m
                for m in found
                if m.topic == topic and m.properties.get("UNIQ_KEY") == key
            }.values(),
            key=lambda m: m.commit_log_offset,
        )

    async def end_transaction(self, ext: Ext) -> Command:
        """END_TRANSACTION, two-way: what the broker answered."""
        return await self._call(RequestCode.END_TRANSACTION, ext)

    async def resume(self, topic: str, offset_msg_id: str) -> Command:
        """RESUME_CHECK_HALF_MESSAGE: what the broker answered."""
        ext: Ext = {"topic": topic, "msgId": offset_msg_id}
        return await self._call(RequestCode.RESUME_CHECK_HALF_MESSAGE, ext)

    async def runtime_info(self) -> dict[str, str]:
        """GET_BROKER_RUNTIME_INFO; empty where the broker does not answer it."""
        answer = await self._call(RequestCode.GET_BROKER_RUNTIME_INFO, {})
        if answer.code != ResponseCode.SUCCESS:
            return {}
        table = fastjson.loads_object(answer.body).get("table")
        return {str(k): str(v) for k, v in table.items()} if isinstance(table, dict) else {}
