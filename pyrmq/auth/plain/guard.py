"""Puts processors behind the check of ACL 1.0."""

from __future__ import annotations

import logging

import trio

from pyrmq.auth.decide import Need
from pyrmq.auth.guard import Grants, granted
from pyrmq.auth.model import Action, ResourceType
from pyrmq.auth.plain.access import AccessDeniedError, PlainAccess
from pyrmq.auth.plain.accounts import Permission
from pyrmq.auth.plain.signing import ACCESS_KEY
from pyrmq.engine import Command
from pyrmq.errors import ConfigError
from pyrmq.escape import escape
from pyrmq.model.codes import ResponseCode, request_text
from pyrmq.net.address import parse_address
from pyrmq.net.command import Response
from pyrmq.net.server.connection import Connection

log = logging.getLogger(__name__)

MAX_NAMES = 64
"""Access keys that are remembered of one connection."""
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
        self._names: dict[Connection, set[str]] = {}
        """The access keys that have signed on each connection, or are white there."""

    def identify(self, connection: Connection, command: Command) -> Response | str:
        """The access key of who makes the request, "" for who needs none; or the refusal."""
        try:
            host = host_of(connection.peer)
            name = self._access.identify(
                command.ext, command.body, command.version, host, command.subject
            )
            if not self._access.is_white(host):  # else nobody has looked at the access key
                self._names_of(connection).add(command.ext.get(ACCESS_KEY, ""))
            return name
        except AccessDeniedError as e:
            return self._refused(connection, command, e)

    def _names_of(self, connection: Connection) -> set[str]:
        names = self._names.get(connection)
        if names is None:
            names = self._names[connection] = set()
            connection.call_on_close(self._forget)
        elif len(names) >= MAX_NAMES:
            names.clear()
        return names

    def _forget(self, connection: Connection) -> None:
        self._names.pop(connection, None)

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

    def may_publish(self, connection: Connection, topic: str) -> bool:
        """Whether an account that has signed on this connection, or whoever is on a white list
        there, may send to a topic."""
        host, names = host_of(connection.peer), self._names.get(connection, ())
        if self._access.is_white(host):
            return True
        why_not = self._access.why_not
        return any(why_not(name, host, topic, Permission.PUB) is None for name in names)

    def same_user(self, one: Connection, other: Connection) -> bool:
        """Whether an account has signed on both connections. Who signs nothing is one more."""
        names, others = self._names.get(one, set()), self._names.get(other, set())
        return bool(names & others) or not (names or others)

    def check(self, connection: Connection, command: Command, need: Need) -> None:
        """For a need that is known only when a request is under way: AccessDeniedError if who makes
        it does not have it."""
        host = host_of(connection.peer)
        if self._access.is_white(host):
            return
        permission = Permission.PUB if Action.PUB in need.actions else Permission.SUB
        group = need.resource.type is ResourceType.GROUP
        name = command.ext.get(ACCESS_KEY, "")
        why = self._access.why_not(name, host, need.resource.name, permission, group=group)
        if why is not None:
            error = AccessDeniedError(why)
            self._refused(connection, command, error)
            raise error

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
