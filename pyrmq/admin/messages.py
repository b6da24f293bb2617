"""Messages: finding them by id, key or offset, and reading queues."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from dataclasses import dataclass

from pyrmq.admin.link import Replica
from pyrmq.admin.message_ids import check_id
from pyrmq.admin.outcome import Outcomes, Partial
from pyrmq.admin.queue_files import QueueIndex
from pyrmq.admin.registered import address_in, broker_at
from pyrmq.admin.sending import producer_of
from pyrmq.admin.traces import MAX_TRACES, MessageTracks, Trace, traces_of
from pyrmq.errors import (
    ClientError,
    NotFoundError,
    ProtocolError,
    PyrmqError,
    QueryNotFoundError,
    ResponseError,
    TopicNotExistError,
)
from pyrmq.model.codes import RequestCode
from pyrmq.model.message import Message, MessageQueue, SendResult
from pyrmq.model.names import TRACE_TOPIC
from pyrmq.model.properties import UNIQ_KEY
from pyrmq.model.record import ReceivedMessage, Room, decode_records
from pyrmq.model.topic import as_int
from pyrmq.net.address import Address, address_of_message_id, format_address, offset_of_message_id
from pyrmq.net.client.requests import PullStatus, pull_fields, read_pull
from pyrmq.net.command import MAX_NUMBER, number

INDEX_UNIT = 1000
"""The index counts whole seconds, so its time of a message may be earlier by so many ms."""
QUERY_TIMEOUT = 18.0
"""Seconds for a query by key at one broker. [MQAdminImpl.queryMessage: 6 s times 3]"""
PULL_TIMEOUT = 10.0
PULL_COUNT = 32
"""Messages requested at a time."""
UNIQUE_COUNT = 32
"""Most messages of one unique key that are asked for."""
THREE_DAYS = 3 * 86_400_000


@dataclass(frozen=True, slots=True)
class DirectResult:
    """The result of a consumer for a message. [ConsumeMessageDirectlyResult]"""

    order: bool
    auto_commit: bool
    result: str
    """CR_SUCCESS, CR_LATER, CR_ROLLBACK, CR_COMMIT, CR_THROW_EXCEPTION or CR_RETURN_NULL."""
    remark: str | None
    spent_ms: int


@dataclass(frozen=True, slots=True)
class QueueSlice:
    """A part of a queue: offsets from `begin` to before `end`."""

    queue: MessageQueue
    begin: int
    end: int


class Messages(MessageTracks, QueueIndex):
    """`admin.messages`."""

    async def get(self, topic: str, message_id: str) -> ReceivedMessage:
        """A message by its offset id, or otherwise by its unique id among those of the last three
        days. Raises NotFoundError if there is none."""
        check_id(message_id)
        place = self._place(message_id)
        unreached: PyrmqError | None = None
        if place is not None:
            try:
                return await self._at(*place)
            except (ProtocolError, ResponseError):
                pass  # a unique id that looks like an offset id, or it was deleted
            except ClientError as e:
                unreached = e
        begin = time.time_ns() // 1_000_000 - THREE_DAYS
        try:
            return (await self.by_unique_key(topic, message_id, begin=begin))[0]
        except NotFoundError as e:
            if unreached is not None:
                e.hint = f"if it is an offset id: {unreached}"
            raise

    async def by_offset_id(self, message_id: str) -> ReceivedMessage:
        """The message with an offset id. The id may be a text of others, such as a unique id that a
        sender chose: only brokers that a name server knows are asked. Raises NotFoundError if it is
        no offset id of one, and the error of the broker if that has no message there."""
        place = self._place(message_id)
        if place is None or not await broker_at(self._link, address_in(message_id)):
            raise NotFoundError(f"{message_id[:64]} is no offset id of this cluster")
        return await self._at(*place)

    @staticmethod
    def _place(message_id: str) -> tuple[Address, int] | None:
        """The address and the offset of an offset id; None for what can be none."""
        address, offset = address_of_message_id(message_id), offset_of_message_id(message_id)
        if address is None or offset is None or not address_in(message_id):
            return None
        return address, offset

    async def _at(self, address: Address, offset: int) -> ReceivedMessage:
        answer = await self._link.ask(address, RequestCode.VIEW_MESSAGE_BY_ID, {"offset": offset})
        name = ""
        with suppress(PyrmqError):  # the message is there, whatever its broker is called
            name = await self._broker_at(format_address(address))
        found = decode_records(answer.body, broker_name=name)
        if not found:
            raise ProtocolError("an answer without a message")
        return found[0]

    async def by_key(
        self,
        topic: str,
        key: str,
        *,
        begin: int = 0,
        end: int = MAX_NUMBER,
        limit: int = 64,
        cluster: str | None = None,
    ) -> Partial[ReceivedMessage]:
        """Messages of a topic with a key, by store time. Times are ms since 1970; `limit` counts
        for each broker. Raises NotFoundError if there are none, or the error of a broker that did
        not answer if the others have none."""
        found = await self._keyed(topic, key, begin, end, limit, cluster)
        return _some(found, f"the key {key}")

    async def by_unique_key(
        self, topic: str, key: str, *, begin: int = 0, cluster: str | None = None
    ) -> Partial[ReceivedMessage]:
        """Messages with a unique id, by store time; more than one if it was sent again. Raises as
        `by_key`."""
        return _some(await self._unique(topic, key, begin, cluster), f"the id {key}")

    async def indexed(
        self, topic: str, key: str, *, unique: bool = True, limit: int = 64
    ) -> Partial[ReceivedMessage]:
        """As `by_unique_key`, or `by_key`, but to find nothing is no error, also if some brokers
        did not answer. Raises TopicNotExistError, and the error of a broker if none answered."""
        if unique:
            return await self._unique(topic, key, 0, None)
        return await self._keyed(topic, key, 0, MAX_NUMBER, limit, None)

    async def _unique(
        self, topic: str, key: str, begin: int, cluster: str | None
    ) -> Partial[ReceivedMessage]:
        found = await self._query(topic, key, begin, MAX_NUMBER, UNIQUE_COUNT, cluster, unique=True)
        own = [m for m in found if m.properties.get(UNIQ_KEY) == key]
        return Partial(own, found.failed)

    async def _keyed(
        self, topic: str, key: str, begin: int, end: int, limit: int, cluster: str | None
    ) -> Partial[ReceivedMessage]:
        found = await self._query(topic, key, begin, end, limit, cluster, unique=False)
        own = [
            m
            for m in found
            if m.topic == topic and key in m.keys and begin <= m.store_timestamp <= end
        ]
        return Partial(own, found.failed)

    async def _query(
        self,
        topic: str,
        key: str,
        begin: int,
        end: int,
        limit: int,
        cluster: str | None,
        *,
        unique: bool,
    ) -> Partial[ReceivedMessage]:
        brokers = [b for b in await self._link.brokers_of(topic) if cluster in (None, b.cluster)]
        if not brokers:
            raise TopicNotExistError(f"topic {topic} has no broker in cluster {cluster}")

        answered = 0
        self._link.progress("brokers", 0, len(brokers))

        async def ask(address: str) -> list[ReceivedMessage]:
            nonlocal answered
            try:
                return await search(address)
            finally:
                answered += 1
                self._link.progress("brokers", answered, len(brokers))

        async def search(address: str) -> list[ReceivedMessage]:
            ext: dict[str, str | int | bool] = {
                "topic": topic,
                "key": key,
                "maxNum": limit,
                "beginTimestamp": max(begin - INDEX_UNIT, 0),
                "endTimestamp": end,
                "_UNIQUE_KEY_QUERY": unique,
            }
            try:
                answer = await self._link.ask(
                    address,
                    RequestCode.QUERY_MESSAGE,
                    ext,
                    timeout=self._link.patience(QUERY_TIMEOUT),
                )
            except QueryNotFoundError:
                return []
            return decode_records(answer.body, broker_name=_name(brokers, address))

        asked: Outcomes[list[ReceivedMessage]] = await self._link.on_each(brokers, ask)
        found = [m for messages in asked.check().values for m in messages]
        found.sort(key=lambda m: (m.store_timestamp, m.commit_log_offset))
        return Partial(found, asked.failed)

    async def traces(
        self,
        message_id: str,
        *,
        topic: str = TRACE_TOPIC,
        begin: int = 0,
        end: int = MAX_NUMBER,
        limit: int = 64,
    ) -> Partial[Trace]:
        """The trace of a message: what clients say they did with it, by time, MAX_TRACES records at
        most. `limit` counts messages of the trace topic. Raises as `by_key`."""
        found = await self.by_key(topic, message_id, begin=begin, end=end, limit=limit)
        shown = [t for m in found for t in traces_of(m, message_id)][:MAX_TRACES]
        return Partial(sorted(shown, key=lambda t: t.time), found.failed)

    async def consume_directly(
        self, message: ReceivedMessage, group: str, client_id: str
    ) -> DirectResult:
        """Makes a connected consumer consume a message now; offsets do not change. Raises
        ResponseError if it is not connected, or cannot."""
        found = await self._link.ask_json(
            message.store_host,
            RequestCode.CONSUME_MESSAGE_DIRECTLY,
            {
                "consumerGroup": group,
                "clientId": client_id,
                "topic": message.topic,
                "msgId": message.offset_msg_id,
                "brokerName": message.broker_name,
            },
        )
        remark = found.get("remark")
        return DirectResult(
            order=found.get("order") is True,
            auto_commit=found.get("autoCommit") is not False,
            result=str(found.get("consumeResult", "")),
            remark=None if remark is None else str(remark),
            spent_ms=as_int(found.get("spentTimeMills"), 0),
        )

    async def send(
        self,
        message: Message,
        *,
        broker_name: str | None = None,
        queue_id: int | None = None,
        trace: bool = False,
    ) -> SendResult:
        """Sends a message to a queue of a broker, to any queue of a broker, or to any queue. Raises
        ClientError if there is no such queue, and otherwise as `Producer.send`."""
        async with producer_of(self._link, trace=trace) as producer:
            queue = None
            if broker_name is not None:
                queue = next(
                    (
                        q
                        for q in await producer.queues(message.topic)
                        if q.broker_name == broker_name and queue_id in (None, q.queue_id)
                    ),
                    None,
                )
                if queue is None:
                    where = "" if queue_id is None else f" {queue_id}"
                    raise ClientError(
                        f"topic {message.topic} has no queue{where} on broker {broker_name}"
                    )
            return await producer.send(message, queue=queue)

    async def queues(self, topic: str) -> list[MessageQueue]:
        """The readable queues of a topic, by broker name and number."""
        route = await self._link.route(topic)
        found = route.subscribe_queues(topic)
        return sorted(found, key=lambda q: (q.broker_name, q.queue_id))

    async def slice(
        self, queue: MessageQueue, *, begin: int | None = None, end: int | None = None
    ) -> QueueSlice:
        """The offsets of a queue, or of the messages stored in it from the time `begin` on and
        before the time `end` (ms since 1970)."""
        address = await self._address(queue)
        place: dict[str, str | int | bool] = {"topic": queue.topic, "queueId": queue.queue_id}

        async def offset(code: int, **more: int) -> int:
            return number(await self._link.ask(address, code, {**place, **more}), "offset")

        search = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
        last = await offset(RequestCode.GET_MAX_OFFSET)
        if begin is None:
            first = await offset(RequestCode.GET_MIN_OFFSET)
        else:
            first = await offset(search, timestamp=begin)
        if end is not None:
            last = min(last, await offset(search, timestamp=end))
        return QueueSlice(queue, max(first, 0), max(last, 0))

    async def at(self, queue: MessageQueue, offset: int) -> ReceivedMessage:
        """The message at an offset of a queue. Raises NotFoundError if there is none."""
        async with aclosing(self.read(QueueSlice(queue, offset, offset + 1))) as found:
            async for message in found:
                if message.queue_offset == offset:
                    return message
        raise NotFoundError(f"queue {queue.queue_id} has no message at {offset}")

    async def read(
        self, part: QueueSlice, *, expression: str = "*"
    ) -> AsyncGenerator[ReceivedMessage, None]:
        """The messages of a slice that a tag expression selects. It commits nothing and skips
        deleted messages. If you stop before the end, close it (`contextlib.aclosing`)."""
        queue, at = part.queue, part.begin
        address = await self._address(queue)
        while at < part.end:
            self._link.progress(
                f"queue {queue.queue_id} of {queue.broker_name}", at - part.begin,
                part.end - part.begin,
            )  # fmt: skip
            ext = pull_fields(
                queue.topic,
                queue.queue_id,
                at,
                min(PULL_COUNT, part.end - at),
                broker=queue.broker_name,
                expression=expression,
            )
            pulled = read_pull(
                await self._link.call(
                    address,
                    RequestCode.PULL_MESSAGE,
                    ext,
                    timeout=self._link.patience(PULL_TIMEOUT),
                )
            )
            if pulled.status is PullStatus.FOUND:
                room = Room(cuts=True)
                found = decode_records(pulled.body, broker_name=queue.broker_name, room=room)
                at = room.next_offset(at, pulled.next_beyond(at))
                for message in found:
                    if message.queue_offset < part.end:
                        yield message
            elif pulled.status is PullStatus.NO_NEW_MESSAGE or pulled.next_offset <= at:
                return
            else:
                at = pulled.next_offset

    async def _address(self, queue: MessageQueue) -> str:
        """Where to ask for a queue: its master, or a replica where it has none."""
        route = await self._link.route(queue.topic)
        address = route.address_of(queue.broker_name)
        if address is None:
            names = ", ".join(sorted(b.broker_name for b in route.brokers)) or "none"
            raise ClientError(
                f"topic {queue.topic} is not on broker {queue.broker_name}: it is on {names}"
            )
        return address


def _name(brokers: list[Replica], address: str) -> str:
    return next(b.broker_name for b in brokers if b.address == address)


def _some(found: Partial[ReceivedMessage], what: str) -> Partial[ReceivedMessage]:
    if found:
        return found
    error = found.failed[0].error if found.failed else None
    if error is None:
        raise NotFoundError(f"no message has {what}")
    error.hint = f"no message has {what} where brokers answered"
    raise error
