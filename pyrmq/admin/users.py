"""Users of Apache RocketMQ's brokers, and changes of access control that all brokers get."""

from __future__ import annotations

import builtins
from collections.abc import Awaitable, Callable, Mapping, Sequence
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
                await self._link.ask(target, code, {"username": name}, _body(user))
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
        return await self._on_all(code, {"username": user.name}, _body(user), broker, cluster)


def _body(user: User) -> bytes:
    return fastjson.dumps(user.to_json())
