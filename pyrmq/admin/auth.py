"""Users and access lists that brokers keep. [RocketMQ 5's authentication and authorization]"""

from __future__ import annotations

import builtins
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pyrmq.admin import values
from pyrmq.admin.link import Part
from pyrmq.admin.outcome import Outcome, Outcomes
from pyrmq.errors import ConfigError, ProtocolError, PyrmqError
from pyrmq.model.codes import RequestCode
from pyrmq.net import fastjson
from pyrmq.net.client.protocol import Ext

T = TypeVar("T")


class AccessPart(Part):
    """Changes go to all replicas, questions to masters."""

    async def _on_all(
        self, code: int, ext: Ext, body: bytes, broker: str | None, cluster: str | None
    ) -> Outcomes[None]:
        """Sends a change to a broker, or to all brokers of a cluster."""

        async def one(address: str) -> None:
            await self._link.ask(address, code, ext, body)

        return await self._link.on_each(
            await self._link.replicas(broker=broker, cluster=cluster), one
        )

    async def _ask_masters(
        self, work: Callable[[str], Awaitable[T]], broker: str | None, cluster: str | None
    ) -> Outcomes[T]:
        masters = await self._link.masters(broker=broker, cluster=cluster)
        return await self._link.on_each(masters, work)

    async def _rows(self, address: str, code: int, ext: Ext) -> builtins.list[dict[Any, Any]]:
        """The objects of an answer that is a JSON array."""
        answer = await self._link.ask(address, code, ext)
        found = fastjson.loads(answer.body) if answer.body else []
        if not isinstance(found, builtins.list):
            raise ProtocolError("a list was expected")
        return [row for row in found if isinstance(row, dict)]


TYPES = ("Super", "Normal")
STATUSES = ("enable", "disable")


@dataclass(frozen=True, slots=True)
class User:
    """A user. None is a value that a broker does not report, or that a change leaves as it is."""

    name: str
    password: str | None = None
    type: str | None = None
    """Super or Normal."""
    status: str | None = None
    """enable or disable."""

    def __repr__(self) -> str:  # the password is in no log
        return f"User(name={self.name!r}, type={self.type!r}, status={self.status!r})"

    @classmethod
    def from_json(cls, row: Mapping[Any, Any]) -> User:
        found = {n: values.text(row, n) or None for n in ("password", "userType", "userStatus")}
        name = values.text(row, "username")
        return cls(name, found["password"], found["userType"], found["userStatus"])

    def to_json(self) -> dict[str, str]:
        members = {
            "username": self.name, "password": self.password,
            "userType": self.type, "userStatus": self.status,
        }  # fmt: skip
        return {k: v for k, v in members.items() if v is not None}


