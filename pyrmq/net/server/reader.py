"""The one task that reads all connections of a server.

It waits on one nested epoll that holds every connection. Those that need nothing but to be read,
fed and answered are served by `Rounds`, natively. What it leaves, and the others, are served here
one by one. What all connections of a round store is written at once, and then they are answered.
"""

from __future__ import annotations

import logging
import os
import select
import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import trio

from pyrmq.engine import Listener, RecvBuffer, Rounds, Session, Space, Store
from pyrmq.errors import EngineError
from pyrmq.escape import escape
from pyrmq.net.clock import clock_ms
from pyrmq.net.server.connection import Connection
from pyrmq.net.server.connection_state import Event, Step
from pyrmq.net.server.dispatch import Dispatcher
from pyrmq.net.server.linger import Linger
from pyrmq.net.server.turn_writes import TurnWrites
from pyrmq.net.server.unconfirmed import Unconfirmed
from pyrmq.net.server.unsent import Unsent

if TYPE_CHECKING:
    from pyrmq.engine import Left

log = logging.getLogger(__name__)

BUFFER = 64 * 1024
"""Bytes of one receive: also the bound on native time per feed."""
EVENTS = 64
"""Connections served in one round, at most: a round is not cut short, and each may bring BUFFER."""
EVENTS_SLOW = 32
"""The same on a slow disk: what they store is in memory until a thread has written it."""
SLICE = 0.005
"""Seconds that the reader works before it lets other tasks run."""
GONE = select.EPOLLHUP | select.EPOLLERR


