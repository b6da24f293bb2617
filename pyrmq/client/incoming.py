"""Requests of brokers to a client, and their handlers. [ClientRemotingProcessor]"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping

from pyrmq.engine import Command
from pyrmq.errors import PyrmqError
from pyrmq.escape import escape
from pyrmq.model.codes import RequestCode
from pyrmq.model.record import ReceivedMessage, decode_record
from pyrmq.model.transaction import PRODUCER_GROUP
from pyrmq.net.address import format_address
from pyrmq.net.client.channel import Channel
from pyrmq.net.command import Response

log = logging.getLogger(__name__)

CheckHandler = Callable[[Channel, Mapping[str, str], ReceivedMessage], None]
RequestHandler = Callable[[Command], Awaitable[Response | None]]


class Incoming:
    """`on_ids_changed` is called when the members of a group change, `on_check` (by producer
    group) when a broker asks for the outcome of a transaction, `on_request` (by code) for other
    requests."""

    def __init__(self) -> None:
        self.on_ids_changed: list[Callable[[], None]] = []
        self.on_check: dict[str, CheckHandler] = {}
        self.on_request: dict[int, RequestHandler] = {}
        self.unreadable_checks = 0

    async def answer(self, channel: Channel, command: Command) -> Response | None:
        """None for requests without an answer."""
        if command.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED:
            for notify in self.on_ids_changed:
                notify()
            return None
        if command.code == RequestCode.CHECK_TRANSACTION_STATE:
            self._check(channel, command)
            return None  # the broker does not wait: END_TRANSACTION is the answer
        handler = self.on_request.get(command.code)
        if handler is not None:
            return await handler(command)
        return Response(3, f"request type {command.code} not supported")

    def _check(self, channel: Channel, command: Command) -> None:
        """Passes a check to the producer that its message names."""
        where = format_address(channel.address)
        try:
            message = decode_record(memoryview(command.body))
        except PyrmqError as e:
            self.unreadable_checks += 1
            log.warning(
                "broker %s asks about a transaction that cannot be read: %s",
                escape(where),
                escape(e),
            )
            return
        group = message.properties.get(PRODUCER_GROUP, "")
        handler = self.on_check.get(group)
        if handler is None:
            log.warning(
                "broker %s asks about a transaction of group %r: not here", escape(where), group
            )
            return
        handler(channel, command.ext, message)