class Users(AccessPart):
    """`admin.users`. Methods with `broker` (`host:port`) and `cluster` need one of the two. Changes
    go to all brokers of a cluster, questions to its masters."""

    async def create(
        self, user: User, *, broker: str | None = None, cluster: str | None = None
    ) -> Outcomes[None]:
        """Raises ConfigError for a user without a name or a password. [AUTH_CREATE_USER]"""
        if not user.name.strip() or not user.password:
            raise ConfigError("a user has a name and a password")
        return await self._change(RequestCode.AUTH_CREATE_USER, user, broker, cluster)

    async def update(
        self, user: User, *, broker: str | None = None, cluster: str | None = None
    ) -> Outcomes[None]:
        """Changes password, type and status, each unless it is None. [AUTH_UPDATE_USER]"""
        if user.password is None and user.type is None and user.status is None:
            raise ConfigError("say what changes: the password, the type or the status")
        return await self._change(RequestCode.AUTH_UPDATE_USER, user, broker, cluster)

    async def delete(
        self, name: str, *, broker: str | None = None, cluster: str | None = None
    ) -> Outcomes[None]:
        """[AUTH_DELETE_USER]"""
        return await self._on_all(
            RequestCode.AUTH_DELETE_USER, {"username": name}, b"", broker, cluster
        )

    async def get(
        self, name: str, *, broker: str | None = None, cluster: str | None = None
    ) -> Outcomes[User | None]:
        """The user as each broker has it; None if it has none. [AUTH_GET_USER]"""

        async def one(address: str) -> User | None:
            return await self._at(address, name)

        return await self._ask_masters(one, broker, cluster)

    async def list(
        self, filter: str = "", *, broker: str | None = None, cluster: str | None = None
    ) -> Outcomes[list[User]]:
        """The users of each broker whose names contain `filter`. [AUTH_LIST_USER]"""

        async def one(address: str) -> list[User]:
            return await self._all_at(address, filter)

        return await self._ask_masters(one, broker, cluster)

    async def copy(self, source: str, target: str, names: Sequence[str] = ()) -> Outcomes[None]:
        """Copies users of one broker, or all of them, to another one; an Outcome for each user."""
        if names:
            found: builtins.list[tuple[str, User | None]] = [
                (name, await self._at(source, name)) for name in names
            ]
        else:
            found = [(user.name, user) for user in await self._all_at(source)]
        outcomes: Outcomes[None] = Outcomes()
        for name, user in found:
            try:
                if user is None:
                    raise ConfigError(f"{source} has no user {name}")
                known = await self._at(target, name) is not None
                code = RequestCode.AUTH_UPDATE_USER if known else RequestCode.AUTH_CREATE_USER
                await self._link.ask(target, code, {"username": name}, _user_body(user))
            except PyrmqError as e:
                outcomes.append(Outcome(name, error=e))
            else:
                outcomes.append(Outcome(name))
        return outcomes

    async def _at(self, address: str, name: str) -> User | None:
        """A user of one broker, None if it has none of that name."""
        row = await self._link.ask_json(address, RequestCode.AUTH_GET_USER, {"username": name})
        return User.from_json(row) if row else None

    async def _all_at(self, address: str, filter: str = "") -> builtins.list[User]:
        """The users of one broker, by name."""
        rows = await self._rows(address, RequestCode.AUTH_LIST_USER, {"filter": filter})
        return sorted((User.from_json(row) for row in rows), key=lambda user: user.name)

    async def _change(
        self, code: int, user: User, broker: str | None, cluster: str | None
    ) -> Outcomes[None]:
        if user.type is not None and user.type not in TYPES:
            raise ConfigError(f"a user's type is {' or '.join(TYPES)}, not {user.type!r}")
        if user.status is not None and user.status not in STATUSES:
            raise ConfigError(f"a user's status is {' or '.join(STATUSES)}, not {user.status!r}")
        return await self._on_all(code, {"username": user.name}, _user_body(user), broker, cluster)


def _user_body(user: User) -> bytes:
    return fastjson.dumps(user.to_json())


@dataclass(frozen=True, slots=True)
class Entry:
    """Who may do what with one resource, or may not."""

    resource: str
    """Such as `Topic:orders`, `Group:*`, `Cluster:C`."""
    actions: tuple[str, ...]
    """Such as Pub, Sub, Create, Update, Delete, Get, List, All."""
    source_ips: tuple[str, ...] = ()
    decision: str = "Allow"
    """Allow or Deny."""
    policy: str = ""
    """Custom or Default; empty where nothing is said."""


@dataclass(frozen=True, slots=True)
class Acl:
    """The entries of a subject, such as `User:alice`. [AclInfo]"""

    subject: str
    entries: tuple[Entry, ...] = ()

    @classmethod
    def from_json(cls, row: Mapping[Any, Any]) -> Acl:
        def entries() -> Iterator[Entry]:
            for policy in values.objects(row, "policies"):
                for entry in values.objects(policy, "entries"):
                    yield Entry(
                        values.text(entry, "resource"),
                        _texts(entry, "actions"),
                        _texts(entry, "sourceIps"),
                        values.text(entry, "decision"),
                        values.text(policy, "policyType"),
                    )

        return cls(values.text(row, "subject"), tuple(entries()))

    def to_json(self) -> dict[str, Any]:
        policies: dict[str, builtins.list[dict[str, Any]]] = {}
        for entry in self.entries:
            policies.setdefault(entry.policy, []).append(
                {
                    "resource": entry.resource,
                    "actions": builtins.list(entry.actions),
                    **({"sourceIps": builtins.list(entry.source_ips)} if entry.source_ips else {}),
                    "decision": entry.decision,
                }
            )
        return {
            "subject": self.subject,
            "policies": [
                {**({"policyType": name} if name else {}), "entries": entries}
                for name, entries in policies.items()
            ],
        }


