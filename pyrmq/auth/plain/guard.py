"""Puts processors behind the check of ACL 1.0."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Mapping

import trio

from pyrmq.auth.plain.access import AccessDeniedError, PlainAccess
from pyrmq.engine import Command
from pyrmq.errors import ConfigError
from pyrmq.escape import escape
from pyrmq.model.codes import request_text
from pyrmq.net.address import parse_address
from pyrmq.net.server.answers import Answer, Processor
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


class Guard:
    """Checks requests before their processors see them, and logs refusals."""

    def __init__(self, access: PlainAccess) -> None:
        self._access = access
        self._next_log = -1.0

    def guarded(self, processors: Mapping[int, Processor]) -> dict[int, Processor]:
        """The processors, all behind the check."""
        return {code: self._checked(processor) for code, processor in processors.items()}

    def _checked(self, processor: Processor) -> Processor:
        def check(connection: Connection, command: Command) -> Answer | Awaitable[Answer]:
            try:
                self._access.check(
                    command.code,
                    command.ext,
                    command.body,
                    command.version,
                    host_of(connection.peer),
                )
            except AccessDeniedError as e:
                self._log(connection.peer, command.code, e)
                raise
            return processor(connection, command)

        return check

    def _log(self, peer: str, code: int, error: AccessDeniedError) -> None:
        now = trio.current_time()
        if now >= self._next_log:
            self._next_log = now + LOG_INTERVAL
            log.warning(
                "%s of %s refused: %s", escape(request_text(code)), escape(peer), escape(error)
            )
