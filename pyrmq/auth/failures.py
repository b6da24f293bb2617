"""Failed logins: who guesses passwords is slowed down, by address and by user.

The answer to a failed login comes later the more logins from its address failed. A user who failed
often from one address is refused there for a while, also with the right password, except on
connections that have signed right before. Other users behind the same address (a NAT, a proxy) are
not concerned: what is signed right is answered at once.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from ipaddress import IPv6Address

import trio

from pyrmq.net.server.admin_access import host_of

FREE = 5
"""Failures before anything is slowed."""
FIRST_DELAY = 0.25
"""Seconds of the first delay; each failure doubles it."""
MOST_DELAY = 10.0
FORGET = 600.0
"""Seconds without a failure after which nothing is known any more."""
MAX_ROWS = 10_000
"""Addresses, and users by address, that are remembered; the oldest are forgotten."""
_NETWORK = 64
"""Bits of an IPv6 address that count: the rest is the owner's to choose."""


@dataclass(slots=True)
class _Row:
    failures: int = 0
    last: float = 0.0
    until: float = 0.0


def source_of(peer: str) -> str:
    """The address of a peer, as far as it is not the peer's own choice."""
    host = host_of(peer)
    if isinstance(host, IPv6Address):
        return str(IPv6Address(int(host) >> 128 - _NETWORK << 128 - _NETWORK))
    return peer if host is None else str(host)


class Failures:
    """By address, and by address and user. The names of users that are not there count alike."""

    def __init__(self) -> None:
        self._rows: OrderedDict[tuple[str, str], _Row] = OrderedDict()

    def __len__(self) -> int:
        return len(self._rows)

    def failed(self, peer: str, name: str) -> float:
        """Counts a failure. Returns the seconds that its answer is to wait."""
        source = source_of(peer)
        self._count((source, name))
        return self._count((source, ""))

    def _count(self, key: tuple[str, str]) -> float:
        now = trio.current_time()
        row = self._rows.get(key)
        if row is None or now - row.last > FORGET:
            row = self._rows[key] = _Row()
        row.failures += 1
        row.last = now
        over = row.failures - FREE
        delay = 0.0 if over <= 0 else min(FIRST_DELAY * 2.0 ** min(over - 1, 30), MOST_DELAY)
        row.until = now + delay
        self._rows.move_to_end(key)
        while len(self._rows) > MAX_ROWS:
            self._rows.popitem(last=False)
        return delay

    def refused_for(self, peer: str, name: str) -> float:
        """Seconds for which this user is refused at this address; 0: it is not."""
        row = self._rows.get((source_of(peer), name))
        return 0.0 if row is None else max(0.0, row.until - trio.current_time())

    def succeeded(self, peer: str, name: str) -> None:
        """Forgets the failures of a user at an address."""
        self._rows.pop((source_of(peer), name), None)
