"""Puts processors behind the check of ACL 1.0."""

from __future__ import annotations

import logging

import trio

from pyrmq.auth.guard import Grants, granted
from pyrmq.auth.plain.access import AccessDeniedError, PlainAccess
from pyrmq.engine import Command
from pyrmq.errors import ConfigError
from pyrmq.escape import escape
from pyrmq.model.codes import ResponseCode, request_text
from pyrmq.net.address import parse_address
from pyrmq.net.command import Response
from pyrmq.net.server.connection import Connection

log = logging.getLogger(__name__)

LOG_INTERVAL = 1.0
"""Seconds between two refusals that are logged."""


def host_of(peer: str) -> str:
    """The host of `host:port`; "" if there is none."""
    try:
        return parse_address(peer)[0]
    except ConfigError:
        return ""


class PlainGuard:
    """Checks requests before their processors see them, and logs refusals.

    `identify` reads the signature, which covers the body: it comes before a body is dropped.
    `authorize` comes before the processor. What is allowed to who has signed is granted to the
    engine's session, whether an account or a white list allows it.
    """

    def __init__(self, access: PlainAccess, grants: Grants | None = None) -> None:
        self._access = access
        self._grants = grants
        self._next_log = -1.0

    def identify(self, connection: Connection, command: Command) -> Response | str:
        """The access key of who makes the request, "" for who needs none; or the refusal."""
        try:
            return self._access.identify(
                command.ext,
                command.body,
                command.version,
                host_of(connection.peer),
                command.subject,
            )
        except AccessDeniedError as e:
            return self._refused(connection, command, e)

    def authorize(self, connection: Connection, command: Command, name: str) -> Response | None:
        """The refusal of a request of who `identify` named; None: it may be done."""
        try:
            self._access.authorize(name, command.code, command.ext, command.body)
        except AccessDeniedError as e:
            return self._refused(connection, command, e)
        if self._grants is not None and command.subject is not None:
            for kind, topic in granted(command):
                self._grants.grant(connection, command.subject, kind, topic)
        return None

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
