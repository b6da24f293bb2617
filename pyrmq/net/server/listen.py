"""Listening sockets."""

from __future__ import annotations

import logging
import socket

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