class Acls(AccessPart):
    """`admin.acls`. Where a method takes `broker` (`host:port`) and `cluster`, one of both has to
    be given. Changes go to all brokers of a cluster, what is asked to its masters."""

    async def create(
        self, acl: Acl, *, broker: str | None = None, cluster: str | None = None
    ) -> Outcomes[None]:
        """[AUTH_CREATE_ACL]"""
        return await self._change(RequestCode.AUTH_CREATE_ACL, acl, broker, cluster)

    async def update(
        self, acl: Acl, *, broker: str | None = None, cluster: str | None = None
    ) -> Outcomes[None]:
        """Adds the entries, or replaces those of the same resources. [AUTH_UPDATE_ACL]"""
        return await self._change(RequestCode.AUTH_UPDATE_ACL, acl, broker, cluster)

    async def delete(
        self,
        subject: str,
        resource: str | None = None,
        *,
        policy: str | None = None,
        broker: str | None = None,
        cluster: str | None = None,
    ) -> Outcomes[None]:
        """Deletes the entries of a subject, of one resource or of all. `policy`: Custom or Default,
        of one resource; None: Custom. [AUTH_DELETE_ACL]"""
        ext: Ext = {
            "subject": subject,
            **({"resource": resource} if resource else {}),
            **({"policyType": policy} if policy else {}),
        }
        return await self._on_all(RequestCode.AUTH_DELETE_ACL, ext, b"", broker, cluster)

    async def get(
        self, subject: str, *, broker: str | None = None, cluster: str | None = None
    ) -> Outcomes[Acl | None]:
        """The entries of a subject as each broker has them, None where it has none.
        [AUTH_GET_ACL]"""

        async def one(address: str) -> Acl | None:
            return await self._at(address, subject)

        return await self._ask_masters(one, broker, cluster)

    async def list(
        self,
        subject: str = "",
        resource: str = "",
        *,
        broker: str | None = None,
        cluster: str | None = None,
    ) -> Outcomes[list[Acl]]:
        """What each broker has of subjects and resources that have these texts in them.
        [AUTH_LIST_ACL]"""

        async def one(address: str) -> builtins.list[Acl]:
            return await self._all_at(address, subject, resource)

        return await self._ask_masters(one, broker, cluster)

    async def copy(self, source: str, target: str, subjects: Sequence[str] = ()) -> Outcomes[None]:
        """Gives the entries of subjects of one broker, or of all, to another one; an Outcome by
        subject."""
        if subjects:
            found = [(subject, await self._at(source, subject)) for subject in subjects]
        else:
            found = [(acl.subject, acl) for acl in await self._all_at(source)]
        outcomes: Outcomes[None] = Outcomes()
        for subject, acl in found:
            try:
                if acl is None:
                    raise ConfigError(f"{source} has no entries of {subject}")
                known = await self._at(target, subject) is not None
                code = RequestCode.AUTH_UPDATE_ACL if known else RequestCode.AUTH_CREATE_ACL
                await self._link.ask(target, code, {"subject": subject}, _acl_body(acl))
            except PyrmqError as e:
                outcomes.append(Outcome(subject, error=e))
            else:
                outcomes.append(Outcome(subject))
        return outcomes

    async def _at(self, address: str, subject: str) -> Acl | None:
        """The entries of a subject at one broker, None if it has none."""
        row = await self._link.ask_json(address, RequestCode.AUTH_GET_ACL, {"subject": subject})
        return Acl.from_json(row) if row else None

    async def _all_at(
        self, address: str, subject: str = "", resource: str = ""
    ) -> builtins.list[Acl]:
        """What one broker has, by subject."""
        ext: Ext = {"subjectFilter": subject, "resourceFilter": resource}
        rows = await self._rows(address, RequestCode.AUTH_LIST_ACL, ext)
        return sorted((Acl.from_json(row) for row in rows), key=lambda acl: acl.subject)

    async def _change(
        self, code: int, acl: Acl, broker: str | None, cluster: str | None
    ) -> Outcomes[None]:
        if not acl.subject.strip() or not acl.entries:
            raise ConfigError("an access list has a subject and at least one resource")
        for entry in acl.entries:
            if not entry.resource or not entry.actions or not entry.decision:
                raise ConfigError("each entry has a resource, actions and a decision")
        return await self._on_all(code, {"subject": acl.subject}, _acl_body(acl), broker, cluster)


def _texts(row: Mapping[Any, Any], name: str) -> tuple[str, ...]:
    found = row.get(name)
    return tuple(str(one) for one in found) if isinstance(found, builtins.list) else ()


def _acl_body(acl: Acl) -> bytes:
    return fastjson.dumps(acl.to_json())
