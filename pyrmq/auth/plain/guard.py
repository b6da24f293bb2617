"""The check of ACL 1.0 before each request. [PlainAccessValidator]"""

from __future__ import annotations

from pyrmq.auth.audit import Refusals
from pyrmq.auth.failures import Logins
from pyrmq.auth.guard import Grants, granted
from pyrmq.auth.model import Action
from pyrmq.auth.plain.access import UNPROVEN, AccessDeniedError, PlainAccess
from pyrmq.auth.plain.accounts import Permission
from pyrmq.auth.signing import ACCESS_KEY
from pyrmq.auth.table import NEEDS
from pyrmq.engine import Command
from pyrmq.model.codes import RequestCode, ResponseCode
from pyrmq.net.command import Response
from pyrmq.net.server.admin_access import host_of
from pyrmq.net.server.answers import InTurns
from pyrmq.net.server.connection import Connection


class PlainGuard:
    """Checks requests before their processors see them.

    `identify` reads the signature, which covers the body: it comes before a body is dropped.
    `authorize` comes before the processor. What is allowed to who has signed is granted to the
    engine's session, whether an account or a white list allows it.
    """

    def __init__(self, access: PlainAccess, grants: Grants | None = None) -> None:
        self.refusals = Refusals()
        self._access = access
        self._grants = grants
        self._logins = Logins()

    def identify(self, connection: Connection, command: Command) -> Response | InTurns | str:
        """The access key of who makes the request, "" for who needs none. Otherwise what refuses
        it, which may take its time."""
        name = command.ext.get(ACCESS_KEY)
        is_login = bool(name) and command.subject is None
        wait = self._logins.refused_for(connection, name) if name and is_login else 0.0
        error = AccessDeniedError(UNPROVEN)
        if wait == 0:
            try:
                source = host_of(connection.peer)
                found = self._access.identify(command, source)
            except AccessDeniedError as e:
                error = e
                wait = self._logins.failed(connection, name) if name else 0.0
            else:
                secret = self._access.secret_of(command, found, source)
                if secret is not None and (key := found or name):
                    self._logins.succeeded(connection, key, secret)
                return found
        return self._logins.delayed(command, self._refused(connection, command, error), wait)

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

    def check_topic(self, connection: Connection, command: Command, topic: str) -> None:
        """For the topic of a message, which is known only when a request is under way.
        AccessDeniedError. What ACL 2.0 has finer actions for needs SUB."""
        publishes = Action.PUB in NEEDS[command.code].of_message
        permission = Permission.PUB if publishes else Permission.SUB
        try:
            self._access.authorize_topic(command, host_of(connection.peer), topic, permission)
        except AccessDeniedError as e:
            self._refused(connection, command, e)
            raise

    def check_deletes(self, connection: Connection, command: Command, topic: str) -> None:
        """For a request that has messages of a topic deleted: it needs what DELETE_TOPIC_IN_BROKER
        needs, an account with admin=true. AccessDeniedError."""
        name = self._access.signer_of(command, host_of(connection.peer))
        try:
            if name is not None:
                code = RequestCode.DELETE_TOPIC_IN_BROKER
                self._access.authorize(name, code, {"topic": topic}, b"")
        except AccessDeniedError as e:
            self._refused(connection, command, e)
            raise

    def may_publish(self, connection: Connection, topic: str) -> bool:
        """Whether an account that has signed on this connection, or whoever is on a white list
        there, may send to a topic."""
        proven = self._logins.proven(connection)
        return self._access.may_publish(proven, host_of(connection.peer), topic)

    def same_user(self, one: Connection, other: Connection) -> bool:
        """Whether an account has signed on both connections. Who signs nothing is one more."""
        return self._logins.same_user(one, other)

    def _refused(
        self, connection: Connection, command: Command, error: AccessDeniedError
    ) -> Response:
        name = command.ext.get(ACCESS_KEY)
        why = str(error).removeprefix("AclException: ")
        self.refusals.refused(name, connection.peer, command.code, why, oneway=command.is_oneway)
        return Response(ResponseCode.SYSTEM_ERROR, str(error))
