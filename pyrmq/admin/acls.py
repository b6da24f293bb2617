"""Access lists that brokers keep. [RocketMQ 5's authorization; AUTH_CREATE_ACL to AUTH_LIST_ACL]"""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyrmq.admin import values
from pyrmq.admin.outcome import Outcome, Outcomes
from pyrmq.admin.users import AccessPart
from pyrmq.errors import ConfigError, PyrmqError
from pyrmq.model.codes import RequestCode
from pyrmq.net import fastjson
from pyrmq.net.client.protocol import Ext


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
        broker: str | None = None,
        cluster: str | None = None,
    ) -> Outcomes[None]:
        """Deletes the entries of a subject, of one resource or of all. [AUTH_DELETE_ACL]"""
        ext: Ext = {"subject": subject, **({"resource": resource} if resource else {})}
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
                await self._link.ask(target, code, {"subject": subject}, _body(acl))
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
        return await self._on_all(code, {"subject": acl.subject}, _body(acl), broker, cluster)


def _texts(row: Mapping[Any, Any], name: str) -> tuple[str, ...]:
    found = row.get(name)
    return tuple(str(one) for one in found) if isinstance(found, builtins.list) else ()


def _body(acl: Acl) -> bytes:
    return fastjson.dumps(acl.to_json())
