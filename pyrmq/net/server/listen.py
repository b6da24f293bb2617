"""Listening sockets, and how many descriptors a server may have, and which clients do not get.

A server without descriptors cannot roll its log, write its configuration or reach its name servers.
So clients' connections end below a reserve."""

from __future__ import annotations

import logging
import resource
import socket

import trio

from pyrmq.errors import ConfigError
from pyrmq.escape import escape
from pyrmq.net.address import unreachable

log = logging.getLogger(__name__)

VIP = 2
"""How far below listenPort RocketMQ's brokers listen too. Clients with vipChannelEnabled send
there, and Apache's slaves ask there for their master's topics."""


def open_listeners(host: str, port: int) -> list[socket.socket]:
    """Bound, non-blocking sockets for every address of `host`."""
    sockets: list[socket.socket] = []
    try:
        infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as e:
        raise ConfigError(f"cannot listen on {host}:{port}: {unreachable(host, e)}") from e
    try:
        for family, kind, proto, _, address in infos[:1] if port == 0 else infos:
            sock = socket.socket(family, kind, proto)
            sockets.append(sock)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            sock.setblocking(False)
            sock.bind(address)
            sock.listen(1024)
    except BaseException as e:
        for sock in sockets:
            sock.close()
        if isinstance(e, OSError):
            raise ConfigError(f"cannot listen on {host}:{port}: {e.strerror or e}") from e
        raise
    return sockets


def vip_listeners(host: str, port: int) -> list[socket.socket]:
    """Sockets on the VIP port of `port`; none where that is any free one, or the VIP port is in
    use: few need it."""
    if port <= VIP:
        return []
    try:
        return open_listeners(host, port - VIP)
    except ConfigError as e:
        log.info("no VIP port: %s", escape(e))
        return []


MOST_DESCRIPTORS = 1 << 20
"""Descriptors that a server asks for at most, where the hard limit is higher."""
FEW_DESCRIPTORS = 16_384
"""A lower limit is worth a warning: RocketMQ's own scripts set 655,350."""
RESERVED_DESCRIPTORS = 512
"""Descriptors that clients do not get; a quarter of them where that is less."""
LOG_INTERVAL = 10.0
"""Seconds between two lines of the log about connections that are refused."""


def descriptor_limit() -> int:
    """RLIMIT_NOFILE as it is now."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft


def descriptors_for_clients() -> int:
    """Descriptors below which clients' connections are. The kernel gives the lowest free one, so
    one at or above it means that all below are in use."""
    most = descriptor_limit()
    return most - min(RESERVED_DESCRIPTORS, most // 4)


def raise_descriptor_limit() -> None:
    """Raises the soft limit to the hard one, at the start of a server's process, and warns of one
    that stays low."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MOST_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError) as e:
            log.warning("the limit of open files stays at %d: %s", soft, escape(e))
    if descriptor_limit() < FEW_DESCRIPTORS:
        log.warning(
            "at most %d connections: the limit of open files is %d; raise it "
            "(LimitNOFILE=655350 of the systemd unit, or ulimit -n 655350)",
            descriptors_for_clients(),
            descriptor_limit(),
        )


class Refusals:
    """Says now and then how many connections of a server were refused, and why. `what` became of
    them; `interval`: seconds between two lines."""

    def __init__(
        self,
        name: str,
        interval: float = LOG_INTERVAL,
        what: str = "new connections refused",
    ) -> None:
        self._name = name
        self._what = what
        self._interval = interval
        self._count = 0
        self._next_log = -1.0

    def refused(self, why: str) -> None:
        """One more, and why."""
        self._count += 1
        now = trio.current_time()
        if now < self._next_log:
            return
        self._next_log = now + self._interval
        log.warning("%s: %d %s: %s", self._name, self._count, escape(self._what), escape(why))
        self._count = 0
