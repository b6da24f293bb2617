"""Message trace: records of sends and consumption, in a topic of their own. [AsyncTraceDispatcher]

A client with `trace=True` has a `Tracer`. Recording never waits and never fails. The records are
sent in the background, by a producer without a trace.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Awaitable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import trio

from pyrmq.client.instance import ClientInstance
from pyrmq.client.producer.outgoing import Outgoing, key_maker
from pyrmq.client.trace.records import (
    REGION,
    ConsumeCode,
    MessageType,
    TraceRecord,
    consume_began,
    consume_ended,
    is_traced,
    published,
    recalled,
    transaction_ended,
)
from pyrmq.engine import Command
from pyrmq.errors import PyrmqError
from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.model.message import Message, SendResult
from pyrmq.model.names import MAX_GROUP, TRACE_TOPIC, without_namespace
from pyrmq.model.properties import KEYS, decode_properties
from pyrmq.model.record import ReceivedMessage
from pyrmq.model.transaction import TransactionState
from pyrmq.net.address import address_of_message_id, format_address
from pyrmq.net.clock import now_ms
from pyrmq.net.tasks import Tasks

log = logging.getLogger(__name__)

WAITING = 2048
"""Most waiting records; further ones are dropped."""
BATCH = 10
"""So many records are sent at once; fewer after MAX_AGE seconds."""
MAX_AGE = 5.0
MAX_CHARACTERS = 128_000
"""A trace message ends when its text reaches this."""
MAX_KEYS = 30_000
"""Most bytes of keys of a trace message, because all properties together have a limit."""
CLOSE_GRACE = 5.0
PREPARED = 0x4


def sender_group(group: str, kind: str) -> str:
    """The producer group of a client's tracer; `kind` is PRODUCE or CONSUME."""
    return f"_INNER_TRACE_PRODUCER-{group}-{kind}-1"[:MAX_GROUP]


class TraceSender(AbstractAsyncContextManager[Any], Protocol):
    """Sends trace messages with a producer of its own."""

    async def send(self, message: Message) -> SendResult:
        """Sends one message."""


def store_host(client: ClientInstance, result: SendResult) -> str:
    """The address of the broker that has a message."""
    route = client.routes.known(result.queue.topic)
    if route is not None and (known := route.master_of(result.queue.broker_name)):
        return known
    address = address_of_message_id(result.offset_msg_id.partition(",")[0])
    return "" if address is None else format_address(address)


@dataclass(frozen=True, slots=True)
class Consuming:
    """Messages whose consumption has begun; for `Tracer.consumed`."""

    request_id: str
    topic: str
    messages: Sequence[ReceivedMessage]
    since: float


