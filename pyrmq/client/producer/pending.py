"""What a producer waits for: the results of `send_soon`, and replies.

A result is computed when somebody asks for it. A request that is answered by a message names the
client of its sender and has an id. Its consumer sends a reply with both, and the broker that gets
the reply passes it to the sender's connection. [RequestFutureHolder, MessageUtil]
"""

from __future__ import annotations

import copy
import logging
import os
import threading
from collections.abc import Awaitable, Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any

import trio

from pyrmq.client.checks import check_kind
from pyrmq.client.instance import ROUTE_INTERVAL, ClientInstance
from pyrmq.client.producer.outgoing import Outgoing
from pyrmq.engine import Command
from pyrmq.errors import ClientError, ProtocolError, PyrmqError, RequestTimeoutError
from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.model.codes import RequestCode
from pyrmq.model.message import Message, SendResult
from pyrmq.model.properties import MESSAGE_TYPE, REPLY, decode_properties
from pyrmq.model.record import ReceivedMessage, received
from pyrmq.net.client.requests import SendHeader
from pyrmq.net.clock import now_ms
from pyrmq.net.command import Response, number

CHECKPOINT_EVERY = 64
"""Messages that wait for nothing between two checkpoints."""
KEPT_CAUSES = 16
_LOCK = threading.Lock()
"""For failures that several threads ask for."""


def _in_forked_child() -> None:
    global _LOCK
    _LOCK = threading.Lock()  # somebody may have had it who is not here


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_forked_child)


def result_in_batch(
    batch: SendResult, index: int, msg_id: str, offset_ids: Sequence[str]
) -> SendResult:
    """The result of one message, from that of its batch. `offset_ids`: the ids that the broker
    gave."""
    return SendResult(
        batch.status,
        msg_id,
        offset_ids[index] if index < len(offset_ids) else "",
        batch.queue,
        batch.queue_offset + index,
        None,
        batch.region_id,
        batch.trace_on,
    )


@dataclass(slots=True, eq=False)
class _Failed:
    """Messages that failed for the same reason, and whose results were never awaited."""

    count: int
    cause: Exception


class Failures:
    """Failures that were never awaited, until they are reported. It keeps the first causes; further
    failures count with the last one."""

    def __init__(self) -> None:
        self._kept: list[_Failed] = []

    def add(self, count: int, cause: Exception) -> _Failed:
        with _LOCK:
            self._kept = [failed for failed in self._kept if failed.count]
            if len(self._kept) < KEPT_CAUSES:
                self._kept.append(_Failed(count, cause))
            else:
                self._kept[-1].count += count
            return self._kept[-1]

    def take(self) -> tuple[int, Exception | None]:
        """Their number and the first cause; they then count as reported."""
        with _LOCK:
            left = [failed for failed in self._kept if failed.count]
            self._kept = []
            return sum(f.count for f in left), left[0].cause if left else None


class Batch:
    """Messages of one request: `entries` of a batch, or one message as `request`."""

    __slots__ = (
        "_asked",
        "_ended",
        "_failed",
        "_ids",
        "_offset_ids",
        "bytes",
        "ended",
        "entries",
        "failure",
        "head",
        "request",
        "result",
        "since",
    )

    def __init__(self, head: Message, since: float) -> None:
        self.head = head
        """Topic and `wait_store_ok` of all messages."""
        self.since = since
        self.entries: list[tuple[str, bytes]] = []
        self.bytes = 0
        self.request: Outgoing | None = None
        self.result: SendResult | None = None
        self.failure: Exception | None = None
        self.ended = False
        """Set last, because other threads read it."""
        self._ended: trio.Event | None = None
        self._ids: list[str] = []
        self._offset_ids: list[str] = []
        self._asked: set[int] = set()
        self._failed: _Failed | None = None

    async def wait(self) -> None:
        """Returns when the batch has ended."""
        if self.ended:
            return
        if self._ended is None:
            self._ended = trio.Event()
        await self._ended.wait()

    async def wait_for(self, index: int) -> None:
        """The same for one of its messages; its failure then counts as awaited."""
        self._asked.add(index)
        try:
            await self.wait()
        except trio.Cancelled:
            if not self.ended:
                self._asked.discard(index)
            raise

    def complete(self, failures: Failures) -> None:
        """Sets `result` or `failure`. It leaves the messages as they are."""
        if self.failure is not None:
            count = 1 if self.request is not None else len(self.entries)
            self._failed = failures.add(count - len(self._asked), self.failure)
        self.entries = []
        if self.request is not None:
            self.request = _ALONE
        self.ended = True
        if self._ended is not None:
            self._ended.set()

    def result_of(self, index: int) -> SendResult:
        """The result of one message, or its error; the batch has ended."""
        if self.failure is not None:
            with _LOCK:
                if index not in self._asked:
                    self._asked.add(index)
                    if self._failed is not None:
                        self._failed.count -= 1
            # Of its own: each has the traceback of whoever asked.
            raise copy.copy(self.failure) from self.failure
        result = self.result
        assert result is not None
        if self.request is not None:
            return result
        if not self._ids:
            self._offset_ids = result.offset_msg_id.split(",")
            self._ids = result.msg_id.split(",")
        return result_in_batch(result, index, self._ids[index], self._offset_ids)


