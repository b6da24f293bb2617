"""The server's end of one connection: a socket, its session, and what waits to be sent."""

from __future__ import annotations

import select
import socket
from collections import deque
from collections.abc import Callable, Sequence

from pyrmq.engine import Session, Slice

Piece = bytes | Slice | memoryview
MAX_PIECES = 512
"""Most buffers one sendmsg takes (IOV_MAX is 1024)."""


class Connection:
    """Sends at once what the socket takes and keeps the rest in order.

    While something is kept, the connection is not read (back-pressure): `changed` tells the reader
    to look at what it waits for now, `events` is what it waits for.
    """

    __slots__ = (
        "awaited", "changed", "closed", "doomed", "events", "fd", "last_active", "mute", "on_close",
        "out", "peer", "session", "sock",
    )  # fmt: skip

    def __init__(
        self,
        sock: socket.socket,
        session: Session,
        peer: str,
        changed: Callable[[Connection], None],
        now: float,
    ) -> None:
        self.sock = sock
        self.fd = sock.fileno()
        self.session = session
        self.peer = peer
        self.out: deque[Piece] = deque()
        self.changed = changed
        self.events = select.EPOLLIN
        self.last_active = now
        self.awaited = 0
        """Processors that are awaited, or wait for their turn, for this connection."""
        self.closed = False
        self.doomed = False
        """Nothing more is read; it is closed once what is awaited has been answered."""
        self.mute = False
        self.on_close: list[Callable[[Connection], None]] = []

    def __repr__(self) -> str:
        return f"<Connection {self.peer}>"

    def send(self, *pieces: Piece) -> None:
        """Sends pieces in a row, now or when the socket takes them."""
        if self.closed or self.mute:
            return
        if self.out:
            self.out.extend(pieces)
            return
        try:
            if len(pieces) == 1:
                sent = self.sock.send(pieces[0])
            else:
                sent = self.sock.sendmsg(pieces[:MAX_PIECES])
        except BlockingIOError:
            sent = 0
        except OSError:
            self._mute()
            return
        self._keep(pieces, sent)
        if self.out:
            self.changed(self)

    def begin_awaited(self) -> None:
        """A request of this connection is answered later."""
        self.awaited += 1

    def end_awaited(self, limit: int) -> None:
        """It has been answered. Reading goes on below `limit`."""
        self.awaited -= 1
        if self.doomed or self.awaited == limit:
            self.changed(self)

    def close_when_answered(self) -> None:
        """Closes the connection, after what is awaited."""
        if self.awaited:
            self.doomed = True
        else:
            self.closed = True

    @property
    def answered(self) -> bool:
        """Whether it was to be closed once all is answered, and all is."""
        return self.doomed and not (self.awaited or self.out or self.session.held)

    def _mute(self) -> None:
        """The peer takes no more answers. What it sent before it left is still read: a client
        that stops may have its last offsets on the way. The reader meets the end by itself."""
        self.mute = True
        self.out.clear()
        self.changed(self)

    def _keep(self, pieces: Sequence[Piece], sent: int) -> None:
        for piece in pieces:
            if sent >= len(piece):
                sent -= len(piece)
                continue
            self.out.append(memoryview(piece)[sent:] if sent else piece)
            sent = 0

    def send_kept(self) -> None:
        """Goes on where the socket was full."""
        while self.out:
            pieces = [self.out.popleft() for _ in range(min(len(self.out), MAX_PIECES))]
            try:
                sent = self.sock.sendmsg(pieces)
            except BlockingIOError:
                sent = 0
            except OSError:
                self._mute()
                return
            rest = self.out
            self.out = deque()
            self._keep(pieces, sent)
            full = bool(self.out)
            self.out.extend(rest)
            if full:
                return
        self.changed(self)
