"""Accounts of ACL 1.0 as users and access lists of ACL 2.0.

The values are those of UserInfo and AclInfo, as createUser and createAcl take them. [AuthMigrator]

An account becomes a user of the same name, whose password is the secret key: its clients go on as
they are. Listed permissions become a Custom policy, defaults a Default one. White lists of
addresses have no counterpart: ACL 2.0 has no requests without a user. ACL 1.0 has no patterns of
names: a listed name with `*`, which no topic has, would match others in ACL 2.0, and is left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pyrmq.auth.plain.accounts import Account, Permission, Permissions
from pyrmq.auth.plain.rules import Rules


@dataclass(frozen=True, slots=True)
class Migrated:
    """What to create, users first, and what is to be known."""

    users: tuple[dict[str, Any], ...]
    """With passwords."""
    acls: tuple[dict[str, Any], ...]
    notes: tuple[str, ...]


def to_v2(accounts: Iterable[Account]) -> Migrated:
    """Users and access lists of accounts. Administrators become super users."""
    users, acls, notes = [], [], []
    for account in accounts:
        users.append(
            {
                "username": account.access_key,
                "password": account.secret_key,
                "userType": "Super" if account.admin else "Normal",
                "userStatus": "enable",
            }
        )
        policies = list(_policies(account))
        notes += [
            f"{account.access_key}: the permission for {name} is left out, as * is no name"
            for name in (*account.topics, *account.groups)
            if "*" in name
        ]
        if policies:
            acls.append({"subject": f"User:{account.access_key}", "policies": policies})
        elif not account.admin:
            notes.append(f"{account.access_key} has no permission, so it gets no access list")
        if account.white.text:
            notes.append(
                f"{account.access_key} needed no signature from {account.white.text}: its clients "
                "there have to sign now"
            )
    return Migrated(tuple(users), tuple(acls), tuple(notes))


def rules_to_v2(rules: Rules) -> Migrated:
    """The same of all access files, with a note about the global white list."""
    migrated = to_v2(rules.accounts.values())
    if not rules.white:
        return migrated
    listed = ", ".join(pattern.text for pattern in rules.white)
    note = f"clients at {listed} needed no account (globalWhiteRemoteAddresses): they need one now"
    return Migrated(migrated.users, migrated.acls, (*migrated.notes, note))


def _policies(account: Account) -> Iterable[dict[str, Any]]:
    custom = [*_entries("Topic", account.topics), *_entries("Group", account.groups)]
    if custom:
        yield {"policyType": "Custom", "entries": custom}
    defaults = {"Topic": account.default_topic, "Group": account.default_group}
    entries = [
        _entry(f"{kind}:*", permission)
        for kind, permission in defaults.items()
        if not permission & Permission.DENY  # what nothing allows is refused
    ]
    if entries:
        yield {"policyType": "Default", "entries": entries}


def _entries(kind: str, permissions: Permissions) -> Iterable[dict[str, Any]]:
    return [
        _entry(f"{kind}:{name}", permission)
        for name, permission in permissions.items()
        if "*" not in name
    ]


def _entry(resource: str, permission: Permission) -> dict[str, Any]:
    if permission & Permission.DENY:
        return {"resource": resource, "actions": ["All"], "decision": "Deny"}
    actions = [
        name for name, bit in (("Pub", Permission.PUB), ("Sub", Permission.SUB)) if permission & bit
    ]
    return {"resource": resource, "actions": actions, "decision": "Allow"}
