"""The check before each request: who makes it, and whether that user may.
[AuthenticationPipeline, AuthorizationPipeline]

`identify` reads the signature, which covers the body: it comes before a body is dropped.
`authorize` asks the access lists; it comes before any processor. Whoever fails gets the same text
for the same request, whatever was wrong with name, password or status: a stranger learns of no
user. Decisions are kept for each connection until users or lists change.

Sends, ends of transactions and granted pulls may be answered by the engine, which checks signatures
itself. What a user may send is granted to the session then (`Grants`), until `revoke`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol, TypeGuard

from pyrmq.auth.access import Access
from pyrmq.auth.audit import Asker, Refusals
from pyrmq.auth.decide import IpAddress, Need, allows
from pyrmq.auth.failures import Logins
from pyrmq.auth.model import MAX_RESOURCE, Action, ResourceType, User
from pyrmq.auth.needs import DELETE, PUB, Row, of_topic
from pyrmq.auth.signing import ACCESS_KEY, as_for_a_user, is_signed
from pyrmq.auth.table import NEEDS
from pyrmq.engine import Command
from pyrmq.errors import NoPermissionError, PyrmqError
from pyrmq.model.codes import RequestCode, ResponseCode
from pyrmq.net.command import Response
from pyrmq.net.server.admin_access import host_of
from pyrmq.net.server.answers import InTurns
from pyrmq.net.server.connection import Connection

UNKNOWN = (
    "authentication failed: the access key is unknown or disabled, or the signature is not that of "
    "its secret key"
)
UNSIGNED = "authentication failed: the request is not signed, and this server wants a signature"
MAX_DECISIONS = 1024
"""Decisions that are kept for one connection."""
MAX_KEPT = 16
"""Needs of a request whose decision is kept."""


class Kind(Enum):
    """What the engine may do for a user without a question."""

    SEND = "send"
    END = "end of a transaction"
    ACK = "acks and changes of invisible time"


class Grants(Protocol):
    """The engine's sessions, as far as they answer by themselves."""

    def grant(self, connection: Connection, subject: str, kind: Kind, resource: str) -> None:
        """From now on the session does this for the user (its access key) and the resource: a
        topic, or for acks `of_group`."""

    def revoke(self) -> None:
        """Nothing is granted any more, pulls included, and passwords are those of now."""


_GRANTING = (
    RequestCode.SEND_MESSAGE,
    RequestCode.SEND_MESSAGE_V2,
    RequestCode.SEND_BATCH_MESSAGE,
    RequestCode.END_TRANSACTION,
)
"""Requests whose right, Pub on a topic, is enough for both kinds."""
_ACKS = (RequestCode.ACK_MESSAGE, RequestCode.CHANGE_MESSAGE_INVISIBLETIME)


def of_group(topic: str, group: str) -> str:
    """What acks are granted for."""
    return f"{topic}\n{group}"


def granted(command: Command) -> Iterator[tuple[Kind, str]]:
    """What may be granted to who may make this request: the same for its topic (and group)."""
    if command.code in _ACKS:
        topic, group = command.ext.get("topic", ""), command.ext.get("consumerGroup", "")
        if max(len(topic), len(group)) <= MAX_RESOURCE:
            yield Kind.ACK, of_group(topic, group)
    if command.code in _GRANTING:
        for need in NEEDS[command.code].find(command, ""):
            name = need.resource.name
            if need.resource.type is not ResourceType.TOPIC or len(name) > MAX_RESOURCE:
                continue
            if Action.PUB in need.actions:
                for kind in (Kind.SEND, Kind.END):
                    yield kind, name


@dataclass(frozen=True, slots=True)
class Rules:
    """What the configuration says."""

    authorization: bool
    cluster: str
    unsigned: Collection[int] = frozenset()
    """Request codes that need no signature."""
    unchecked: Collection[int] = frozenset()
    """Request codes that need no right."""


@dataclass(slots=True)
class _Known:
    """What is known of one connection."""

    generation: int
    source: IpAddress | None
    decisions: dict[tuple[str, tuple[Need, ...]], Need | None] = field(default_factory=dict)
    """The need that is not met, if any."""


