"""The remoting server: accepts, serves by one reader task, stops in order.

Waking a task per request costs more than the request, so one task (`reader`) serves all
connections. trio owns accepting, timers, cancellation, draining and everything that is not plain
sending and pulling.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Mapping, Set

import trio

from pyrmq.engine import Listener, RpcFigures, Session, Store
from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.net.address import Address, format_address, ip_bytes
from pyrmq.net.command import ReplyTo, Response
from pyrmq.net.server import listen
from pyrmq.net.server.admin_access import AdminAccess
from pyrmq.net.server.answer_times import AnswerTimes
from pyrmq.net.server.answers import Answer, Guard, Processor
from pyrmq.net.server.connection import Connection
from pyrmq.net.server.dispatch import Dispatcher
from pyrmq.net.server.line import Line
from pyrmq.net.server.parked import ParkedPulls
from pyrmq.net.server.questions import Questions
from pyrmq.net.server.reader import Reader
from pyrmq.net.server.slow import SlowRequests
from pyrmq.net.server.tls import ServerTls
from pyrmq.net.server.unconfirmed import Unconfirmed

log = logging.getLogger(__name__)

HANDSHAKE = 10.0
"""Seconds that a handshake of TLS may take."""


class RemotingServer:
    """Serves processors on listening sockets until cancelled or stopped.

    `processors` maps request codes; `listener` makes the sessions, `store` is the one they store
    plain sends in (None: a server without a store). `idle_seconds`: silence after which a
    connection is closed, which may be changed; `flush_timeout_ms`: how long an answer waits for the
    barrier; `admins`: from where requests that administrate are taken; `guard`: the check before
    every request; `tls`: whose context the listener has; `figures`: how long requests take, the
    listener's if it has some; `slow_log_ms`: requests that take longer are logged.
    """

    def __init__(
        self,
        name: str,
        sockets: list[socket.socket],
        processors: Mapping[int, Processor],
        listener: Listener,
        *,
        store: Store | None = None,
        questions: Questions | None = None,
        idle_seconds: float = 120,
        flush_timeout_ms: int = 5000,
        admins: AdminAccess | None = None,
        guard: Guard | None = None,
        tls: ServerTls | None = None,
        figures: RpcFigures | None = None,
        slow_log_ms: int = 0,
    ) -> None:
        self.name = name
        self._sockets = sockets
        self._listener = listener
        self._unconfirmed = Unconfirmed(name, store, flush_timeout_ms)
        self._parked = ParkedPulls(store) if store is not None else None
        self._dispatcher = Dispatcher(
            name, processors, self._unconfirmed, self._parked, questions, admins, guard
        )
        self.figures = figures or RpcFigures()
        self.slow_requests = SlowRequests(name, self.figures, slow_log_ms)
        times = AnswerTimes(self.figures, self.slow_requests)
        self._reader = Reader(name, listener, self._dispatcher, self._unconfirmed, store, times)
        self.idle_seconds = idle_seconds
        self._refusals = listen.Refusals(name)
        self._slow = listen.Refusals(name, what="connections closed")
        self._tls = tls
        self._at_drain: list[Callable[[], None]] = []
        self._handshakes: dict[Connection, float] = {}
        """Handshakes of TLS that have begun, and when that was noticed."""

    @property
    def address(self) -> Address:
        """The first listener's address, with the port that was really taken."""
        name = self._sockets[0].getsockname()
        return str(name[0]), int(name[1])

    @property
    def connections(self) -> Mapping[int, Connection]:
        """Open connections by descriptor."""
        return self._reader.connections

    @property
    def line(self) -> Line:
        """Sends that wait until their topic is made."""
        return self._dispatcher.line

    def add(self, processors: Mapping[int, Processor]) -> None:
        """From now on these answer as well: processors that need the server are made after it."""
        self._dispatcher.add(processors)

    def stalled_ms(self) -> int:
        """Milliseconds that a write of the log takes so far; 0 while none is waited for."""
        return self._reader.stalled_ms()

    def close(self, connection: Connection) -> None:
        """Closes a connection and calls those who asked to know."""
        self._reader.close(connection)

    def release_parked(self, topic: str, queue_id: int) -> None:
        """Answers the pulls that are parked on a queue, whatever there is."""
        if self._parked is not None:
            self._parked.release((topic, queue_id))

    def end_parked(self, topics: Set[str], response: Callable[[str], Response]) -> None:
        """Answers the pulls that are parked on any queue of these topics, which are gone."""
        if self._parked is not None:
            self._parked.end(topics, response)

    def release_all_parked(self) -> None:
        """Answers all pulls that are parked, whatever there is: their clients ask again."""
        if self._parked is not None:
            self._parked.release_all()

    def wake_parked(self) -> None:
        """Answers parked pulls on queues that have grown by other means than requests."""
        self._dispatcher.wake_parked()

    def watch_arrivals(self, watcher: Callable[[tuple[str, int]], None]) -> None:
        """From now on `watcher` hears of each queue that the engine reports: it has asked for that
        (`notify_on_arrival`)."""
        assert self._parked is not None
        self._parked.watchers.append(watcher)

    def at_drain(self, finish: Callable[[], None]) -> None:
        """`finish` answers what waits elsewhere when the server stops."""
        self._at_drain.append(finish)

    def answer(self, connection: Connection, to: ReplyTo, answer: Answer) -> None:
        """Answers a request that a processor has kept. (`Keep`)"""
        self._dispatcher.act(connection, to, answer)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serves until cancelled; then every connection is closed."""
        try:
            async with trio.open_nursery() as nursery:
                self._dispatcher.nursery = nursery
                for sock in self._sockets:
                    nursery.start_soon(self._accept, sock)
                nursery.start_soon(self._reader.run)
                nursery.start_soon(self._tick)
                nursery.start_soon(self.slow_requests.run)
                if self._tls is not None:
                    nursery.start_soon(self._tls.run)
                if self._parked is not None:
                    nursery.start_soon(self._parked.run)
                task_status.started()
        finally:
            self._reader.stopping = True
            self._reader.close_all()
            for sock in self._sockets:
                sock.close()

    async def drain(self, grace: float) -> None:
        """Stops accepting, answers what is parked and waits until what is in flight is answered, at
        most `grace` s."""
        self._reader.stop_reading()
        for sock in self._sockets:
            trio.lowlevel.notify_closing(sock)
            sock.close()
        if self._parked is not None:
            self._parked.flush()
        for finish in self._at_drain:
            finish()
        with trio.move_on_after(grace):
            while (  # noqa: ASYNC110 - a bounded wait at the very end, not worth an event
                self._unconfirmed
                or self._dispatcher.busy
                or any(c.out or c.session.commands for c in self.connections.values())
            ):
                await trio.sleep(0.01)

    async def _accept(self, listening: socket.socket) -> None:
        while not self._reader.stopping:
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
                    if self._reader.stopping:
                        return
                    self._refusals.refused(str(e))
                    await trio.sleep(0.1)  # out of descriptors: give others time to close
                    break
                self._add(sock, (str(address[0]), int(address[1])))

    def _add(self, sock: socket.socket, address: Address) -> None:
        most = listen.descriptors_for_clients()
        if sock.fileno() >= most:
            sock.close()
            self._refusals.refused(
                f"all {most} descriptors that clients may have are in use; the limit of open files "
                f"is {listen.descriptor_limit()}, and the rest is kept for the server's files"
            )
            return
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            session = Session(self._listener, ip_bytes(address[0]), address[1])
            self._reader.add(sock, session, format_address(address))
        except (OSError, ValueError) as e:
            log.warning(
                "%s: connection from %s refused: %s",
                self.name,
                escape(address[0]),
                escape(e),
                extra=about(connection=format_address(address)),
            )
            sock.close()

    async def _tick(self) -> None:
        """Once a second: answers that waited too long for the barrier, silent connections."""
        while True:
            await trio.sleep(1)
            if self._unconfirmed:
                self._unconfirmed.release()
            self._end_handshakes()
            limit = trio.current_time() - self.idle_seconds
            for connection in [c for c in self.connections.values() if c.active_at < limit]:
                log.info(
                    "%s: %s was silent for %g s",
                    self.name,
                    connection.peer,
                    self.idle_seconds,
                    extra=about(connection=connection.peer),
                )
                self.close(connection)

    def _end_handshakes(self) -> None:
        """Closes connections whose handshake of TLS takes too long."""
        now = trio.current_time()
        all_of_them = self.connections.values()
        began = {c: self._handshakes.get(c, now) for c in all_of_them if c.session.handshaking}
        self._handshakes = began
        for connection in [c for c, since in began.items() if now - since >= HANDSHAKE]:
            why = f"{connection.peer}: its TLS handshake took {HANDSHAKE:g} s"
            self._slow.refused(why)
            self.close(connection)