class Reader:
    """Connections by descriptor, and what is waited for on each.

    `stopping`: nothing new is read.
    """

    def __init__(
        self,
        name: str,
        listener: Listener,
        dispatcher: Dispatcher,
        unconfirmed: Unconfirmed,
        store: Store | None,
    ) -> None:
        self.connections: dict[int, Connection] = {}
        self.stopping = False
        self._name = name
        self._dispatcher = dispatcher
        self._unconfirmed = unconfirmed
        self._listener = listener
        self._heavy: dict[Connection, None] = {}
        """Connections with a large frame under way, the one that was begun first in front."""
        self._epoll = select.epoll()
        self._buffer = RecvBuffer(BUFFER)
        self._store = store
        self._several = False
        """More than one connection is fed in this turn: what they store is written at its end."""
        self._written_is_confirmed = store is not None and not store.is_sync
        """With ASYNC_FLUSH what is written is answered."""
        self._writes = None
        if store is not None:
            self._writes = TurnWrites(name, store, unconfirmed)
        self._rounds = Rounds(EVENTS)
        self._linger = Linger()
        self._active = 0.0
        """When this turn began."""
        self._end = 0.0
        """When it lets other tasks run."""
        self._feed_next: dict[Connection, None] = {}
        """Connections with frames that have arrived already."""
        self._reading = False
        self._processed = False
        """A command was processed in this turn."""
        self._unsent = Unsent()
        self._event_fd = -1
        if store is not None:
            self._event_fd = store.event_fd()
            self._epoll.register(self._event_fd, select.EPOLLIN)

    def add(self, sock: socket.socket, session: Session, peer: str) -> None:
        """Reads a new connection from now on."""
        self._epoll.register(sock.fileno(), select.EPOLLIN)
        session.fd = sock.fileno()
        now = trio.current_time()
        connection = Connection(sock, session, peer, self._arm, now, self._unsent)
        self.connections[connection.fd] = connection
        self._watch(connection)

    def _arm(self, connection: Connection) -> None:
        """Waits for what the connection can use now."""
        step = connection.next_step(self.stopping)
        if step is Step.READ:
            events = select.EPOLLIN
        elif step is Step.WAIT:
            events = 0
        elif step is Step.FEED and self._reading:
            events = 0
            self._feed_next[connection] = None
        else:
            # SEND; for CLOSE and FEED it wakes the reader, which finds the connection so and acts.
            events = select.EPOLLOUT
        if events != connection.events and self.connections.get(connection.fd) is connection:
            # Where nothing is waited for, a peer that is gone is reported once, not all the time.
            self._epoll.modify(connection.fd, events or select.EPOLLET)
            connection.events = events
        self._watch(connection)

    def _watch(self, connection: Connection) -> None:
        """Has the rounds serve a connection while it is plain."""
        if connection.is_plain and self.connections.get(connection.fd) is connection:
            self._rounds.watch(connection.session)
        else:
            self._rounds.forget(connection.session)

    def close(self, connection: Connection) -> None:
        """Closes a connection and calls those who asked to know."""
        if self.connections.get(connection.fd) is not connection:
            return
        del self.connections[connection.fd]
        self._heavy.pop(connection, None)
        self._unconfirmed.forget(connection)
        self._epoll.unregister(connection.fd)
        connection.happened(Event.END)
        connection.session.give_up()
        self._rounds.forget(connection.session)
        connection.session.fd = -1
        connection.sock.close()
        for callback in connection.take_callbacks():
            try:
                callback(connection)
            except Exception:
                log.exception("%s: after closing %s", self._name, connection.peer)

    def stalled_ms(self) -> int:
        """Milliseconds that a write of the log takes so far; 0 while none is waited for."""
        return 0 if self._writes is None else self._writes.stalled_ms()

    def stop_reading(self) -> None:
        """Reads nothing new on any connection."""
        self.stopping = True
        for connection in self.connections.values():
            self._arm(connection)

    def close_all(self) -> None:
        for connection in list(self.connections.values()):
            self.close(connection)
        self._epoll.close()

    async def run(self) -> None:
        """Serves the connections until cancelled."""
        while True:
            self._reading = False
            if self._writes is not None and self._writes.left:
                await self._writes.wait()
            if self._feed_next:
                await trio.lowlevel.checkpoint()
            else:
                await trio.lowlevel.wait_readable(self._epoll.fileno())
            self._reading = True
            self._turn()

    def _turn(self) -> None:
        """Serves what is ready, for SLICE at most."""
        store, rounds = self._store, self._rounds
        began = time.monotonic()
        self._active = trio.current_time()
        linger = self._linger.begins(began)
        if self._feed_next:
            linger = 0  # they are fed at once
        self._end = end = began + SLICE
        self._processed = False
        while True:
            if store is not None and store.stall() != 0:
                self._turn_slowly()
                break
            waiting = bool(self._feed_next)
            others, left, error = rounds.serve(
                self._epoll.fileno(),
                self._buffer,
                store,
                self._unconfirmed.timeout,
                self._written_is_confirmed,
                self._active,
                int(end * 1e9),
                linger,
                waiting,
            )
            arrivals = rounds.arrivals
            if linger:
                missed = rounds.idle and time.monotonic() < end
                self._linger.lingered(served=rounds.served, missed=missed)
            if others or waiting:
                arrivals = self._with_others(others)
            else:
                self._care(left, error)
            if arrivals:
                self._dispatcher.wake_parked()
            if rounds.idle or time.monotonic() > end:
                break
            linger = 0  # what was done may have woken other tasks
        self._linger.ends(time.monotonic())

    def _turn_slowly(self) -> None:
        """Serves what is ready while the disk hangs: nothing is written here."""
        self._several = True
        events = self._epoll.poll(0, EVENTS_SLOW)
        fed = bool(self._feed_next) or any(ready != self._event_fd for ready, _ in events)
        arrivals = self._feed_waiting()
        arrivals |= self._serve_each(events)
        if self._writes is not None and fed:
            self._writes.leave()
        if arrivals:
            self._dispatcher.wake_parked()

    def _with_others(self, events: list[tuple[int, int]]) -> bool:
        """Serves what the rounds leave to others, and then the round that waits for that; whether
        queues have grown."""
        rounds = self._rounds
        self._several = len(events) + len(self._feed_next) + rounds.waiting > 1
        arrivals = self._feed_waiting()
        arrivals |= self._serve_each(events)
        if rounds.waiting:
            left, error = rounds.finish(
                self._buffer,
                self._store,
                self._unconfirmed.timeout,
                self._written_is_confirmed,
                self._active,
            )
            self._care(left, error)
            return arrivals or rounds.arrivals
        if self._writes is not None and self._several:
            arrivals |= self._writes.write()
        return arrivals

    def _serve_each(self, events: list[tuple[int, int]]) -> bool:
        """Serves one connection after the other; whether queues have grown."""
        arrivals = False
        now = clock_ms()
        for ready, event in events:
            if ready == self._event_fd:
                self._confirmed()
                arrivals = True
                continue
            connection = self.connections.get(ready)
            if connection is None:
                continue
            connection.last_active = self._active
            if event & select.EPOLLOUT:
                connection.send_kept()
            elif connection.events:
                arrivals |= self._receive(connection, now)
            elif event & GONE and not connection.session.more and not connection.session.commands:
                connection.happened(Event.END)  # nobody is left to answer
            if connection.is_closed:
                self.close(connection)
        return arrivals

    def _care(self, left: list[Left], error: Exception | None) -> None:
        """Does what a round has left to do."""
        # First what their sockets did not take: whatever is sent from here on comes behind it.
        for fd, _, rest, failure in left:
            if rest is not None or failure is not None:
                self.connections[fd].sent_elsewhere(rest, failure)
        if self._writes is not None:
            self._writes.written(error)
        for fd, ended, _, failure in left:
            connection = self.connections.get(fd)
            if connection is None:
                continue  # what was done for another has closed it
            if ended or isinstance(failure, EngineError):
                connection.happened(Event.END)
            elif not connection.is_closed:
                self._take_care(connection)
            if connection.is_closed:
                self.close(connection)

    def _feed_waiting(self) -> bool:
        """Feeds what has arrived already, for the rest of the slice; whether queues have grown."""
        arrivals = False
        now = clock_ms()
        for connection in list(self._feed_next):
            del self._feed_next[connection]  # feeding it may put it behind the others
            if not connection.is_closed:
                arrivals |= self._feed(connection, now)
            if connection.is_closed:
                self.close(connection)
            if time.monotonic() > self._end:
                break
        return arrivals

    def _receive(self, connection: Connection, now: int) -> bool:
        session = connection.session
        if session.large and (place := session.space()) is not None:
            return self._receive_large(connection, place, now)
        try:
            reply = session.receive(connection.fd, self._buffer, now, self._several)
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
        return self._feed(connection, now)

    def _feed(self, connection: Connection, now: int) -> bool:
        """Lets a session go on with what it has already; whether queues have grown."""
        if connection.session.commands:
            return self._fed_with(connection, None)
        try:
            reply = connection.session.feed(self._buffer, 0, now, self._several)
        except EngineError:
            self._end_broken(connection)
            return False
        return self._fed_with(connection, reply)

    def _end_broken(self, connection: Connection) -> None:
        log.exception("%s: closing %s", self._name, connection.peer)
        connection.happened(Event.END)

    def _fed_with(self, connection: Connection, reply: bytes | None) -> bool:
        """Does what a feed of the session has left to do; whether queues have grown."""
        session = connection.session
        self._weigh(connection)
        if reply is not None:
            connection.send(reply)
        self._process(connection)
        if session.unconfirmed:
            if self._several and self._written_is_confirmed and self._writes is not None:
                self._writes.fed(connection)
            else:
                self._unconfirmed.note(connection)
        self._go_on(connection)
        return session.arrivals

    def _take_care(self, connection: Connection) -> None:
        """Does what `_serve` has left to do, behind the write."""
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
            log.warning("%s: closing %s: %s", self._name, connection.peer, escape(session.error))
            connection.happened(Event.PROTOCOL_ERROR)
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
        """Processes the commands of a feed. Those for which this turn has no time are left for the
        next one, and those of a peer that does not take its answers until it does."""
        session = connection.session
        while session.commands:
            if connection.out or (self._processed and time.monotonic() > self._end):
                return
            command = session.next_command()
            if command is not None:
                self._processed = True
                self._dispatcher.process(connection, command)
            if connection.is_closed or not session.commands:
                session.next_command()  # it keeps the last one until then
                return

    def _give_up_heavy(self, current: Connection) -> None:
        """Closes connections whose large frames were begun before the one of `current`, the oldest
        first, until memory is no longer short: who stalls takes none from those who send."""
        for connection in list(self._heavy):
            if connection is current or not self._listener.is_short_of_memory():
                return
            log.warning(
                "%s: closing %s: unfinished large requests take too much memory; its is the oldest",
                self._name,
                connection.peer,
            )
            self.close(connection)

    def _confirmed(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._event_fd, 8)
        self._unconfirmed.release()
