"""Failed logins: who guesses passwords is slowed down, by address and by user.

The answer to a failed login comes later the more logins from its address failed. A user who failed
often from one address is refused there for a while, also with the right password, except on
connections that have signed right before. Other users behind the same address (a NAT, a proxy) are
not concerned: what is signed right is answered at once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv6Address

import trio

from pyrmq.engine import Command
from pyrmq.net.command import Response
from pyrmq.net.server.admin_access import host_of
from pyrmq.net.server.answers import InTurns
from pyrmq.net.server.connection import Connection

FREE = 5
"""Failures before anything is slowed."""
FIRST_DELAY = 0.25
"""Seconds of the first delay; each failure doubles it."""
MOST_DELAY = 10.0
"""Seconds for which a user is refused at most."""
MOST_WAIT = 2.0
"""Seconds that an answer waits at most: clients give up after 3 s, and would not learn why."""
FORGET = 600.0
"""Seconds without a failure after which nothing is known any more."""
MAX_DELAYED = 4096
"""Refusals that wait at a time; more of them are answered at once."""
MAX_NAMES = 64
"""Access keys that are remembered of one connection."""
MAX_KEY = 256
"""Characters of an access key that count here: those of users have fewer."""
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
        """Counts a failure. Returns for how many seconds this address is slowed."""
        source = source_of(peer)
        self._count((source, name[:MAX_KEY]))
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
        row = self._rows.get((source_of(peer), name[:MAX_KEY]))
        return 0.0 if row is None else max(0.0, row.until - trio.current_time())

    def succeeded(self, peer: str, name: str) -> None:
        """Forgets the failures of a user at an address."""
        self._rows.pop((source_of(peer), name[:MAX_KEY]), None)


class Logins:
    """The failures of a server, and who has signed right on which connection."""

    def __init__(self) -> None:
        self._failures = Failures()
        self._proven: dict[Connection, dict[str, str]] = {}
        """By connection: access keys, and the secret keys that they have signed with."""
        self._delayed = 0
        """Refusals that wait."""

    def refused_for(self, connection: Connection, name: str) -> float:
        """Seconds for which this user is refused here; 0: its signature is to be verified. A user
        that has signed right here is not refused where others guess its password."""
        if name in self._proven.get(connection, ()):
            return 0.0
        return self._failures.refused_for(connection.peer, name)

    def succeeded(self, connection: Connection, name: str, secret: str) -> None:
        """The user has signed right. What it signs next is verified all the same."""
        proven = self._proven.get(connection)
        if proven is None:
            proven = self._proven[connection] = {}
            connection.call_on_close(self._forget)
        if name not in proven:
            if len(proven) >= MAX_NAMES:
                proven.clear()
            self._failures.succeeded(connection.peer, name)
        proven[name] = secret

    def proven(self, connection: Connection) -> Mapping[str, str]:
        """Who has signed right on a connection, and with which secret key."""
        return self._proven.get(connection, {})

    def same_user(self, one: Connection, other: Connection) -> bool:
        """Whether a user has signed on both connections. Who signs nothing is one more user."""
        names, others = self.proven(one).keys(), self.proven(other).keys()
        return bool(names & others) or not (names or others)

    def failed(self, connection: Connection, name: str) -> float:
        """The signature was wrong. Returns for how many seconds its address is slowed."""
        self._proven.get(connection, {}).pop(name, None)
        return self._failures.failed(connection.peer, name)

    def _forget(self, connection: Connection) -> None:
        self._proven.pop(connection, None)

    def delayed(self, command: Command, refusal: Response, seconds: float) -> Response | InTurns:
        """A refusal that comes after so many seconds, MOST_WAIT at most. Without an answer there is
        nothing to delay, and who waits takes memory. The body of the request, which nobody reads
        any more, is dropped."""
        command.drop_body()
        if seconds == 0 or command.is_oneway or self._delayed >= MAX_DELAYED:
            return refusal
        self._delayed += 1
        return InTurns(self._later(min(seconds, MOST_WAIT), refusal))

    async def _later(self, seconds: float, refusal: Response) -> Response:
        try:
            await trio.sleep(seconds)
            return refusal
        finally:
            self._delayed -= 1
