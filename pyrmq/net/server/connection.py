"""One connection of a server: its socket's sending side, and its state. And how much memory answers
hold that peers have not taken: connections are closed when it is too much.

The server reads nothing from a connection while an answer waits for its socket. Requests that were
begun before may still be answered: up to 64 awaited requests, and thousands of parked pulls."""

from __future__ import annotations

import errno
import logging
import select
import socket
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from pyrmq.engine import Session, Slice
from pyrmq.errors import EngineError
from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.net.server.connection_state import (
    TRANSITIONS,
    Event,
    State,
    Step,
    next_step,
)

if TYPE_CHECKING:
    from pyrmq.net.server.answer_times import AnswerTimes

Piece = bytes | Slice | memoryview
MAX_UNSENT = 64 << 20
"""Bytes of one connection. A connection with more is closed."""
MAX_UNSENT_OF_ALL = 512 << 20
"""Bytes of all connections of a server. Beyond that, the connection that has most is closed."""
PIECE = 128
"""Bytes of a piece, about, beside its content."""


class Sealed(bytes):
    """What a socket did not take of records (TLS): it is sent as it is, before anything else."""


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


log = logging.getLogger(__name__)

MAX_PIECES = 512
"""Most buffers one sendmsg takes (IOV_MAX is 1024)."""
MAX_WAITING_PIECES = 1024
"""While so many pieces wait to be sent, the broker asks the peer nothing."""
MAX_WAITING_BYTES = 8 << 20
"""The same in bytes."""
MAX_AWAITED = 64
"""While more requests of a connection are answered later, the server does not read it."""
MAX_AWAITED_BYTES = 8 << 20
"""The same in bytes of those requests."""
MAX_ELSEWHERE = 1024
"""As MAX_AWAITED, for requests that their processor bounds. A client pulls many queues at once."""


def _left(pieces: Sequence[Piece], sent: int) -> list[Piece]:
    """What is left of pieces of which so many bytes were sent."""
    left: list[Piece] = []
    for piece in pieces:
        if sent >= len(piece):
            sent -= len(piece)
            continue
        if sent:
            rest = memoryview(piece)[sent:]
            left.append(Sealed(rest) if type(piece) is Sealed else rest)
        else:
            left.append(piece)
        sent = 0
    return left


