"""Connections that say nothing."""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from .harness import Broker, HarnessError

CONNECT_SECONDS = 10.0


@dataclass
class Idle:
    """Connections that are open."""

    sockets: list[socket.socket] = field(default_factory=list)

    def closed(self) -> int:
        """How many of them the broker has closed, or has said something on."""
        poll = select.poll()
        for one in self.sockets:
            poll.register(one, select.POLLIN | select.POLLRDHUP)
        return len(poll.poll(0))


@contextmanager
def idle_connections(broker: Broker, count: int) -> Iterator[Idle]:
    """Holds `count` open and silent connections during the block."""
    with ExitStack() as stack:
        idle = Idle()
        for n in range(count):
            try:
                one = socket.create_connection((broker.host, broker.port), CONNECT_SECONDS)
            except OSError as error:
                raise HarnessError(f"idle connection {n + 1} of {count}: {error}") from error
            idle.sockets.append(stack.enter_context(one))
        yield idle
