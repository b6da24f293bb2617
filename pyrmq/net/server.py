"""The remoting server: one reader task for all connections of its listeners.

Waking a task per request costs more than the request, so trio waits on one nested epoll that
holds every connection; for each ready one the reader does recv, one native `session.feed`, send.
trio owns accepting, timers, cancellation, draining and everything that is not plain sending and
pulling.
"""

from __future__ import annotations

import logging
import os
import select
import socket
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

import trio

from pyrmq.engine import Command, Listener, RecvBuffer, Session, Store
from pyrmq.errors import EngineError
from pyrmq.escape import escape
from pyrmq.model.codes import ResponseCode
from pyrmq.net.address import Address, format_address, ip_bytes
from pyrmq.net.clock import clock_ms
from pyrmq.net.command import Response
from pyrmq.net.connection import Connection
from pyrmq.net.dispatch import MAX_AWAITED, Dispatcher, Processor, send_answer

log = logging.getLogger(__name__)

BUFFER = 256 * 1024
"""Bytes of one receive: also the bound on native time per feed."""
EVENTS = 512
"""Connections served before the reader looks again at what is ready."""
SLICE = 0.005
"""Seconds that the reader works before it lets other tasks run."""
GONE = select.EPOLLHUP | select.EPOLLERR
MAX_HELD = 4096
"""Answers waiting for the disk after which a connection is not read on."""


@dataclass(slots=True)
class _Durable:
    """An answer of a processor that waits for the disk; `late` is when it has waited too long."""

    end: int
    late: int
    connection: Connection
    command: Command
    response: Response


