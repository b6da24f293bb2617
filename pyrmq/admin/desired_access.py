"""Users and access lists in a file that says what a cluster should be.

They have the members of RocketMQ's UserInfo and AclInfo. A file has no passwords. A user that is
new may have a reference to its password: a file (`passwordFile`) or a variable of the environment
(`passwordEnv`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pyrmq.admin.auth import STATUSES, TYPES, User
from pyrmq.admin.auth import Acl as ToldAcl
from pyrmq.auth.model import Acl, check_user_name, user_of
from pyrmq.errors import ConfigError, InvalidParameterError

PASSWORD_FILE, PASSWORD_ENV = "passwordFile", "passwordEnv"
REFERENCES = (PASSWORD_FILE, PASSWORD_ENV)
"""Members that say where a password is: they are not compared."""
TYPE, STATUS, POLICIES = "userType", "userStatus", "policies"
NEW_USER = {TYPE: "Normal", STATUS: "enable"}
"""What a user is of which nothing is said."""
MAX_PASSWORD = 4096
"""Bytes of a file with a password."""
_CHOICES = {TYPE: TYPES, STATUS: STATUSES}

Members = dict[str, Any]


def check_user(name: str, row: Mapping[str, Any]) -> None:
    """ConfigError for what no user of a file has."""
    try:
        check_user_name(name)
    except InvalidParameterError as e:
        raise ConfigError(f"user {name[:64]!r}: {e}") from None
    for key, value in row.items():
        if key == "password":
            raise ConfigError(
                f"user {name}: a password has no place in the file: leave it out, or say where it "
                f"is by {PASSWORD_FILE} or {PASSWORD_ENV}"
            )
        if key in _CHOICES and value not in _CHOICES[key]:
            raise ConfigError(f"user {name}: {key} is {' or '.join(_CHOICES[key])}")
        if key in REFERENCES and not (isinstance(value, str) and 0 < len(value) <= MAX_PASSWORD):
            raise ConfigError(f"user {name}: {key} is a text")
        if key not in (*_CHOICES, *REFERENCES):
            names = ", ".join((*_CHOICES, *REFERENCES))
            raise ConfigError(f"user {name} has an unknown key {key[:64]!r}: {names}")
    if all(key in row for key in REFERENCES):
        raise ConfigError(f"user {name}: one of {PASSWORD_FILE} and {PASSWORD_ENV}")


def acl_members(subject: str, row: Mapping[str, Any]) -> Members:
    """The members of an access list, in an order that is always the same. ConfigError."""
    for key in row:
        if key != POLICIES:
            raise ConfigError(
                f"access list of {subject[:64]!r} has an unknown key {key[:64]!r}: {POLICIES}"
            )
    if not row:
        return {}
    try:
        user_of(subject)
        found = Acl.from_json(subject, row).to_json()
    except InvalidParameterError as e:
        raise ConfigError(f"access list of {subject[:64]!r}: {e}") from None
    for policy in found[POLICIES]:
        policy["entries"].sort(key=lambda entry: (entry["resource"], entry["decision"]))
        for entry in policy["entries"]:
            if "sourceIps" in entry:
                entry["sourceIps"].sort()
    return {POLICIES: found[POLICIES]}


def told_user(user: User) -> Members:
    """The members of a user that a broker has told, without its password."""
    return {TYPE: user.type or NEW_USER[TYPE], STATUS: user.status or NEW_USER[STATUS]}


def told_acl(acl: ToldAcl) -> Members:
    """The members of an access list that a broker has told. ConfigError for what is none."""
    return acl_members(acl.subject, {POLICIES: acl.to_json()[POLICIES]})


def entries_of(members: Mapping[str, Any]) -> dict[tuple[str, str], list[Members]]:
    """The entries of an access list, by policy and resource. One may be allowed and denied."""
    found: dict[tuple[str, str], list[Members]] = {}
    for policy in members.get(POLICIES, ()):
        for entry in policy["entries"]:
            found.setdefault((policy["policyType"], entry["resource"]), []).append(entry)
    return found


def differing(before: Mapping[str, Any], row: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Each entry that differs: its policy and resource as a text, and what it is and should be."""
    have, want = entries_of(before), entries_of(row)
    for key in sorted({*have, *want}):
        old, new = have.get(key), want.get(key)
        if old != new:
            yield " ".join(key), _shown(old), _shown(new)


def _shown(entries: list[Members] | None) -> str | None:
    """Entries for one resource as a text."""
    if entries is None:
        return None
    return "; ".join(
        f"{one['decision']} {', '.join(one['actions'])}"
        + (f" from {', '.join(one['sourceIps'])}" if "sourceIps" in one else "")
        for one in entries
    )


def has_password(members: Mapping[str, Any]) -> bool:
    """Whether a user says where its password is."""
    return any(key in members for key in REFERENCES)


def password_of(name: str, members: Mapping[str, Any]) -> str:
    """The password that a user refers to. ConfigError. Blocking."""
    if PASSWORD_ENV in members:
        password, where = os.environ.get(members[PASSWORD_ENV], ""), members[PASSWORD_ENV]
    elif PASSWORD_FILE in members:
        where = members[PASSWORD_FILE]
        try:
            with Path(where).expanduser().open("rb") as file:
                raw = file.read(MAX_PASSWORD + 1)
            password = raw.decode().rstrip("\r\n")
        except (OSError, ValueError) as e:  # not UTF-8, or a path with a zero byte
            raise ConfigError(f"the password of user {name} cannot be read: {e}") from None
        if len(raw) > MAX_PASSWORD:
            raise ConfigError(f"{where} has more than {MAX_PASSWORD} bytes: that is no password")
    else:
        raise ConfigError(
            f"the file has no password for the new user {name}: create it first (pyrmq admin user "
            f"create {name}), or say {PASSWORD_FILE} or {PASSWORD_ENV}"
        )
    if not password:
        raise ConfigError(f"the password of user {name} is empty: {where}")
    return password