_ALONE = Outgoing(0, "", "", SendHeader("", "", "", flag=0), b"")
"""Replaces a request that was answered, so that its body is not kept."""


class PendingSend:
    """A message that `send_soon` has taken.

    `await pending.result()`, or `await pending`, gives its SendResult or raises its error, at any
    time and any number of times, also after the producer was closed. Cancelling that wait does not
    take the message back.
    """

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: Batch, index: int) -> None:
        self._batch = batch
        self._index = index

    @property
    def done(self) -> bool:
        """Whether there is a result or an error."""
        return self._batch.ended

    @property
    def key(self) -> str:
        """The id of the message, as long as no broker has answered; then empty."""
        batch = self._batch
        if batch.request is not None:
            return batch.request.key
        return batch.entries[self._index][0] if batch.entries else ""

    async def result(self) -> SendResult:
        """The SendResult. Raises the errors of `send`."""
        batch, index = self._batch, self._index
        if not batch.ended:
            await batch.wait_for(index)
        elif not index % CHECKPOINT_EVERY:
            await trio.lowlevel.checkpoint()
        return batch.result_of(index)

    def __await__(self) -> Generator[Any, Any, SendResult]:
        return self.result().__await__()

    def result_now(self) -> SendResult:
        """The same for any thread, once `done`."""
        return self._batch.result_of(self._index)


log = logging.getLogger(__name__)

CLUSTER = "CLUSTER"
CORRELATION_ID = "CORRELATION_ID"
REPLY_TO_CLIENT = "REPLY_TO_CLIENT"
TIME_TO_LIVE = "TTL"
ARRIVE_TIME = "ARRIVE_TIME"
TO_BE_KNOWN = 0.25
"""The part of a request's time for which brokers without an answer are waited for."""
AWAY = 10.0
"""Seconds for which a broker that did not answer is not waited for again."""
_COPIED = (CORRELATION_ID, REPLY_TO_CLIENT, TIME_TO_LIVE)


def reply_to(request: ReceivedMessage, body: bytes) -> Message:
    """The reply to a message of `Producer.request`, for any producer's `send`.

    Raises ClientError if the message is not a request, or if its broker does not support replies.
    """
    check_kind("what is replied to", request, (ReceivedMessage,), "a ReceivedMessage")
    properties = {name: request.properties.get(name, "") for name in _COPIED}
    cluster = request.properties.get(CLUSTER)
    if not all(properties[name] for name in (CORRELATION_ID, REPLY_TO_CLIENT)) or not cluster:
        raise ClientError(
            f"message {request.msg_id} is no request: it needs the properties {CORRELATION_ID}, "
            f"{REPLY_TO_CLIENT} and {CLUSTER}"
        )
    return Message(f"{cluster}_REPLY_TOPIC", body, properties={**properties, MESSAGE_TYPE: REPLY})


class _Waiting:
    def __init__(self) -> None:
        self.event = trio.Event()
        self.reply: ReceivedMessage | None = None
        self.failure: Exception | None = None


