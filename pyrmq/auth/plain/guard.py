"""Puts processors behind the check of ACL 1.0."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping

import trio

from pyrmq.auth.plain.access import AccessDeniedError, PlainAccess
from pyrmq.auth.plain.decide import needs_of
from pyrmq.engine import Command
from pyrmq.errors import ConfigError
from pyrmq.escape import escape
from pyrmq.model.codes import RequestCode, ResponseCode, request_text
from pyrmq.net.address import parse_address
from pyrmq.net.command import Response
from pyrmq.net.server.answers import Answer, Processor
from pyrmq.net.server.connection import Connection

log = logging.getLogger(__name__)

Granted = Callable[[Connection, str, int, str], None]
"""Takes a connection, an access key, a request code and a topic: further requests of this account
that are signed, have this code and go to this topic need no check until something changes."""
LOG_INTERVAL = 1.0
"""Seconds between two refusals that are logged."""
_SENDS = (
    RequestCode.SEND_MESSAGE,
    RequestCode.SEND_MESSAGE_V2,
    RequestCode.SEND_BATCH_MESSAGE,
    RequestCode.END_TRANSACTION,
)


def host_of(peer: str) -> str:
    """The host of `host:port`; "" if there is none."""
    try:
        return parse_address(peer)[0]
    except ConfigError:
        return ""


class Guard:
    """Checks requests before their processors see them, and logs refusals.

    `identify` reads the signature, which covers the body: it comes before a body is dropped.
    `authorize` comes before the processor. `granted` is told of each send, and of each end of a
    transaction that names its topic, which an account may make.
    """

    def __init__(self, access: PlainAccess, granted: Granted | None = None) -> None:
        self._access = access
        self._granted = granted
        self._next_log = -1.0

    def identify(self, connection: Connection, command: Command) -> Response | str:
        """The access key of who makes the request, "" for who needs none; or the refusal."""
        try:
            return self._access.identify(
                command.ext, command.body, command.version, host_of(connection.peer)
            )
        except AccessDeniedError as e:
            return self._refused(connection, command, e)

    def authorize(self, connection: Connection, command: Command, name: str) -> Response | None:
        """The refusal of a request of who `identify` named; None: it may be done."""
        try:
            self._access.authorize(name, command.code, command.ext, command.body)
        except AccessDeniedError as e:
            return self._refused(connection, command, e)
        if self._granted is not None and name and command.code in _SENDS:
            for need in needs_of(command.code, command.ext, command.body):
                if not need.group:
                    self._granted(connection, name, command.code, need.name)
        return None

    def guarded(self, processors: Mapping[int, Processor]) -> dict[int, Processor]:
        """The processors, all behind the check."""
        return {code: self._checked(processor) for code, processor in processors.items()}

    def _checked(self, processor: Processor) -> Processor:
        def check(connection: Connection, command: Command) -> Answer | Awaitable[Answer]:
            name = self.identify(connection, command)
            if not isinstance(name, str):
                return name
            refusal = self.authorize(connection, command, name)
            return processor(connection, command) if refusal is None else refusal

        return check

    def _refused(
        self, connection: Connection, command: Command, error: AccessDeniedError
    ) -> Response:
        now = trio.current_time()
        if now >= self._next_log:
            self._next_log = now + LOG_INTERVAL
            log.warning(
                "%s of %s refused: %s",
                escape(request_text(command.code)),
                escape(connection.peer),
                escape(error),
            )
        return Response(ResponseCode.SYSTEM_ERROR, str(error))