class Guard:
    """One for a server whose requests must be signed."""

    def __init__(self, access: Access, rules: Rules, grants: Grants | None = None) -> None:
        self.refusals = Refusals()
        self._access = access
        self._rules = rules
        self._grants = grants
        self._logins = Logins()
        self._generation = 0
        self._known: dict[Connection, _Known] = {}
        access.on_changed.append(self.revoke)

    def revoke(self) -> None:
        """Everything is decided anew from now on."""
        self._generation += 1
        if self._grants is not None:
            self._grants.revoke()

    def _of(self, connection: Connection) -> _Known:
        known = self._known.get(connection)
        if known is None:
            known = self._known[connection] = _Known(self._generation, host_of(connection.peer))
            connection.call_on_close(self._forget)
        elif known.generation != self._generation:
            known.generation = self._generation
            known.decisions.clear()
        return known

    def _forget(self, connection: Connection) -> None:
        self._known.pop(connection, None)

    def identify(self, connection: Connection, command: Command) -> Response | InTurns | str:
        """The name of the user that signed the request; "" if nobody has to. Otherwise what refuses
        it, which may take its time."""
        self._access.refresh()
        name = command.ext.get(ACCESS_KEY)
        if not name:
            if command.code in self._rules.unsigned:
                return ""
            return self._refused(connection, command, None, UNSIGNED)
        user = self._access.users.signer(name)
        if command.subject == name and user is not None and user.is_enabled:
            self._logins.succeeded(connection, name, user.password)
            return name  # the engine has verified the signature
        wait = self._logins.refused_for(connection, name)
        if wait == 0:
            if _has_signed(user, command):
                self._logins.succeeded(connection, name, user.password)
                return name
            wait = self._logins.failed(connection, name)
        refusal = self._refused(connection, command, name, UNKNOWN)
        return self._logins.delayed(command, refusal, wait)

    def authorize(self, connection: Connection, command: Command, name: str) -> Response | None:
        """The refusal of a request of a user that `identify` named; None: it may be done."""
        code = command.code
        if not self._rules.authorization:
            self._grant(connection, command, name)
            return None
        if code in self._rules.unchecked:
            return None  # what is granted would count for other requests too
        user = self._access.users.signer(name)
        if user is None or not user.is_enabled:
            return self._refused(connection, command, name, UNKNOWN if name else UNSIGNED)
        row = NEEDS.get(code)
        if user.is_super:
            missing = ""
        elif row is None:
            missing = "only super users may make this request"
        else:
            try:
                missing = self._missing(connection, command, user, row)
            except PyrmqError as e:  # RocketMQ's code for a request whose needs cannot be read
                missing = f"what the request needs cannot be read: {e}"
        if missing:
            return self._refused(connection, command, name, missing)
        self._grant(connection, command, name)
        return None

    def check_topic(self, connection: Connection, command: Command, topic: str) -> None:
        """For the topic of a message, known only when a request is under way. As `check`."""
        self.check(connection, command, of_topic(topic, NEEDS[command.code].of_message))

    def check_deletes(self, connection: Connection, command: Command, topic: str) -> None:
        """For a request that has messages of a topic deleted, whatever is said of its own code. As
        `check`."""
        deletes = RequestCode.DELETE_TOPIC_IN_BROKER
        if not command.ext.get(ACCESS_KEY) and deletes not in self._rules.unsigned:
            self._refused(connection, command, None, UNSIGNED)
            raise NoPermissionError(UNSIGNED)
        if self._rules.authorization and deletes not in self._rules.unchecked:
            self._check(connection, command, of_topic(topic, DELETE))

    def check(self, connection: Connection, command: Command, need: Need) -> None:
        """For a need that is known only when a request is under way: NoPermissionError if the user
        that `authorize` let through does not have it (any more)."""
        if self._rules.authorization and command.code not in self._rules.unchecked:
            self._check(connection, command, need)

    def _check(self, connection: Connection, command: Command, need: Need) -> None:
        name = command.ext.get(ACCESS_KEY, "")
        user = self._access.users.signer(name)
        if user is not None and user.is_enabled:
            acl = self._access.acls.get(user.subject)
            if user.is_super or allows(acl, need, host_of(connection.peer)):
                return
        why = f"User:{name} has no right to {need}"
        self._refused(connection, command, name, why)
        raise NoPermissionError(why)

    def _missing(self, connection: Connection, command: Command, user: User, row: Row) -> str:
        """Why a user may not; "" if it may."""
        needs = row.find(command, self._rules.cluster)
        known = self._of(connection)
        key = (user.name, needs)
        if key in known.decisions:
            unmet = known.decisions[key]
        else:
            acl = self._access.acls.get(user.subject)
            unmet = next((n for n in needs if not allows(acl, n, known.source)), None)
            if _is_small(needs):
                if len(known.decisions) >= MAX_DECISIONS:
                    known.decisions.clear()
                known.decisions[key] = unmet
        return f"{user.subject} has no right to {unmet}" if unmet is not None else ""

    def _grant(self, connection: Connection, command: Command, name: str) -> None:
        if self._grants is not None and name:
            for kind, topic in granted(command):
                self._grants.grant(connection, name, kind, topic)

    def may_publish(self, connection: Connection, topic: str) -> bool:
        """Whether a user that has signed on this connection, with the password that counts now, may
        send to a topic."""
        if not self._rules.authorization:
            return True
        need, source = of_topic(topic, PUB), host_of(connection.peer)
        for name, password in self._logins.proven(connection).items():
            user = self._access.users.signer(name)
            if user is None or not user.is_enabled or user.password != password:
                continue
            if user.is_super or allows(self._access.acls.get(user.subject), need, source):
                return True
        return False

    def same_user(self, one: Connection, other: Connection) -> bool:
        """Whether a user has signed on both connections. Who signs nothing is one more user."""
        return self._logins.same_user(one, other)

    def asker(self, connection: Connection, command: Command) -> Asker:
        """Who makes a request that `identify` let through. Nobody is no super user."""
        name = command.ext.get(ACCESS_KEY) or None
        user = self._access.users.signer(name) if name else None
        return Asker(name, connection.peer, user is not None and user.is_super)

    def _refused(
        self, connection: Connection, command: Command, name: str | None, why: str
    ) -> Response:
        self.refusals.refused(name, connection.peer, command.code, why, oneway=command.is_oneway)
        return Response(ResponseCode.NO_PERMISSION, why)


def _has_signed(user: User | None, command: Command) -> TypeGuard[User]:
    """Whether a user, who may not be there, is enabled and has signed."""
    if user is None:
        as_for_a_user(command)
        return False
    signed = is_signed(command, user.password)
    return signed and user.is_enabled


def _is_small(needs: tuple[Need, ...]) -> bool:
    """Whether a decision about them is kept: a client may state any names, and many."""
    return len(needs) <= MAX_KEPT and all(len(n.resource.name) <= MAX_RESOURCE for n in needs)
