"""Feeds sessions what their sockets received, and does what a feed leaves to do.

Answers are sent, commands are processed, answers that wait for the disk are noted. Large frames are
received to where their session keeps them; while memory is short, those that stall are given up.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from pyrmq.engine import Listener, RecvBuffer, Space
from pyrmq.errors import EngineError
from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.net.server.connection import Connection
from pyrmq.net.server.connection_state import Event
from pyrmq.net.server.dispatch import Dispatcher
from pyrmq.net.server.listen import Refusals
from pyrmq.net.server.unconfirmed import GroupCommit, Unconfirmed

log = logging.getLogger(__name__)

BUFFER = 128 * 1024
"""Bytes of one receive: also the bound on native time per feed.

64 requests of 1 KiB that come at once are 88 KB."""


class Feeder:
    """What is fed in one shift of the reader (see there).

    `arm` waits for what a connection can use now, `close` closes one. `commit` is None without a
    store. `written_is_confirmed`: with ASYNC_FLUSH what is written is answered.
    """

    def __init__(
        self,
        name: str,
        listener: Listener,
        dispatcher: Dispatcher,
        unconfirmed: Unconfirmed,
        commit: GroupCommit | None,
        *,
        written_is_confirmed: bool,
        arm: Callable[[Connection], None],
        close: Callable[[Connection], None],
    ) -> None:
        self.defer_write = False
        """More than one connection is fed in this round: what they store is written behind them."""
        self.shift_end = 0.0
        """When this shift ends, of the monotonic clock."""
        self.processed = False
        """A command was processed in this shift."""
        self._name = name
        self._listener = listener
        self._dispatcher = dispatcher
        self._unconfirmed = unconfirmed
        self._commit = commit
        self._written_is_confirmed = written_is_confirmed
        self._arm = arm
        self._close = close
        self._refusals = Refusals(name, 1.0, "connections closed")
        """Of peers that broke TLS."""
        self._buffer = RecvBuffer(BUFFER)
        self._heavy: dict[Connection, None] = {}
        """Connections with a large frame under way, the one that was begun first in front."""

    def begin(self, shift_end: float) -> None:
        """A shift begins."""
        self.shift_end = shift_end
        self.processed = False

    def forget(self, connection: Connection) -> None:
        """`connection` is closed."""
        self._heavy.pop(connection, None)

    def receive(self, connection: Connection, now: int) -> bool:
        """Reads a connection and feeds its session. Returns whether queues have grown."""
        session = connection.session
        if session.large and (place := session.space()) is not None:
            return self._receive_large(connection, place, now)
        try:
            reply = session.receive(connection.fd, self._buffer, now, self.defer_write)
        except OSError:
            connection.happened(Event.END)
            return False
        except EngineError:
            self._end_broken(connection)
            return False
        if session.received <= 0:
            if session.received == 0:
                connection.happened(Event.END)
            return False
        return self._fed_with(connection, reply)

    def _receive_large(self, connection: Connection, place: Space, now: int) -> bool:
        """Receives more of a large frame to where its session keeps it."""
        try:
            n = connection.sock.recv_into(place)
        except BlockingIOError:
            connection.session.filled(0)
            return False
        except OSError:
            n = 0
        connection.session.filled(n)
        if n == 0:
            connection.happened(Event.END)
            return False
        return self.feed(connection, now)

    def feed(self, connection: Connection, now: int) -> bool:
        """Lets a session go on with what it has already. Returns whether queues have grown."""
        if connection.session.commands:
            return self._fed_with(connection, None)
        try:
            reply = connection.session.feed(self._buffer, 0, now, self.defer_write)
        except EngineError:
            self._end_broken(connection)
            return False
        return self._fed_with(connection, reply)

    def _end_broken(self, connection: Connection) -> None:
        log.exception(
            "%s: closing %s", self._name, connection.peer, extra=about(connection=connection.peer)
        )
        connection.happened(Event.END)

    def _fed_with(self, connection: Connection, reply: bytes | None) -> bool:
        """Does what a feed of the session left to do. Returns whether queues have grown."""
        session = connection.session
        self._weigh(connection)
        if reply is not None:
            connection.send(reply)
        elif session.pending:
            connection.send()
        self._process(connection)
        if session.unconfirmed:
            if self.defer_write and self._written_is_confirmed and self._commit is not None:
                self._commit.fed(connection)
            else:
                self._unconfirmed.note(connection)
        self._go_on(connection)
        return session.arrivals

    def follow_up(self, connection: Connection) -> None:
        """Does what the ready loop left to do for one connection, behind the write."""
        session = connection.session
        self._weigh(connection)
        self._process(connection)
        if session.unconfirmed:
            self._unconfirmed.note(connection)
            if self._written_is_confirmed:
                self._unconfirmed.release_of([connection])
        self._go_on(connection)

    def _go_on(self, connection: Connection) -> None:
        """Ends a session that broke the protocol, or waits for what the connection can use now."""
        session = connection.session
        if session.commands:
            self._arm(connection)
        elif session.error is not None:
            if session.refused:
                self._refusals.refused(f"{connection.peer}: {session.error}")
            else:
                log.warning(
                    "%s: closing %s: %s",
                    self._name,
                    connection.peer,
                    escape(session.error),
                    extra=about(connection=connection.peer),
                )
            connection.happened(Event.PROTOCOL_ERROR)
        elif session.told_end:
            connection.send_close()
            connection.happened(Event.END)
        elif session.more or session.full or not connection.events:
            self._arm(connection)

    def _weigh(self, connection: Connection) -> None:
        """Keeps account of connections with a large frame under way."""
        if connection.session.heavy:
            self._heavy[connection] = None
            if self._listener.is_short_of_memory():
                self._give_up_heavy(connection)
        elif self._heavy:
            self._heavy.pop(connection, None)

    def _process(self, connection: Connection) -> None:
        """Processes the commands of a feed. Commands for which this shift has no time wait for the
        next one. Commands of a peer that does not take its answers wait until it does."""
        session = connection.session
        while session.commands:
            if connection.out or (self.processed and time.monotonic() > self.shift_end):
                return
            command = session.next_command()
            if command is not None:
                self.processed = True
                self._dispatcher.process(connection, command)
            if connection.is_closed or not session.commands:
                session.next_command()  # it keeps the last one until then
                return

    def _give_up_heavy(self, current: Connection) -> None:
        """Closes connections whose large frames were begun before the one of `current`, the oldest
        first, until memory is no longer short: peers that stall take none from peers that send."""
        for connection in list(self._heavy):
            if connection is current or not self._listener.is_short_of_memory():
                return
            log.warning(
                "%s: closing %s: unfinished large requests take too much memory; its is the oldest",
                self._name,
                connection.peer,
                extra=about(connection=connection.peer),
            )
            self._close(connection)
