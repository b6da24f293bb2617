"""Ports for servers that are started again where they were."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import threading

WORKERS = 16
"""Of so many workers none shares its ports."""

_given: set[int] = set()
_giving = threading.Lock()


def free_port_triple() -> int:
    """A loopback port p with p - 2 and p + 1 free as well, below those given to clients: whoever is
    killed finds it free when it starts again. Each worker of pytest-xdist has a range of its own,
    and none is given twice before it is given back: no other test, also of those that run at the
    same time in threads, may take it meanwhile."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % WORKERS
    size = (32_000 - 12_000) // WORKERS
    for _ in range(100):
        port = random.randrange(12_002 + worker * size, 12_000 + (worker + 1) * size - 1)
        with _giving, contextlib.ExitStack() as stack:
            if any(abs(port - given) <= 3 for given in _given):
                continue
            try:
                for near in (port - 2, port, port + 1):
                    stack.enter_context(socket.socket()).bind(("127.0.0.1", near))
            except OSError:
                continue
            _given.add(port)
            return port
    raise OSError("no three free ports")


def give_back(*ports: int) -> None:
    """What used these ports has ended for good."""
    with _giving:
        _given.difference_update(ports)
