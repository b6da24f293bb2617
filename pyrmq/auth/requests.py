"""The requests about users and access lists, 3001 to 3010. [AdminBrokerProcessor]

Codes and texts are RocketMQ's: what a rule refuses is NO_PERMISSION. Passwords are only told to a
super user that signed the request: RocketMQ tells them to whoever may read the cluster.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyrmq.auth.access import Access
from pyrmq.auth.audit import Asker
from pyrmq.auth.model import (
    Acl,
    PolicyType,
    Resource,
    UserChange,
    member,
    subject_of,
    user_of,
)
from pyrmq.engine import Command
from pyrmq.errors import InvalidParameterError, NoPermissionError, ProtocolError, ResponseError
from pyrmq.model.codes import RequestCode, ResponseCode
from pyrmq.net import fastjson
from pyrmq.net.command import Response
from pyrmq.net.server.admin_access import AdminAccess, host_of
from pyrmq.net.server.answers import Processor
from pyrmq.net.server.connection import Connection

MAX_BODY = 1 << 20
"""Bytes of a user or of an access list."""

WhoAsks = Callable[[Connection, Command], Asker]


class AccessProcessor:
    """`asks`: who makes a request; None where no request has to be signed. Then no password is
    told, and requests are taken from the addresses of adminAddressAllowList (`admins`), or without
    any from this machine: a stranger could make a super user for later."""

    def __init__(
        self, access: Access, asks: WhoAsks | None, admins: AdminAccess | None = None
    ) -> None:
        self._access = access
        self._asks = asks
        self._admins = admins or AdminAccess()

    def by_code(self) -> dict[int, Processor]:
        return {
            RequestCode.AUTH_CREATE_USER: self.create_user,
            RequestCode.AUTH_UPDATE_USER: self.update_user,
            RequestCode.AUTH_DELETE_USER: self.delete_user,
            RequestCode.AUTH_GET_USER: self.get_user,
            RequestCode.AUTH_LIST_USER: self.list_users,
            RequestCode.AUTH_CREATE_ACL: self.create_acl,
            RequestCode.AUTH_UPDATE_ACL: self.update_acl,
            RequestCode.AUTH_DELETE_ACL: self.delete_acl,
            RequestCode.AUTH_GET_ACL: self.get_acl,
            RequestCode.AUTH_LIST_ACL: self.list_acls,
        }

    def _asker(self, connection: Connection, command: Command) -> Asker:
        if self._asks is not None:
            return self._asks(connection, command)
        if self._admins.is_open:
            host = host_of(connection.peer)
            allowed = host is not None and host.is_loopback
        else:
            allowed = self._admins.allows(connection.peer)
        if not allowed:
            raise NoPermissionError(
                "without authentication, users and access lists are for requests from the server's "
                "own machine, or from addresses that its adminAddressAllowList has"
            )
        return Asker(None, connection.peer, True)

    def _changer(self, connection: Connection, command: Command) -> Asker:
        asker, owner = self._asker(connection, command), self._access.owner
        if owner:
            raise NoPermissionError(
                f"the users and access lists here are those of {owner}: change them there (-b with "
                "its address), or on all brokers of the cluster (-c)"
            )
        return asker

    async def create_user(self, connection: Connection, command: Command) -> Response:
        """AUTH_CREATE_USER."""
        name, change = _name(command), _user_change(command)
        await self._access.create_user(self._changer(connection, command), name, change)
        return Response()

    async def update_user(self, connection: Connection, command: Command) -> Response:
        """AUTH_UPDATE_USER: what is not stated stays."""
        name, change = _name(command), _user_change(command)
        await self._access.update_user(self._changer(connection, command), name, change)
        return Response()

    async def delete_user(self, connection: Connection, command: Command) -> Response:
        """AUTH_DELETE_USER, and the access list of the user."""
        await self._access.delete_user(self._changer(connection, command), _name(command))
        return Response()

    def get_user(self, connection: Connection, command: Command) -> Response:
        """AUTH_GET_USER: no body for a user that is not there."""
        with_password = self._tells_passwords(connection, command)
        user = self._access.users.get(_name(command))
        if user is None:
            return Response()
        return Response(body=fastjson.dumps(user.to_json(with_password=with_password)))

    def list_users(self, connection: Connection, command: Command) -> Response:
        """AUTH_LIST_USER: those whose names contain the filter."""
        with_password = self._tells_passwords(connection, command)
        text = command.ext.get("filter", "").strip()
        found = [
            user.to_json(with_password=with_password)
            for user in self._access.users.all()
            if text in user.name
        ]
        return Response(body=fastjson.dumps(found)) if found else Response()

    def _tells_passwords(self, connection: Connection, command: Command) -> bool:
        return self._asker(connection, command).is_super and self._asks is not None

    async def create_acl(self, connection: Connection, command: Command) -> Response:
        """AUTH_CREATE_ACL: as AUTH_UPDATE_ACL, as in RocketMQ."""
        asker = self._changer(connection, command)
        await self._access.update_acl(asker, "createAcl", _acl(command))
        return Response()

    async def update_acl(self, connection: Connection, command: Command) -> Response:
        """AUTH_UPDATE_ACL: adds entries, or replaces those of the same resources."""
        asker = self._changer(connection, command)
        await self._access.update_acl(asker, "updateAcl", _acl(command))
        return Response()

    async def delete_acl(self, connection: Connection, command: Command) -> Response:
        """AUTH_DELETE_ACL: the entries of one resource, or the list of the subject."""
        subject = _subject(command.ext.get("subject", ""))
        kind, text = command.ext.get("policyType", ""), command.ext.get("resource", "")
        try:
            policy = member(PolicyType, kind, "policyType") if kind else PolicyType.CUSTOM
            resource = Resource.parse(text) if text.strip() else None
        except InvalidParameterError as e:
            raise NoPermissionError(str(e)) from None
        asker = self._changer(connection, command)
        await self._access.delete_acl(asker, subject, policy, resource)
        return Response()

    def get_acl(self, connection: Connection, command: Command) -> Response:
        """AUTH_GET_ACL: no body for a user without a list."""
        self._asker(connection, command)
        acl = self._access.acl_of(_subject(command.ext.get("subject", "")))
        return Response() if acl is None else Response(body=fastjson.dumps(acl.to_json()))

    def list_acls(self, connection: Connection, command: Command) -> Response:
        """AUTH_LIST_ACL: of subjects that contain a text, the entries whose resources do."""
        self._asker(connection, command)
        subject = command.ext.get("subjectFilter", "").strip()
        resource = command.ext.get("resourceFilter", "").strip()
        found = [
            acl.to_json(lambda entry: resource in str(entry.resource))
            for acl in self._access.acls.all()
            if subject in acl.subject
        ]
        found = [row for row in found if row["policies"]]
        return Response(body=fastjson.dumps(found)) if found else Response()


def _name(command: Command) -> str:
    name = command.ext.get("username", "")
    if not name.strip():
        raise InvalidParameterError("The username is blank")
    return name


def _body(command: Command) -> dict[Any, Any]:
    if len(command.body) > MAX_BODY:
        raise InvalidParameterError(f"a user or an access list has at most {MAX_BODY} bytes")
    return fastjson.loads_object(command.body) if command.body else {}


def _user_change(command: Command) -> UserChange:
    """UserInfo in the body. NoPermissionError for what no user has."""
    try:
        return UserChange.from_json(_body(command))
    except (InvalidParameterError, ProtocolError) as e:
        raise NoPermissionError(str(e)) from None


def _subject(text: str) -> str:
    """A subject as it is kept. NoPermissionError."""
    try:
        return subject_of(user_of(text))
    except InvalidParameterError as e:
        raise NoPermissionError(str(e)) from None


def _acl(command: Command) -> Acl:
    """AclInfo in the body, for the subject that it names, or the field. NoPermissionError."""
    body = _body(command)
    if not body.get("policies"):
        raise ResponseError("The body of acl is null", ResponseCode.SYSTEM_ERROR)
    stated = body.get("subject")
    subject = _subject(stated if isinstance(stated, str) else command.ext.get("subject", ""))
    try:
        return Acl.from_json(subject, body)
    except InvalidParameterError as e:
        raise NoPermissionError(str(e)) from None