class RemotingServer:
    """Serves processors on listening sockets until cancelled or stopped.

    `processors` maps request codes; `listener` makes the sessions, `store` is the one it stores
    plain sends in (None: a server without a store). `on_arrivals` is called when queues that
    somebody waits on have grown.
    """

    def __init__(
        self,
        name: str,
        sockets: list[socket.socket],
        processors: Mapping[int, Processor],
        listener: Listener,
        *,
        store: Store | None = None,
        sync_flush: bool = False,
        on_arrivals: Callable[[], None] = lambda: None,
        idle_seconds: float = 120,
        flush_timeout_ms: int = 5000,
    ) -> None:
        self.name = name
        self.connections: dict[int, Connection] = {}
        self._sockets = sockets
        self._dispatcher = Dispatcher(name, processors)
        self._listener = listener
        self._store = store
        self._sync = sync_flush
        self._event_fd = store.event_fd() if store is not None else -1
        self._on_arrivals = on_arrivals
        self._idle = idle_seconds
        self._flush_timeout = flush_timeout_ms
        self._epoll = select.epoll()
        self._buffer = RecvBuffer(BUFFER)
        self._holding: set[Connection] = set()
        self._again: dict[Connection, None] = {}
        self._durable: deque[_Durable] = deque()
        self._reading = False
        self._told = False
        self._stopping = False
        if store is not None:
            self._epoll.register(self._event_fd, select.EPOLLIN)

    @property
    def address(self) -> Address:
        """The first listener's address, with the port that was really taken."""
        name = self._sockets[0].getsockname()
        return str(name[0]), int(name[1])

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serves until cancelled; then every connection is closed."""
        try:
            async with trio.open_nursery() as nursery:
                self._dispatcher.nursery = nursery
                for sock in self._sockets:
                    nursery.start_soon(self._accept, sock)
                nursery.start_soon(self._read)
                nursery.start_soon(self._tick)
                task_status.started()
        finally:
            self._stopping = True
            for connection in list(self.connections.values()):
                self.close(connection)
            for sock in self._sockets:
                sock.close()
            self._epoll.close()

    async def drain(self, grace: float) -> None:
        """Stops accepting and waits until what is in flight is answered, at most `grace` s."""
        self._stopping = True
        for sock in self._sockets:
            trio.lowlevel.notify_closing(sock)
            sock.close()
        for connection in self.connections.values():
            self._arm(connection)  # nothing new is read
        with trio.move_on_after(grace):
            while (  # noqa: ASYNC110 - a bounded wait at the very end, not worth an event
                self._holding
                or self._durable
                or self._dispatcher.busy
                or any(c.out for c in self.connections.values())
            ):
                await trio.sleep(0.01)

    async def _accept(self, listening: socket.socket) -> None:
        while not self._stopping:
            try:
                await trio.lowlevel.wait_readable(listening)
            except (trio.ClosedResourceError, OSError, ValueError):
                return
            for _ in range(64):
                try:
                    sock, address = listening.accept()
                except BlockingIOError:
                    break
                except OSError as e:
                    if self._stopping:
                        return
                    log.warning("%s: cannot accept a connection: %s", self.name, escape(e))
                    await trio.sleep(0.1)  # out of descriptors: give others time to close
                    break
                self._add(sock, (str(address[0]), int(address[1])))

    def _add(self, sock: socket.socket, address: Address) -> None:
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            session = Session(self._listener, ip_bytes(address[0]), address[1])
            self._epoll.register(sock.fileno(), select.EPOLLIN)
        except (OSError, ValueError) as e:
            log.warning(
                "%s: connection from %s refused: %s", self.name, escape(address[0]), escape(e)
            )
            sock.close()
            return
        connection = Connection(
            sock, session, format_address(address), self._arm, trio.current_time()
        )
        self.connections[connection.fd] = connection

    def _arm(self, connection: Connection) -> None:
        """Waits for what the connection can use now. It is not read while answers are kept for
        it, while frames of it wait for their turn, or while too many of its requests are awaited
        or wait for the disk."""
        session = connection.session
        if connection.answered:
            connection.closed = True
        if connection.out or connection.closed:
            events = select.EPOLLOUT  # where it is closed, the reader meets that and ends it
        elif connection.doomed or connection.awaited > MAX_AWAITED:
            events = 0
        elif session.more and not self._reading:
            events = select.EPOLLOUT  # wakes the reader, which comes here again
        elif session.more:
            events = 0
            self._again[connection] = None
        elif session.held > MAX_HELD or self._stopping:
            events = 0
        else:
            events = select.EPOLLIN
        if events != connection.events and self.connections.get(connection.fd) is connection:
            self._epoll.modify(connection.fd, events)
            connection.events = events

    def close(self, connection: Connection) -> None:
        """Closes a connection and tells those who asked to know."""
        if self.connections.get(connection.fd) is not connection:
            return
        del self.connections[connection.fd]
        self._holding.discard(connection)
        self._epoll.unregister(connection.fd)
        connection.closed = True
        connection.out.clear()
        connection.sock.close()
        for tell in connection.on_close:
            try:
                tell(connection)
            except Exception:
                log.exception("%s: after closing %s", self.name, connection.peer)

    async def _read(self) -> None:
        poll = self._epoll.poll
        fd = self._epoll.fileno()
        while True:
            self._reading = False
            if self._again:
                await trio.lowlevel.checkpoint()
            else:
                await trio.lowlevel.wait_readable(fd)
            self._reading = True
            end = time.monotonic() + SLICE
            active = trio.current_time()
            while True:
                events = poll(0, EVENTS)
                again, self._again = self._again, {}
                now = clock_ms()
                arrivals = False
                for connection in again:
                    if not connection.closed:
                        arrivals |= self._feed(connection, 0, now)
                    if connection.closed:
                        self.close(connection)
                for ready, event in events:
                    if ready == self._event_fd:
                        self._flushed(now)
                        continue
                    served = self.connections.get(ready)
                    if served is None:
                        continue
                    served.last_active = active
                    if event & select.EPOLLOUT:
                        served.send_kept()
                    elif served.events:
                        arrivals |= self._receive(served, now)
                    elif event & GONE and not served.session.more:
                        served.closed = True  # nobody is left to answer
                    if served.closed:
                        self.close(served)
                if arrivals:
                    self._arrived()
                if not events or time.monotonic() > end:
                    break

    def _receive(self, connection: Connection, now: int) -> bool:
        session = connection.session
        try:
            if session.large and (place := session.space()) is not None:
                n = connection.sock.recv_into(place)
                session.filled(n)
                size = 0
            else:
                n = size = connection.sock.recv_into(self._buffer)
        except BlockingIOError:
            session.filled(0)  # nothing was received into a space either
            return False
        except OSError:
            n = size = 0
        if n == 0:
            connection.closed = True
            return False
        return self._feed(connection, size, now)

    def _feed(self, connection: Connection, n: int, now: int) -> bool:
        """Lets the session have `n` bytes of the buffer; whether queues have grown."""
        session = connection.session
        try:
            reply = session.feed(self._buffer, n, now)
        except EngineError:
            log.exception("%s: closing %s", self.name, connection.peer)
            connection.closed = True
            return False
        if reply is not None:
            connection.send(reply)
        if session.commands:
            while (command := session.next_command()) is not None:
                self._dispatcher.process(connection, command)
        if session.held:
            self._holding.add(connection)
        if session.error is not None:
            log.warning("%s: closing %s: %s", self.name, connection.peer, escape(session.error))
            connection.close_when_answered()
            if connection.doomed:
                self._arm(connection)
        elif (
            session.more
            or session.held > MAX_HELD
            or connection.awaited > MAX_AWAITED
            or not connection.events
        ):
            self._arm(connection)
        return session.arrivals

    def resend(self, connection: Connection, frame: bytes) -> None:
        """Gives a send back to the session after its topic was made."""
        session = connection.session
        reply = session.resend(frame, clock_ms())
        if reply is not None:
            connection.send(reply)
        if session.held:
            self._holding.add(connection)
        if session.arrivals:
            self._arrived()

    def answer_durable(
        self, connection: Connection, command: Command, response: Response, end: int
    ) -> None:
        """Answers once the log is durable up to `end`: at once with ASYNC_FLUSH."""
        self._arrived()
        if self._sync and end:
            late = clock_ms() + self._flush_timeout
            self._durable.append(_Durable(end, late, connection, command, response))
            self._release(clock_ms())
        else:
            self.answer(connection, command, response)

    def _flushed(self, now: int) -> None:
        with suppress(BlockingIOError):
            os.read(self._event_fd, 8)
        self._release(now)
        self._arrived()

    def _release(self, now: int) -> None:
        """Sends the answers that waited for the disk and are settled."""
        assert self._store is not None
        flushed, failure = self._store.flushed(), self._store.failure()
        if failure is not None and not self._told:
            self._told = True
            log.critical(
                "%s stops storing messages, as a flush failed: %s", self.name, escape(failure)
            )
        for connection in list(self._holding):
            session = connection.session
            reply = session.release(now, self._flush_timeout)
            if reply is not None:
                connection.send(reply)
            if not session.held:
                self._holding.discard(connection)
            if not connection.events:
                self._arm(connection)
        while self._durable:
            waiting = self._durable[0]
            response = waiting.response
            if waiting.end > flushed:
                if failure is not None:
                    text = f"not stored durably: {failure}"
                    response = Response(ResponseCode.SERVICE_NOT_AVAILABLE, text)
                elif now < waiting.late:
                    return
                else:
                    response.code = ResponseCode.FLUSH_DISK_TIMEOUT
            self._durable.popleft()
            self.answer(waiting.connection, waiting.command, response)

    def _arrived(self) -> None:
        try:
            self._on_arrivals()
        except Exception:
            log.exception("%s: telling waiting consumers", self.name)

    async def _tick(self) -> None:
        """Once a second: answers that waited too long for the disk, silent connections."""
        while True:
            await trio.sleep(1)
            if self._holding or self._durable:
                self._release(clock_ms())
            limit = trio.current_time() - self._idle
            for connection in [c for c in self.connections.values() if c.last_active < limit]:
                log.info("%s: %s was silent for %g s", self.name, connection.peer, self._idle)
                self.close(connection)

    def answer(self, connection: Connection, command: Command, response: Response) -> None:
        """Sends an answer, unless the request was one-way."""
        send_answer(connection, command, response)
