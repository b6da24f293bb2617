"""Acknowledges single messages by their handles, and changes how long they stay invisible."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable

import trio

from pyrmq.client.consumer.pop.acks import refused
from pyrmq.client.instance import ClientInstance
from pyrmq.engine import Command
from pyrmq.errors import InvalidHandleError, ProtocolError, PyrmqError, RequestCodeNotSupportedError
from pyrmq.model.codes import RequestCode, ResponseCode
from pyrmq.model.message import ReceivedMessage
from pyrmq.model.pop import POP_CK, ExtraInfo
from pyrmq.net.backoff import Backoff
from pyrmq.net.client.pop_requests import (
    Fields,
    ack_body,
    ack_fields,
    change_fields,
    changed_handle,
)

TRIES = 3
TIMEOUT = 3.0
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 1.0
"""Seconds until a request that failed is repeated."""
_STALE = {ResponseCode.MESSAGE_ILLEGAL, ResponseCode.NO_MESSAGE}
"""What brokers answer if their queue does not have the message."""


class BrokerClocks:
    """The clocks of brokers, as far as their answers have shown them: a handle states times of its
    broker."""

    def __init__(self) -> None:
        self._ahead: dict[str, float] = {}
        """Milliseconds that a broker's clock is ahead of trio's."""

    def saw(self, broker_name: str, now: int) -> None:
        """A broker's time (ms since 1970) of a moment ago."""
        self._ahead[broker_name] = now - trio.current_time() * 1000

    def now(self, broker_name: str) -> float:
        """The broker's time, ms since 1970."""
        ahead = self._ahead.get(broker_name)
        return time.time() * 1000 if ahead is None else ahead + trio.current_time() * 1000


class Handles:
    """Requests with the handles of one group."""

    def __init__(self, client: ClientInstance, group: str, clocks: BrokerClocks) -> None:
        self._client = client
        self._group = group
        self._clocks = clocks

    def read(self, message: ReceivedMessage) -> ExtraInfo:
        """The handle of a message. InvalidHandleError if it has none, or it counts no more."""
        try:
            handle = ExtraInfo.parse(message.properties.get(POP_CK, ""))
        except ProtocolError as e:
            raise InvalidHandleError(f"message {message.msg_id:.100} was not popped: {e}") from None
        if handle.start > handle.offset:
            raise InvalidHandleError(f"the handle of message {message.msg_id:.100} is of another")
        left = handle.pop_time + handle.invisible_time - self._clocks.now(handle.broker_name)
        if left <= 0:
            raise InvalidHandleError(
                f"the invisible time of message {message.msg_id:.100} ended {-left / 1000:.1f} s "
                "ago"
            )
        return handle

    async def acknowledge(self, topic: str, handle: ExtraInfo) -> None:
        """ACK_MESSAGE of one message. InvalidHandleError, and what the request raises."""
        fields = ack_fields(handle, topic, self._group)
        await self._request(RequestCode.ACK_MESSAGE, topic, handle, fields)

    async def acknowledge_all(self, acks: Iterable[tuple[str, ExtraInfo]]) -> None:
        """One BATCH_ACK_MESSAGE for each broker, from topics and handles. Raises the first error
        when all brokers were asked."""
        by_broker: dict[str, list[tuple[str, ExtraInfo]]] = defaultdict(list)
        for topic, handle in acks:
            by_broker[handle.broker_name].append((topic, handle))
        errors: list[PyrmqError] = []

        async def of_broker(some: list[tuple[str, ExtraInfo]]) -> None:
            topic, handle = some[0]
            body = ack_body(handle.broker_name, self._group, some)
            try:
                await self._request(RequestCode.BATCH_ACK_MESSAGE, topic, handle, {}, body)
            except RequestCodeNotSupportedError:
                await self._one_by_one(some, errors)
            except PyrmqError as e:
                errors.append(e)

        async with trio.open_nursery() as nursery:
            for some in by_broker.values():
                nursery.start_soon(of_broker, some)
        if errors:
            raise errors[0]

    async def _one_by_one(
        self, some: list[tuple[str, ExtraInfo]], errors: list[PyrmqError]
    ) -> None:
        for topic, handle in some:
            try:
                await self.acknowledge(topic, handle)
            except PyrmqError as e:
                errors.append(e)

    async def change(self, topic: str, handle: ExtraInfo, seconds: float) -> ExtraInfo:
        """CHANGE_MESSAGE_INVISIBLETIME; the handle that counts from now on. InvalidHandleError, and
        what the request raises."""
        fields = change_fields(handle, topic, self._group, int(seconds * 1000))
        code = RequestCode.CHANGE_MESSAGE_INVISIBLETIME
        answer = await self._request(code, topic, handle, fields)
        changed = changed_handle(answer, handle)
        self._clocks.saw(changed.broker_name, changed.pop_time)
        return changed

    async def _request(
        self, code: RequestCode, topic: str, handle: ExtraInfo, fields: Fields, body: bytes = b""
    ) -> Command:
        """The answer of the master; a request that gets none is repeated."""
        backoff = Backoff(FIRST_PAUSE, LONGEST_PAUSE)
        left = TRIES
        while True:
            left -= 1
            try:
                channel = await self._client.known_master(topic, handle.broker_name)
                return await channel.request(code, fields, body, timeout=TIMEOUT)
            except PyrmqError as e:
                if refused(e) and e.code in _STALE:
                    raise InvalidHandleError(str(e)) from e
                if refused(e) or not left:
                    raise
            await trio.sleep(backoff.next())