class Connection:
    """Sends what the socket takes at once, and keeps the rest in order.

    It calls `changed` whenever its next step may have changed (`next_step`). `events` is what the
    server waits for.
    """

    __slots__ = (
        "_changed", "_on_close", "_unsent", "awaited", "awaited_bytes", "elsewhere", "events", "fd",
        "is_closed", "last_active", "out", "peer", "session", "sock", "state", "takes_answers",
        "times",
    )  # fmt: skip

    def __init__(
        self,
        sock: socket.socket,
        session: Session,
        peer: str,
        changed: Callable[[Connection], None],
        now: float,
        unsent: Unsent | None = None,
    ) -> None:
        self.sock = sock
        self.fd = sock.fileno()
        self.session = session
        self.peer = peer
        self._enter(State.OPEN)
        self.out: deque[Piece] = deque()
        """What the socket does not take yet."""
        self.awaited = 0
        """How many requests are answered later."""
        self.awaited_bytes = 0
        """Bytes that are kept of them."""
        self.elsewhere = 0
        """How many of them their processor bounds (`Elsewhere`)."""
        self.events = select.EPOLLIN
        self.last_active = now
        self._changed = changed
        self._unsent = unsent or Unsent()
        self._on_close: dict[Callable[[Connection], None], None] = {}
        self.times: AnswerTimes | None = None
        """Where the answers to its requests are entered."""

    def __repr__(self) -> str:
        return f"<Connection {self.peer}>"

    def _enter(self, state: State) -> None:
        self.state = state
        # Plain values: both are read for every request.
        self.is_closed = state is State.CLOSED
        self.takes_answers = state not in (State.MUTE, State.CLOSED)

    @property
    def takes_requests(self) -> bool:
        """Whether the broker may ask this peer something: it is there and keeps up."""
        return self.state is State.OPEN and not self.out

    @property
    def has_room(self) -> bool:
        """Whether a request may wait behind what the peer has not taken yet."""
        return (
            self.state is State.OPEN
            and len(self.out) < MAX_WAITING_PIECES
            and self._unsent.of(self) < MAX_WAITING_BYTES
        )

    @property
    def is_plain(self) -> bool:
        """Whether the ready loop can serve it: it needs only to be read, fed and answered."""
        return self.events == select.EPOLLIN and not self.out and self.takes_answers

    @property
    def active_at(self) -> float:
        """When something came from the peer last, by trio's clock."""
        return max(self.last_active, self.session.active)

    @property
    def has_many_awaited(self) -> bool:
        """Whether so many requests are answered later that the server does not read on."""
        return (
            self.awaited - self.elsewhere > MAX_AWAITED
            or self.elsewhere > MAX_ELSEWHERE
            or self.awaited_bytes > MAX_AWAITED_BYTES
        )

    def happened(self, event: Event) -> None:
        """Takes an event; see `connection_state`."""
        self._enter(TRANSITIONS.get((self.state, event), self.state))
        if not self.takes_answers:
            self.out.clear()
            self._unsent.clear(self)
        self._changed(self)

    def next_step(self, stopping: bool) -> Step:
        session = self.session
        step = next_step(
            self.state,
            unsent=bool(self.out),
            awaited=self.awaited,
            unconfirmed=session.unconfirmed,
            full=session.full or self.has_many_awaited,
            more=session.more or session.commands > 0,
            stopping=stopping,
        )
        if step is Step.CLOSE:
            self._enter(TRANSITIONS.get((self.state, Event.ALL_ANSWERED), self.state))
        return step

    def call_on_close(self, callback: Callable[[Connection], None]) -> None:
        """Calls `callback(connection)` once when the connection is closed, also if it is given here
        several times."""
        self._on_close[callback] = None

    def take_callbacks(self) -> list[Callable[[Connection], None]]:
        """The callbacks; whoever closes the connection calls them."""
        callbacks, self._on_close = list(self._on_close), {}
        return callbacks

    def begin_awaited(self, size: int = 0, *, elsewhere: bool = False) -> None:
        """A request of this connection is answered later. `size`: bytes that are kept of it."""
        had_many = self.has_many_awaited
        self.awaited += 1
        self.awaited_bytes += size
        self.elsewhere += elsewhere
        if self.has_many_awaited != had_many:
            self._changed(self)

    def end_awaited(self, size: int = 0, *, elsewhere: bool = False) -> None:
        """A request that was answered later has its answer."""
        had_many = self.has_many_awaited
        self.awaited -= 1
        self.awaited_bytes -= size
        self.elsewhere -= elsewhere
        if self.state is State.CLOSING or self.has_many_awaited != had_many:
            self._changed(self)

    def released(self) -> None:
        """Unconfirmed answers of its session were sent: the connection may go on."""
        if not self.events:
            self._changed(self)

    def send(self, *pieces: Piece) -> None:
        """Sends buffers in a row, now or when the socket takes them."""
        if not self.takes_answers:
            return
        if self.out:
            self.out.extend(pieces)
            self._unsent.add(self, pieces)
            return
        if self.session.sealed:
            if (left := self._send_records(pieces)) is not None:
                self._wait_with(left)
            return
        try:
            if len(pieces) == 1:
                sent = self.sock.send(pieces[0])
            else:
                sent = self.sock.sendmsg(pieces[:MAX_PIECES])
        except BlockingIOError:
            sent = 0
        except OSError as e:
            self.send_failed(e)
            return
        self._wait_with(_left(pieces, sent))

    def _wait_with(self, left: list[Piece]) -> None:
        if left:
            self.out.extend(left)
            self._unsent.add(self, left)
            self._changed(self)

    def _send_records(self, pieces: Sequence[Piece]) -> list[Piece] | None:
        """Seals and sends pieces, which are plain. Returns what is left to be sent of them, None if
        the socket failed."""
        try:
            taken, rest = self.session.send(self.fd, pieces)
        except OSError as e:
            self.send_failed(e)
            return None
        left = _left(pieces, taken)
        return left if rest is None else [Sealed(rest), *left]

    def keep(self, rest: bytes) -> None:
        """Keeps what the socket did not take of something that a native call sent."""
        rest = Sealed(rest) if self.session.sealed else rest
        self.out.append(rest)
        self._unsent.add(self, (rest,))
        self._changed(self)

    def give_up(self, why: str) -> None:
        """Closes the connection, as its peer does not take the answers to its requests."""
        log.warning(
            "closing %s: %s", escape(self.peer), escape(why), extra=about(connection=self.peer)
        )
        with suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)  # whoever waits until it takes more is woken
        self.happened(Event.END)

    def sent_natively(self, rest: bytes | None, error: Exception | None) -> None:
        """A native call has sent answers of the session: `rest` is what the socket did not take,
        `error` what failed."""
        if rest is not None:
            self.keep(rest)
        if isinstance(error, OSError):
            self.send_failed(error)
        elif error is not None:
            log.error(
                "closing %s: %s",
                escape(self.peer),
                escape(error),
                extra=about(connection=self.peer),
            )
            self.happened(Event.SEND_FAILED)

    def send_failed(self, error: OSError) -> None:
        if error.errno == errno.EFAULT:
            log.error(
                "closing %s: a part of its answer can no longer be read from the disk",
                escape(self),
                extra=about(connection=self.peer),
            )
        self.happened(Event.SEND_FAILED)

    def send_released(self, now: int, timeout: int) -> None:
        """Sends the answers of its session that need not wait any longer."""
        if self.out or not self.takes_answers:
            reply = self.session.release(now, timeout)
            if reply is not None:
                self.send(reply)
            return
        try:
            rest = self.session.send_released(self.fd, now, timeout)
        except (OSError, EngineError) as e:
            self.sent_natively(None, e)
            return
        self.sent_natively(rest, None)

    def send_kept(self) -> None:
        """Continues where the socket was full."""
        while self.out:
            pieces = [self.out.popleft() for _ in range(self._at_once())]
            if self.session.sealed and type(pieces[0]) is not Sealed:
                left = self._send_records(pieces)
                if left is None:
                    return
            else:
                try:
                    sent = self.sock.sendmsg(pieces)
                except BlockingIOError:
                    sent = 0
                except OSError as e:
                    self.send_failed(e)
                    return
                left = _left(pieces, sent)
            self._unsent.sent(self, pieces, left)
            self.out.extendleft(reversed(left))
            if left:
                return
        self._changed(self)

    def _at_once(self) -> int:
        """How many of the kept pieces are sent by one call: records that were sealed already, or
        others."""
        if type(self.out[0]) is Sealed:
            return 1
        return min(len(self.out), MAX_PIECES)

    def send_close(self) -> None:
        """Tells the peer that nothing more is sent, where the connection has a way to say so."""
        if not self.out and self.takes_answers:
            self.session.send_close(self.fd)
