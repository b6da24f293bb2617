"""Users and access lists of one broker, whole: taken out, and put into another one.

They go through requests, so it works between Apache RocketMQ's brokers and pyrmq's, which keep them
in different files.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from typing import Any

from pyrmq.admin.auth import Acl, Acls, User, Users
from pyrmq.admin.link import AdminLink, Part
from pyrmq.admin.outcome import Outcome, Outcomes
from pyrmq.errors import ConfigError, PyrmqError

USERS, ACLS = "users", "acls"
MAX_ROWS = 100_000
"""Users, and access lists, of one export."""


class Access(Part):
    """`admin.access`. An export is an object with `users` (UserInfo) and `acls` (AclInfo)."""

    def __init__(self, link: AdminLink) -> None:
        super().__init__(link)
        self._users = Users(link)
        self._acls = Acls(link)

    async def export(self, broker: str, *, with_passwords: bool = False) -> dict[str, Any]:
        """Users and access lists of a broker (`host:port`). `with_passwords`: raises ConfigError if
        the broker does not tell them; pyrmq's brokers tell super users only."""
        users = (await self._users.list(broker=broker)).check_all().values[0]
        acls = (await self._acls.list(broker=broker)).check_all().values[0]
        silent = [user.name for user in users if user.password is None]
        if with_passwords and silent:
            raise ConfigError(
                f"{broker} does not tell the passwords of {len(silent)} users, such as "
                f"{silent[0]}: sign the requests as a super user"
            )
        return {
            USERS: [_shown(user, with_passwords) for user in users],
            ACLS: [acl.to_json() for acl in acls],
        }

    async def load(self, broker: str, exported: Mapping[str, Any]) -> Outcomes[None]:
        """Makes or changes users and access lists of a broker; those that the export lacks stay.
        An Outcome for each. Without passwords only users change that are there. Raises ConfigError
        for what is no export, before anything is changed."""
        users = [User.from_json(row) for row in _rows(exported, USERS)]
        acls = [Acl.from_json(row) for row in _rows(exported, ACLS)]
        if not all(user.name.strip() for user in users):
            raise ConfigError(f"{USERS}: each user has a username")
        if not all(acl.subject.strip() and acl.entries for acl in acls):
            raise ConfigError(f"{ACLS}: each access list has a subject and entries")
        outcomes: Outcomes[None] = Outcomes()
        known = (await self._users.list(broker=broker)).check_all().values[0]
        there = {user.name for user in known}
        for user in users:
            outcomes.append(await self._user(broker, user, user.name in there))
        for acl in acls:
            outcomes.append(await self._acl(broker, acl))
        return outcomes

    async def _user(self, broker: str, user: User, there: bool) -> Outcome[None]:
        target = f"User:{user.name}"
        try:
            if not there and user.password is None:
                raise ConfigError(
                    f"{broker} has no user {user.name}, and the export has no password for it: "
                    "export with passwords, or create the user first"
                )
            change = self._users.update if there else self._users.create
            (await change(user, broker=broker)).check_all()
        except PyrmqError as e:
            return Outcome(target, error=e)
        return Outcome(target)

    async def _acl(self, broker: str, acl: Acl) -> Outcome[None]:
        target = f"access list of {acl.subject}"
        try:
            (await self._acls.update(acl, broker=broker)).check_all()
        except PyrmqError as e:
            return Outcome(target, error=e)
        return Outcome(target)


def _shown(user: User, with_password: bool) -> dict[str, str]:
    row = user.to_json()
    if not with_password:
        row.pop("password", None)
    return row


def _rows(exported: Mapping[str, Any], name: str) -> builtins.list[dict[Any, Any]]:
    """A list of an export. ConfigError."""
    found = exported.get(name, [])
    if not isinstance(found, builtins.list) or not all(isinstance(one, dict) for one in found):
        raise ConfigError(f"this is no export: {name} is a list of objects")
    if len(found) > MAX_ROWS:
        raise ConfigError(f"{name} has more than {MAX_ROWS} objects")
    return found
