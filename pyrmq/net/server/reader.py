"""The one task that reads all connections of a server.

The task waits on one nested epoll that holds every connection. The native `ReadyLoop` serves the
connections that need nothing but to be read, fed and answered. The reader serves the others, and
those that the loop returns, one by one. What all connections of one round store is written at once
(group commit); then they are answered.

A shift is the time that the reader works before it lets other tasks run. It has many rounds. What a
feed of a session leaves to do is done in `feeding`.
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

from pyrmq.engine import Listener, ReadyLoop, Session, Store
from pyrmq.errors import EngineError
from pyrmq.logs.about import about
from pyrmq.net.clock import clock_ms
from pyrmq.net.server.answer_times import AnswerTimes
from pyrmq.net.server.connection import Connection, Unsent
from pyrmq.net.server.connection_state import Event, Step
from pyrmq.net.server.dispatch import Dispatcher
from pyrmq.net.server.feeding import BUFFER, Feeder
from pyrmq.net.server.linger import Linger
from pyrmq.net.server.unconfirmed import GroupCommit, Unconfirmed

if TYPE_CHECKING:
    from pyrmq.engine import Left

log = logging.getLogger(__name__)

EVENTS = 64
"""Connections served in one round, at most: a round is not cut short, and each may bring BUFFER."""
EVENTS_SLOW = 32
"""The same on a slow disk: what they store is in memory until a thread has written it."""
SHIFT = 0.005
"""Seconds of a shift."""
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
        times: AnswerTimes | None = None,
    ) -> None:
        self.connections: dict[int, Connection] = {}
        self.stopping = False
        self._name = name
        self._dispatcher = dispatcher
        self._unconfirmed = unconfirmed
        self._epoll = select.epoll()
        self._store = store
        self._times = times
        self._commit = None
        if store is not None:
            self._commit = GroupCommit(name, store, unconfirmed)
        self._feeder = Feeder(
            name,
            listener,
            dispatcher,
            unconfirmed,
            self._commit,
            written_is_confirmed=store is not None and not store.is_sync,
            arm=self._arm,
            close=self.close,
        )
        self._ready_loop = ReadyLoop(
            self._epoll.fileno(), EVENTS, BUFFER, store, unconfirmed.timeout
        )
        unconfirmed.keeper = self
        self._linger = Linger()
        self._active = 0.0
        """When this shift began, by trio's clock."""
        self._feed_next: dict[Connection, None] = {}
        """Connections with frames that have arrived already."""
        self._reading = False
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
        connection.times = self._times
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
        """Has the ready loop serve a connection while it is plain."""
        is_open = self.connections.get(connection.fd) is connection
        if connection.is_plain and is_open:
            self._ready_loop.watch(connection.session)
        else:
            self._ready_loop.forget(connection.session)
        if connection.session.unconfirmed and is_open:
            self._unconfirmed.note(connection)

    def keep(self, connection: Connection) -> bool:
        """Whether the ready loop sends the answers that the session keeps."""
        return self._ready_loop.keep(connection.session)

    def keeping(self) -> list[Connection]:
        """Connections that the ready loop watches and whose sessions keep answers."""
        return [self.connections[fd] for fd in self._ready_loop.keeping()]

    def close(self, connection: Connection) -> None:
        """Closes a connection and calls those who asked to know."""
        if self.connections.get(connection.fd) is not connection:
            return
        del self.connections[connection.fd]
        self._feeder.forget(connection)
        self._unconfirmed.forget(connection)
        self._epoll.unregister(connection.fd)
        connection.send_close()
        connection.happened(Event.END)
        connection.session.give_up()
        self._ready_loop.forget(connection.session)
        connection.session.fd = -1
        connection.sock.close()
        for callback in connection.take_callbacks():
            try:
                callback(connection)
            except Exception:
                log.exception(
                    "%s: after closing %s",
                    self._name,
                    connection.peer,
                    extra=about(connection=connection.peer),
                )

    def stalled_ms(self) -> int:
        """Milliseconds that a write of the log takes so far; 0 while none is waited for."""
        return 0 if self._commit is None else self._commit.stalled_ms()

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
            if self._commit is not None and self._commit.left:
                await self._commit.wait()
            if self._feed_next:
                await trio.lowlevel.checkpoint()
            else:
                await trio.lowlevel.wait_readable(self._epoll.fileno())
            self._reading = True
            self._serve_shift()

    def _serve_shift(self) -> None:
        """Serves what is ready, for SHIFT at most."""
        store, ready_loop = self._store, self._ready_loop
        began = time.monotonic()
        self._active = trio.current_time()
        linger = self._linger.begins(began)
        if self._feed_next:
            linger = 0  # they are fed at once
        end = began + SHIFT
        self._feeder.begin(end)
        while True:
            if store is not None and store.stall() != 0:
                self._serve_slow_disk()
                break
            waiting = bool(self._feed_next)
            noted = self._unconfirmed.has_noted
            others, left, error = ready_loop.serve(
                self._active, int(end * 1e9), linger, waiting, noted
            )
            arrivals = ready_loop.arrivals
            if linger:
                missed = ready_loop.idle and time.monotonic() < end
                self._linger.lingered(served=ready_loop.served, missed=missed)
            if left or not (others or waiting):
                self._serve_left(left, error)
            if ready_loop.confirmed and noted:
                self._unconfirmed.release_noted()
            if others or waiting:
                arrivals |= self._with_others(others)
            if arrivals:
                self._dispatcher.wake_parked()
            if ready_loop.idle or time.monotonic() > end:
                break
            linger = 0  # what was done may have woken other tasks
        self._linger.ends(time.monotonic())

    def _serve_slow_disk(self) -> None:
        """Serves what is ready while the disk is slow: another thread writes what is stored."""
        self._feeder.defer_write = True
        events = self._epoll.poll(0, EVENTS_SLOW)
        fed = bool(self._feed_next) or any(ready != self._event_fd for ready, _ in events)
        arrivals = self._feed_waiting()
        arrivals |= self._serve_each(events)
        if self._commit is not None and fed:
            self._commit.leave()
        if arrivals:
            self._dispatcher.wake_parked()

    def _with_others(self, events: list[tuple[int, int]]) -> bool:
        """Serves what the ready loop does not watch, and then the round that the loop left waiting.
        Returns whether queues have grown."""
        ready_loop = self._ready_loop
        self._feeder.defer_write = len(events) + len(self._feed_next) + ready_loop.waiting > 1
        arrivals = self._feed_waiting()
        arrivals |= self._serve_each(events)
        if ready_loop.waiting:
            left, error = ready_loop.finish(self._active)
            self._serve_left(left, error)
            return arrivals or ready_loop.arrivals
        if self._commit is not None and self._feeder.defer_write:
            arrivals |= self._commit.write()
        return arrivals

    def _serve_each(self, events: list[tuple[int, int]]) -> bool:
        """Serves one connection after the other. Returns whether queues have grown."""
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
                arrivals |= self._feeder.receive(connection, now)
            elif event & GONE and not connection.session.more and not connection.session.commands:
                connection.happened(Event.END)  # nobody is left to answer
            if connection.is_closed:
                self.close(connection)
        return arrivals

    def _serve_left(self, left: list[Left], error: Exception | None) -> None:
        """Does what a round of the ready loop left to do."""
        # First what their sockets did not take: whatever is sent from here on comes behind it.
        for fd, _, rest, failure in left:
            if rest is not None or failure is not None:
                self.connections[fd].sent_natively(rest, failure)
        if self._commit is not None:
            self._commit.written(error)
        for fd, ended, _, failure in left:
            connection = self.connections.get(fd)
            if connection is None:
                continue  # what was done for another has closed it
            if ended or isinstance(failure, EngineError):
                connection.happened(Event.END)
            elif not connection.is_closed:
                self._feeder.follow_up(connection)
            if connection.is_closed:
                self.close(connection)

    def _feed_waiting(self) -> bool:
        """Feeds what has arrived already, for the rest of the shift. Returns whether queues have
        grown."""
        arrivals = False
        now = clock_ms()
        for connection in list(self._feed_next):
            del self._feed_next[connection]  # feeding it may put it behind the others
            if not connection.is_closed:
                arrivals |= self._feeder.feed(connection, now)
            if connection.is_closed:
                self.close(connection)
            if time.monotonic() > self._feeder.shift_end:
                break
        return arrivals

    def _confirmed(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._event_fd, 8)
        self._unconfirmed.release()
