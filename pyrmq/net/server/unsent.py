"""Answers that peers have not taken: how much memory they hold, and which connections are closed
when it is too much.

The server reads nothing from a connection while an answer waits for its socket. Requests that were
begun before may still be answered: up to 64 awaited requests, and thousands of parked pulls.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from pyrmq.engine import Slice

Piece = bytes | Slice | memoryview
MAX_UNSENT = 64 << 20
"""Bytes of one connection. A connection with more is closed."""
MAX_UNSENT_OF_ALL = 512 << 20
"""Bytes of all connections of a server. Beyond that, the connection that has most is closed."""
PIECE = 128
"""Bytes of a piece, about, beside its content."""


class Peer(Protocol):
    def give_up(self, why: str) -> None:
        """Closes the connection."""


def cost(piece: Piece) -> int:
    """About how many bytes of memory a piece holds. A slice of the log's mapping holds none."""
    if isinstance(piece, memoryview):
        whole = piece.obj
        return PIECE + (len(whole) if isinstance(whole, bytes) else 0)
    return PIECE + (len(piece) if isinstance(piece, bytes) else 0)


class Unsent:
    """Bytes that wait to be sent, by connection of one server."""

    def __init__(self, most: int = MAX_UNSENT, most_of_all: int = MAX_UNSENT_OF_ALL) -> None:
        self.total = 0
        self._most = most
        self._most_of_all = most_of_all
        self._bytes: dict[Peer, int] = {}

    def of(self, peer: Peer) -> int:
        return self._bytes.get(peer, 0)

    def add(self, peer: Peer, pieces: Iterable[Piece]) -> None:
        """These pieces wait from now on. May close connections."""
        added = sum(map(cost, pieces))
        self.total += added
        now = self._bytes[peer] = self._bytes.get(peer, 0) + added
        if now > self._most:
            peer.give_up(f"it has not taken answers of {now} bytes: at most {self._most}")
        while self.total > self._most_of_all:
            worst = max(self._bytes, key=self._bytes.__getitem__)
            worst.give_up(
                f"answers of {self.total} bytes are not taken by their connections: this one has "
                f"most of them, {self._bytes[worst]}"
            )
            self.clear(worst)

    def sent(self, peer: Peer, pieces: Iterable[Piece], rest: Iterable[Piece]) -> None:
        """`pieces` were sent but for `rest`."""
        less = sum(map(cost, pieces)) - sum(map(cost, rest))
        self.total -= less
        self._bytes[peer] -= less
        if not self._bytes[peer]:
            del self._bytes[peer]

    def clear(self, peer: Peer) -> None:
        """Nothing of this connection waits any more."""
        self.total -= self._bytes.pop(peer, 0)
