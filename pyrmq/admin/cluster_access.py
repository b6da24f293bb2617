"""Users and access lists of a cluster, made as a file says: at a master and all its slaves, as each
keeps its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

from pyrmq.admin.auth import Acl, Acls, User, Users
from pyrmq.admin.desired_access import STATUS, TYPE, entries_of, password_of, told_acl, told_user
from pyrmq.admin.link import AdminLink, Part
from pyrmq.errors import ConfigError, ProtocolError

Members = dict[str, object]
USERS_KEPT = "authenticationMetadataProvider"
ACLS_KEPT = "authorizationMetadataProvider"
"""Keys of brokers: without a value they keep no users, or no access lists."""


class ClusterAccess(Part):
    """Reads and changes them for `ClusterFiles`."""

    def __init__(self, link: AdminLink) -> None:
        super().__init__(link)
        self._users = Users(link)
        self._acls = Acls(link)

    async def users_at(self, address: str, config: dict[str, str]) -> dict[str, Members] | None:
        """The users of a broker, without passwords; None if it keeps none."""
        if not config.get(USERS_KEPT):
            return None
        found = (await self._users.list(broker=address)).check_all().values[0]
        return {user.name: told_user(user) for user in found}

    async def acls_at(self, address: str, config: dict[str, str]) -> dict[str, Members] | None:
        """The access lists of a broker, by subject; None if it keeps none."""
        if not config.get(ACLS_KEPT):
            return None
        try:
            found = (await self._acls.list(broker=address)).check_all().values[0]
            return {acl.subject: told_acl(acl) for acl in found}
        except ConfigError as e:
            raise ProtocolError(f"{address}: {e}") from None

    async def put_user(self, broker: str, name: str, members: Members) -> None:
        """Makes or changes a user. ConfigError for a new one without a password."""
        kind, status = str(members[TYPE]), str(members[STATUS])

        async def one(address: str) -> None:
            if await self._has_user(address, name):
                changed = User(name, None, kind, status)
                (await self._users.update(changed, broker=address)).check_all()
                return
            password = await trio.to_thread.run_sync(password_of, name, members)
            made = User(name, password, kind)
            (await self._users.create(made, broker=address)).check_all()
            if status != "enable":  # a new one is enabled
                disabled = User(name, status=status)
                (await self._users.update(disabled, broker=address)).check_all()

        await self._on_replicas(broker, one)

    async def delete_user(self, broker: str, name: str) -> None:
        async def one(address: str) -> None:
            if await self._has_user(address, name):
                (await self._users.delete(name, broker=address)).check_all()

        await self._on_replicas(broker, one)

    async def put_acl(self, broker: str, subject: str, members: Members) -> None:
        """Makes an access list, or changes it to have these entries and no others."""
        wanted = Acl.from_json({"subject": subject, **members})
        kept = entries_of(members)

        async def one(address: str) -> None:
            known = await self._acl(address, subject)
            change = self._acls.create if known is None else self._acls.update
            (await change(wanted, broker=address)).check_all()
            there = {} if known is None else entries_of(told_acl(known))
            for policy, resource in there.keys() - kept.keys():
                gone = await self._acls.delete(subject, resource, policy=policy, broker=address)
                gone.check_all()

        await self._on_replicas(broker, one)

    async def delete_acl(self, broker: str, subject: str) -> None:
        async def one(address: str) -> None:
            if await self._acl(address, subject) is not None:
                (await self._acls.delete(subject, broker=address)).check_all()

        await self._on_replicas(broker, one)

    async def _has_user(self, address: str, name: str) -> bool:
        found = (await self._users.get(name, broker=address)).check_all()
        return found.values[0] is not None

    async def _acl(self, address: str, subject: str) -> Acl | None:
        return (await self._acls.get(subject, broker=address)).check_all().values[0]

    async def _on_replicas(self, broker: str, work: Callable[[str], Awaitable[None]]) -> None:
        """The master first: what it refuses, no slave gets."""
        addresses = (await self._link.broker_named(broker)).broker_addrs
        for _, address in sorted(addresses.items()):
            await work(address)
