"""Access control as a configuration wants it: made when a server starts."""

from __future__ import annotations

from pathlib import Path

from pyrmq.auth import settings
from pyrmq.auth.access import Access
from pyrmq.auth.guard import Grants, Guard, Rules
from pyrmq.auth.plain.migration import migrate
from pyrmq.auth.requests import AccessProcessor
from pyrmq.auth.settings import AccessKeys
from pyrmq.errors import ConfigError
from pyrmq.net.server.admin_access import AdminAccess
from pyrmq.net.server.answers import Processor


def open_access(
    config: AccessKeys, users: Path, acls: Path, accounts: Path | None = None
) -> Access | None:
    """Users and access lists of a server, with the super users of its configuration; None if it
    keeps none. Blocking. ConfigError if a file cannot be used, or if nobody could administrate.
    `accounts`: the folder whose accounts of ACL 1.0 become users."""
    if not config.has_users:
        return None
    access = Access(users, acls)
    if accounts is not None:
        migrate(access, accounts)
    make_supers(config, access)
    if config.authentication_enabled and not access.users.supers:
        raise ConfigError(
            f"authenticationEnabled=true, but {users} has no super user that is enabled, so nobody "
            'could administrate: set initAuthenticationUser={"username":"…","password":"…"}'
        )
    return access


def make_supers(config: AccessKeys, access: Access) -> None:
    """The super users of a configuration. Blocking, at start only."""
    for pair in (
        settings.init_user(config.init_authentication_user),
        settings.inner_credentials(config.inner_client_authentication_credentials),
    ):
        if pair is not None:
            access.ensure_super(*pair)


def guard_of(
    config: AccessKeys, access: Access | None, cluster: str, grants: Grants | None = None
) -> Guard | None:
    """The check before the requests of a server of this cluster; None if there is none."""
    if access is None or not config.authentication_enabled:
        return None
    rules = Rules(
        config.authorization_enabled,
        cluster,
        settings.codes(config.authentication_whitelist),
        settings.codes(config.authorization_whitelist),
    )
    return Guard(access, rules, grants)


def access_requests(
    access: Access | None, guard: Guard | None, allow_list: str
) -> dict[int, Processor]:
    """What answers requests about users and access lists, by request code; nothing without any.
    `allow_list`: the server's adminAddressAllowList."""
    if access is None:
        return {}
    asks = guard.asker if guard is not None else None
    return AccessProcessor(access, asks, AdminAccess(allow_list)).by_code()