class Requests:
    """The requests of a client that wait for their replies."""

    def __init__(self, client: ClientInstance) -> None:
        self._client = client
        self._waiting: dict[str, _Waiting] = {}
        self._known_at = float("-inf")
        self._away: dict[str, float] = {}
        """Brokers that did not answer, and until when they are not waited for."""
        client.incoming.on_request[RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT] = self._pushed

    async def ask(
        self,
        properties: dict[str, str],
        timeout: float,
        send: Callable[[float], Awaitable[SendResult]],
    ) -> ReceivedMessage:
        """Adds the fields for a reply to `properties`, sends the message, and returns the reply.
        Raises RequestTimeoutError without one, and what `send` raises."""
        import uuid  # not needed by programs that only send

        deadline = trio.current_time() + timeout
        correlation_id = str(uuid.uuid4())
        properties[CORRELATION_ID] = correlation_id
        properties[REPLY_TO_CLIENT] = self._client.client_id
        properties[TIME_TO_LIVE] = str(round(timeout * 1000))
        waiting = self._waiting[correlation_id] = _Waiting()
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._send, waiting, deadline, send)
                with trio.move_on_at(deadline):
                    await waiting.event.wait()
                if waiting.reply is not None:  # maybe before the broker's answer to the request
                    nursery.cancel_scope.cancel()
        finally:
            del self._waiting[correlation_id]
        if waiting.reply is None:
            if waiting.failure is not None:
                raise waiting.failure
            raise RequestTimeoutError(f"no reply in {timeout:g} s, the request was sent")
        return waiting.reply

    async def _send(
        self, waiting: _Waiting, deadline: float, send: Callable[[float], Awaitable[SendResult]]
    ) -> None:
        try:
            now = trio.current_time()
            with trio.move_on_at(now + TO_BE_KNOWN * (deadline - now)):
                await self._be_known()
            await send(max(deadline - trio.current_time(), 0.001))
        except Exception as e:  # raised by `ask`, without a group around it
            waiting.failure = e
            waiting.event.set()

    async def _be_known(self) -> None:
        """Registers this connection with all brokers of the cluster before the request leaves,
        because the reply may go to any of them. A broker that is unreachable delays no further
        request."""
        now = trio.current_time()
        if now - self._known_at >= ROUTE_INTERVAL:
            try:
                await self._client.find_all_masters()
            except PyrmqError as e:
                log.info("not all brokers are known: %s", escape(e))
            else:
                self._known_at = now
        async with trio.open_nursery() as nursery:
            for address in self._client.brokers():
                if trio.current_time() >= self._away.get(address, float("-inf")):
                    nursery.start_soon(self._greet, address)

    async def _greet(self, address: str) -> None:
        try:
            await self._client.known_channel(address)
        except trio.Cancelled:
            self._away[address] = trio.current_time() + AWAY
            raise
        except PyrmqError as e:
            log.info(
                "not registered with broker %s: %s",
                escape(address),
                escape(e),
                extra=about(broker=address),
            )
        else:
            self._away.pop(address, None)

    async def _pushed(self, command: Command) -> Response:
        """PUSH_REPLY_MESSAGE_TO_CLIENT: the answer tells the replier whether anybody waits."""
        try:
            reply = read_reply(command)
        except ProtocolError as e:
            log.warning("a reply that cannot be read: %s", escape(e))
            return Response(1, str(e))
        waiting = self._waiting.get(reply.properties.get(CORRELATION_ID, ""))
        if waiting is None:
            return Response(1, "nobody waits for this reply (any more)")
        waiting.reply = reply
        waiting.event.set()
        return Response(0)


def read_reply(command: Command) -> ReceivedMessage:
    """The message that a broker passes on. Raises ProtocolError."""
    ext = command.ext
    properties = decode_properties(ext.get("properties", ""))
    properties[ARRIVE_TIME] = str(now_ms())
    return received(
        topic=ext.get("topic", ""),
        body=command.body,
        queue_id=number(command, "queueId"),
        flag=number(command, "flag"),
        sys_flag=number(command, "sysFlag"),
        born_timestamp=number(command, "bornTimestamp"),
        born_host=ext.get("bornHost", ""),
        store_timestamp=number(command, "storeTimestamp"),
        store_host=ext.get("storeHost", ""),
        reconsume_times=number(command, "reconsumeTimes"),
        properties=properties,
    )
