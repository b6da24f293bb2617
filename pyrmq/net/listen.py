"""Listening sockets."""

from __future__ import annotations

import socket

from pyrmq.errors import ConfigError


def open_listeners(host: str, port: int) -> list[socket.socket]:
    """Bound, non-blocking sockets for every address of `host`."""
    sockets: list[socket.socket] = []
    try:
        infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as e:
        raise ConfigError(f"cannot listen on {host}:{port}: {e}") from e
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
