"""Who may do what at a broker: the check before its requests, as the configuration wants it.

There is none, that of RocketMQ 5 (users and access lists), or that of RocketMQ 4 (the accounts of
plain_acl.yml). Both check in Python what the engine does not: its sessions verify signatures, and
answer what was granted to who signed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pyrmq.auth import acls, users
from pyrmq.auth.access import Access
from pyrmq.auth.guard import Guard
from pyrmq.auth.native import NativeGrants
from pyrmq.auth.plain.access import PlainAccess
from pyrmq.auth.plain.guard import PlainGuard
from pyrmq.auth.plain.watch import Watch
from pyrmq.auth.setup import access_requests, guard_of, open_access
from pyrmq.broker.config.broker_config import BrokerConfig
from pyrmq.broker.requests.named_message import NamedMessages
from pyrmq.engine import Command, Keyring, Store
from pyrmq.errors import NoPermissionError
from pyrmq.net.server.admin_access import AdminAccess
from pyrmq.net.server.answers import Processor
from pyrmq.net.server.connection import Connection

Service = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class AccessControl:
    """What a broker needs of it. All of it is empty without access control."""

    guard: Guard | PlainGuard | None = None
    keyring: Keyring | None = None
    plain: PlainAccess | None = None
    """The accounts of plain_acl.yml, if they count."""
    requests: Mapping[int, Processor] = field(default_factory=dict)
    """What answers requests about users and access lists."""
    services: tuple[Service, ...] = ()
    """To be run while the broker serves."""
    on_changed: list[Callable[[], None]] = field(default_factory=list)
    """Called when rights have changed."""

    def may_publish(self, connection: Connection, topic: str) -> bool:
        """Whether who has signed on a connection may send to a topic."""
        return self.guard is None or self.guard.may_publish(connection, topic)

    def same_user(self, one: Connection, other: Connection) -> bool:
        """Whether somebody has signed on both connections."""
        return self.guard is None or self.guard.same_user(one, other)

    def check_deletes(
        self, admins: AdminAccess, connection: Connection, command: Command, topic: str
    ) -> None:
        """For a request that has messages of a topic deleted: an error unless who makes it may
        delete the topic (DELETE_TOPIC_IN_BROKER)."""
        if not admins.allows(connection.peer):
            raise NoPermissionError(
                f"offsets of what tables have are not taken from {connection.peer}: "
                "adminAddressAllowList of this server does not have this address"
            )
        if self.guard is not None:
            self.guard.check_deletes(connection, command, topic)

    def guarded(self, store: Store, processors: dict[int, Processor]) -> dict[int, Processor]:
        """The processors; those of requests that name a message by its offset behind the check of
        its topic."""
        if self.guard is None:
            return processors
        return NamedMessages(store, self.guard).guarded(processors)


def access_files(config: BrokerConfig) -> tuple[Path, Path]:
    """Where users and access lists are."""
    folder = config.store_path_root_dir / "config"
    return folder / users.FILE, folder / acls.FILE


def open_users(config: BrokerConfig) -> Access | None:
    """Users and access lists of a broker. As `open_access`."""
    accounts = Path(config.rocketmq_home) if config.migrate_auth_from_v1_enabled else None
    return open_access(config, *access_files(config), accounts)


def open_access_control(config: BrokerConfig, shared: Access | None = None) -> AccessControl:
    """Reads the files. Blocking. ConfigError if they cannot be used. `shared`: users and access
    lists that are open already."""
    if config.acl_enable:
        return _accounts(config)
    access = shared if shared is not None else open_users(config)
    return AccessControl() if access is None else _users(config, access)


def _users(config: BrokerConfig, access: Access) -> AccessControl:
    native = NativeGrants(access.users.keys) if config.authentication_enabled else None
    guard = guard_of(config, access, config.broker_cluster_name, native)
    return AccessControl(
        guard,
        native.keyring if native is not None else None,
        requests=access_requests(access, guard, config.admin_address_allow_list),
        on_changed=access.on_changed,
    )


def _accounts(config: BrokerConfig) -> AccessControl:
    access = PlainAccess(Path(config.rocketmq_home))
    native = NativeGrants(access.secrets)
    access.on_changed.append(native.revoke)
    return AccessControl(
        PlainGuard(access, native),
        native.keyring,
        plain=access,
        services=(Watch(access).run,),
        on_changed=access.on_changed,
    )