class Tracer:
    """Records for one group; an async context manager that sends its remaining records when it
    closes.

    `discarded` counts dropped records, `failed` those that could not be sent.
    """

    def __init__(
        self, sender: TraceSender, group: str, *, namespace: str = "", topic: str = TRACE_TOPIC
    ) -> None:
        self.discarded = self.failed = 0
        self._sender = sender
        self._group = group
        self._namespace = namespace
        self._topic = topic
        self._waiting: list[TraceRecord] = []
        self._filled = trio.Event()
        self._new_id = key_maker()
        self._tasks = Tasks()

    async def __aenter__(self) -> Tracer:
        await self._sender.__aenter__()
        await self._tasks.__aenter__()
        self._tasks.start_soon(self._run)
        return self

    async def __aexit__(self, *error: Any) -> None:
        try:
            await self._tasks.__aexit__(None, None, None)
            with trio.move_on_after(CLOSE_GRACE, shield=True):
                await self._flush()
        finally:
            await self._sender.__aexit__(*error)

    # For producers.

    async def around(
        self, request: Outgoing, sending: Awaitable[SendResult], client: ClientInstance
    ) -> SendResult:
        """Records a request around sending it."""
        began = trio.current_time()
        result = await sending
        self.sent(request, result, began, client)
        return result

    def sent(
        self, request: Outgoing, result: SendResult, began: float, client: ClientInstance
    ) -> None:
        """A request was answered; it began at this time of trio's clock."""
        topic = without_namespace(self._namespace, request.topic)
        if not result.trace_on or not result.region_id or topic.startswith(self._topic):
            return
        cost = round((trio.current_time() - began) * 1000)
        first = request.message
        kind = MessageType.NORMAL
        if request.sys_flag & PREPARED:
            kind = MessageType.HALF
        elif first is not None and first.is_delayed:
            kind = MessageType.DELAYED
        properties = first.all_properties() if first is not None else {}
        self._put(
            published(
                time=now_ms() - cost,
                region=result.region_id,
                group=self._group,
                topic=topic,
                msg_id=result.msg_id,
                tags=properties.get("TAGS"),
                keys=properties.get(KEYS),
                store_host=store_host(client, result),
                body_length=len(request.body),
                cost=cost,
                message_type=kind,
                offset_msg_id=result.offset_msg_id,
            )
        )

    def transaction_ended(
        self,
        properties: str | dict[str, str],
        topic: str,
        msg_id: str,
        transaction_id: str | None,
        state: TransactionState,
        store_host: str,
        *,
        from_check: bool,
    ) -> None:
        """END_TRANSACTION was sent for a message with these properties."""
        if isinstance(properties, str):
            properties = decode_properties(properties)
        self._put(
            transaction_ended(
                time=now_ms(),
                group=self._group,
                topic=without_namespace(self._namespace, topic),
                msg_id=msg_id,
                tags=properties.get("TAGS"),
                keys=properties.get(KEYS),
                store_host=store_host,
                transaction_id=transaction_id,
                state=state,
                from_check=from_check,
            )
        )

    def recalled(self, topic: str, msg_id: str, answer: Command) -> None:
        """A broker has answered a recall; only one that states its region is traced, as in Java."""
        region = answer.ext.get(REGION)
        if region is None:
            return
        self._put(
            recalled(
                time=now_ms(),
                region=region,
                group=self._group,
                topic=topic,
                msg_id=msg_id,
                success=answer.code == 0,
            )
        )

    # For consumers.

    def consuming(self, messages: Iterable[ReceivedMessage]) -> Consuming | None:
        """Messages of one topic are about to be consumed together; None if none is traced."""
        traced = [m for m in messages if is_traced(m) and not m.topic.startswith(self._topic)]
        if not traced:
            return None
        topic = without_namespace(self._namespace, traced[0].topic)
        consuming = Consuming(self._new_id(), topic, traced, trio.current_time())
        self._put(
            consume_began(
                traced,
                time=now_ms(),
                group=self._group,
                topic=topic,
                request_id=consuming.request_id,
            )
        )
        return consuming

    def consumed(self, consuming: Consuming | None, code: ConsumeCode) -> None:
        """Records the result."""
        if consuming is None:
            return
        cost = (trio.current_time() - consuming.since) * 1000 / len(consuming.messages)
        self._put(
            consume_ended(
                consuming.messages,
                time=now_ms(),
                group=self._group,
                topic=consuming.topic,
                request_id=consuming.request_id,
                cost=int(cost),
                code=code,
            )
        )

    def listened(
        self,
        consuming: Consuming | None,
        done: bool,
        *,
        error: BaseException | None = None,
        late: bool = False,
    ) -> None:
        """A listener has finished: it consumed all, raised, or took too long."""
        code = ConsumeCode.SUCCESS if done else ConsumeCode.FAILED
        if late:
            code = ConsumeCode.TIME_OUT
        self.consumed(consuming, code if error is None else ConsumeCode.EXCEPTION)

    def polled(self, messages: Sequence[ReceivedMessage], since: float = 0.0) -> None:
        """Messages of one queue were polled; their later result is not known."""
        self.consumed(self.consuming(messages), ConsumeCode.SUCCESS)

    def unseen(self, consuming: Consuming | None) -> None:
        """Nobody has seen the messages: there is no record of their end."""

    # Sending.

    def _put(self, record: TraceRecord) -> None:
        if len(self._waiting) >= WAITING:
            self.discarded += 1
            return
        self._waiting.append(record)
        if len(self._waiting) >= BATCH:
            self._filled.set()

    async def _run(self) -> None:
        while True:
            with trio.move_on_after(MAX_AGE):
                await self._filled.wait()
            self._filled = trio.Event()
            await self._flush()

    async def _flush(self) -> None:
        records, self._waiting = self._waiting, []
        by_topic: defaultdict[str, list[TraceRecord]] = defaultdict(list)
        for record in records:
            by_topic[record.topic].append(record)
        for of_topic in by_topic.values():
            for message, count in self._messages(of_topic):
                try:
                    await self._sender.send(message)
                except PyrmqError as e:
                    self.failed += count
                    log.warning(
                        "trace of group %s not sent: %s",
                        escape(self._group),
                        escape(e),
                        extra=about(group=self._group),
                    )

    def _messages(self, records: list[TraceRecord]) -> Iterable[tuple[Message, int]]:
        """Trace messages, each with the number of its records."""
        part: list[TraceRecord] = []
        size = 0
        for record in records:
            if part and size + len(record.text) > MAX_CHARACTERS:
                yield self._message(part), len(part)
                part, size = [], 0
            part.append(record)
            size += len(record.text)
        if part:
            yield self._message(part), len(part)

    def _message(self, records: list[TraceRecord]) -> Message:
        keys: dict[str, None] = {}
        size = 0
        for key in (key for record in records for key in record.keys):
            size += len(key.encode(errors="replace")) + 1
            if size > MAX_KEYS:
                break
            keys[key] = None
        body = "".join(record.text for record in records).encode(errors="replace")
        return Message(self._topic, body, keys=list(keys))
