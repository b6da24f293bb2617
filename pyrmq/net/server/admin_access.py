"""Who may administrate: adminAddressAllowList, checked by request code.

A processor of a request that administrates is put behind a check; requests of clients and brokers
go their way as if there were none.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Mapping
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)

import trio

from pyrmq.engine import Command
from pyrmq.errors import ConfigError, NoPermissionError
from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.model.request_kinds import ADMIN_REQUESTS
from pyrmq.net.address import parse_address
from pyrmq.net.server.answers import Answer, Processor
from pyrmq.net.server.connection import Connection

log = logging.getLogger(__name__)

KEY = "adminAddressAllowList"
MAX_NETWORKS = 1024
LOG_INTERVAL = 1.0
"""Seconds between two refusals that are logged."""
_MAPPED = IPv6Network("::ffff:0:0/96")
"""IPv4 addresses as a socket of IPv6 has them."""

Network = IPv4Network | IPv6Network


def parse_networks(text: str) -> list[Network]:
    """Addresses and networks, separated by commas. ValueError says what is expected."""
    if not text.strip():
        return []
    parts = [part.strip() for part in text.split(",")]
    if len(parts) > MAX_NETWORKS:
        raise ValueError(f"at most {MAX_NETWORKS} addresses and networks expected")
    return [_network(part) for part in parts]


def _network(text: str) -> Network:
    expected = f"{text[:64]!r} is no address or network such as 10.0.0.5, 10.0.0.0/8 or fd00::/8"
    host, slash, prefix = text.partition("/")
    if not host or "%" in host or (slash and not (prefix.isascii() and prefix.isdecimal())):
        raise ValueError(expected)
    try:
        network = ip_network(text)
    except ValueError:
        try:
            whole = ip_network(text, strict=False)
        except ValueError:
            raise ValueError(expected) from None
        raise ValueError(f"{text[:64]} has bits behind its network: write {whole}") from None
    if isinstance(network, IPv6Network) and network.subnet_of(_MAPPED):
        low = int(network.network_address) & 0xFFFFFFFF
        return IPv4Network((low, network.prefixlen - 96))
    return network


def host_of(peer: str) -> IPv4Address | IPv6Address | None:
    """Of `host:port`, None if that is no address; a mapped IPv4 address is an IPv4 address."""
    try:
        address = ip_address(parse_address(peer)[0].partition("%")[0])
    except (ConfigError, ValueError):
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


class AdminAccess:
    """The addresses from which requests that administrate are taken; none: from everywhere."""

    def __init__(self, allow_list: str = "") -> None:
        self._networks = parse_networks(allow_list)
        self._next_log = -1.0

    @property
    def is_open(self) -> bool:
        """Whether it names no address."""
        return not self._networks

    def allows(self, peer: str) -> bool:
        """`peer`: `host:port`."""
        if not self._networks:
            return True
        address = host_of(peer)
        return address is not None and any(address in network for network in self._networks)

    def guarded(self, processors: Mapping[int, Processor]) -> dict[int, Processor]:
        """The processors, those that administrate behind the check."""
        if not self._networks:
            return dict(processors)
        return {
            code: self._checked(ADMIN_REQUESTS[code], processor)
            if code in ADMIN_REQUESTS
            else processor
            for code, processor in processors.items()
        }

    def _checked(self, name: str, processor: Processor) -> Processor:
        def check(connection: Connection, command: Command) -> Answer | Awaitable[Answer]:
            if self.allows(connection.peer):
                return processor(connection, command)
            self._log(connection.peer, name)
            raise NoPermissionError(
                f"{name} is not taken from {connection.peer}: {KEY} of this server does not have "
                "this address"
            )

        return check

    def _log(self, peer: str, name: str) -> None:
        now = trio.current_time()
        if now >= self._next_log:
            self._next_log = now + LOG_INTERVAL
            log.warning(
                "%s refused: adminAddressAllowList has no %s",
                escape(name),
                escape(peer),
                extra=about(connection=peer),
            )
