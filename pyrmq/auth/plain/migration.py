"""Takes the accounts of ACL 1.0 along as users, when a broker starts. [AuthMigrator]

Only users that are missing are made, with their access lists. Lists are written first: a user that
is there has its list, so a start that was killed in between is completed by the next one.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from pyrmq.auth import audit
from pyrmq.auth.access import Access
from pyrmq.auth.audit import NOTHING, Asker, shown_acl, shown_user
from pyrmq.auth.model import Acl, User, UserChange, check_user_name, user_of
from pyrmq.auth.plain.files import Folder
from pyrmq.auth.plain.migrate import rules_to_v2
from pyrmq.auth.plain.rules import load_rules
from pyrmq.errors import ConfigError, InvalidParameterError
from pyrmq.escape import escape

log = logging.getLogger(__name__)

KEY = "migrateAuthFromV1Enabled"
_ASKER = Asker(None, KEY, True)


def migrate(access: Access, home: Path) -> None:
    """Makes users of the access files below `home`. Blocking, at start only. ConfigError if a file
    cannot be used, or if an account cannot be a user: then nothing is made."""
    folder = Folder(home)
    if not folder.paths():
        log.warning(
            "%s=true, but there is neither %s nor a file in %s: nothing is migrated",
            escape(KEY), escape(folder.default), escape(folder.folder),
        )  # fmt: skip
        return
    migrated = rules_to_v2(load_rules(folder))
    users = [user for user in map(_user, migrated.users) if access.users.get(user.name) is None]
    missing = {user.name for user in users}
    lists = [_acl(row) for row in migrated.acls if user_of(row["subject"]) in missing]
    try:
        acls_then, users_then = access.acls.with_acls(lists), access.users.with_users(users)
    except InvalidParameterError as e:
        raise ConfigError(f"{KEY}: {e}") from None
    if lists:
        access.acls.write(acls_then)
        access.acls.take(acls_then)
        for acl in lists:
            audit.changed(_ASKER, "createAcl", acl.subject, NOTHING, shown_acl(acl))
    if users:
        access.users.write(users_then)
        access.users.take(users_then)
        for user in users:
            audit.changed(_ASKER, "createUser", user.name, NOTHING, shown_user(user))
    for note in migrated.notes:
        log.warning("ACL 1.0: %s", escape(note))
    log.info(
        "ACL 1.0: %d users were made, %d were there; %s can be removed from the configuration, "
        "and has to be before users are deleted",
        len(users), len(migrated.users) - len(users), escape(KEY),
    )  # fmt: skip


def _user(row: dict[str, Any]) -> User:
    name = row["username"]
    try:
        check_user_name(name)
        change = UserChange.from_json(row)
    except InvalidParameterError as e:
        raise ConfigError(
            f"{KEY}: the account {name[:64]!r} cannot be a user ({e}): change it in its access file"
        ) from None
    return change.of(User(name, row["password"]))


def _acl(row: dict[str, Any]) -> Acl:
    try:
        return Acl.from_json(row["subject"], row)
    except InvalidParameterError as e:
        raise ConfigError(
            f"{KEY}: the permissions of {row['subject'][:64]!r} cannot be an access list ({e}): "
            "change them in the access file"
        ) from None
