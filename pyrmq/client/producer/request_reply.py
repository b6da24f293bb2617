"""Requests that are answered by a message. [RequestFutureHolder, MessageUtil]

The request names the client of its sender and has an id. Its consumer sends a reply with both, and
the broker that gets the reply passes it to the sender's connection.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import trio

from pyrmq.client.checks import check_kind
from pyrmq.client.instance import ROUTE_INTERVAL, ClientInstance
from pyrmq.engine import Command
from pyrmq.errors import ClientError, ProtocolError, PyrmqError, RequestTimeoutError
from pyrmq.escape import escape
from pyrmq.model.codes import RequestCode
from pyrmq.model.message import Message, SendResult
from pyrmq.model.properties import MESSAGE_TYPE, REPLY, decode_properties
from pyrmq.model.record import ReceivedMessage, received
from pyrmq.net.clock import now_ms
from pyrmq.net.command import Response, number

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
            log.info("not registered with broker %s: %s", escape(address), escape(e))
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
