"""Answers that wait until the log is written or confirmed: which connections have some, and who
sends them.

Each session keeps its own answers in one queue, those that the engine wrote and those of processors
(native/crates/broker/src/wire/unconfirmed.rs). With SYNC_FLUSH and SYNC_MASTER the ready loop sends
those of the sessions that it watches. `Unconfirmed` has the others: of connections whose sockets
take no more, that wait for something else, or that are closing.

Group commit writes what the connections of one round stored, and answers them. The reader writes by
itself, as that takes microseconds. While the disk is slow (`Store.stall`), a thread of the engine
writes, so that nobody else is held up. The reader waits for that thread, and reads on once the
write takes longer than osPageCacheBusyTimeOutMills; then the engine refuses new messages
(SYSTEM_BUSY)."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Protocol

import trio

from pyrmq.engine import BUSY, AnswerSender, Command, Store
from pyrmq.errors import ServiceNotAvailableError
from pyrmq.escape import escape
from pyrmq.net.clock import clock_ms
from pyrmq.net.command import ReplyTo
from pyrmq.net.server.answers import WhenConfirmed, encoded, send_answer
from pyrmq.net.server.connection import Connection
from pyrmq.net.server.connection_state import Event

log = logging.getLogger(__name__)

AT_ONCE = 512
"""Connections whose answers one native call sends."""


class Keeper(Protocol):
    """Sends the answers of some connections by itself."""

    def keep(self, connection: Connection) -> bool:
        """Whether it does so for `connection`."""

    def keeping(self) -> list[Connection]:
        """Those whose sessions keep answers."""


class Unconfirmed:
    """Connections whose sessions keep unconfirmed answers. `timeout_ms`: syncFlushTimeout."""

    def __init__(self, name: str, store: Store | None, timeout_ms: int) -> None:
        self._name = name
        self._store = store
        self.timeout = timeout_ms
        self._connections: set[Connection] = set()
        self._failure_logged = False
        self._sender = AnswerSender(AT_ONCE)
        self.keeper: Keeper | None = None
        """Who sends answers beside this."""

    def __bool__(self) -> bool:
        return self.has_noted or (self.keeper is not None and bool(self.keeper.keeping()))

    @property
    def has_noted(self) -> bool:
        """Whether it has connections that the keeper does not have."""
        return bool(self._connections)

    def note(self, connection: Connection) -> None:
        """The session of `connection` keeps answers."""
        if self.keeper is not None and self.keeper.keep(connection):
            self._connections.discard(connection)
        else:
            self._connections.add(connection)

    def forget(self, connection: Connection) -> None:
        """`connection` is closed."""
        self._connections.discard(connection)

    def answer(
        self, connection: Connection, command: Command | ReplyTo, answer: WhenConfirmed
    ) -> None:
        """Answers, now or when the log is confirmed up to `answer.log_end`."""
        if command.flag & 2 or not answer.log_end:
            send_answer(connection, command, answer.response)
            return
        pieces = encoded(command, answer.response)
        if not pieces:
            connection.happened(Event.END)
            return
        session = connection.session
        frame = b"".join(pieces)
        reply = session.answer(
            frame,
            command.codec,
            command.opaque,
            answer.log_end,
            clock_ms(),
            command.code,
            type(command) is ReplyTo and command.long_polling,
            command.since_us,
        )
        if reply is not None:
            connection.send(reply)
        if session.unconfirmed:
            self.note(connection)
            self._release(connection, clock_ms())  # the barrier may have passed it already

    def _release(self, connection: Connection, now: int) -> None:
        connection.send_released(now, self.timeout)
        if connection.session.unconfirmed:
            self.note(connection)
        else:
            self.forget(connection)
        connection.released()

    def release_of(self, connections: Iterable[Connection]) -> None:
        """As `release`, of connections whose sessions keep answers and which nobody noted."""
        now = clock_ms()
        for connection in connections:
            if not connection.is_closed:
                self._release(connection, now)

    def release(self) -> None:
        """Sends all answers that need not wait any longer: what they acknowledge is confirmed, took
        too long, or failed with a write or a flush. The keeper's as well."""
        if self.keeper is not None:
            self._connections.update(self.keeper.keeping())
        self.release_noted()

    def release_noted(self) -> None:
        """As `release`, without those that the keeper has."""
        assert self._store is not None
        failure = self._store.failure()
        if failure is not None and not self._failure_logged:
            self._failure_logged = True
            log.critical(
                "%s stops storing messages, as a flush failed: %s", self._name, escape(failure)
            )
        now = clock_ms()
        plain = []
        for connection in list(self._connections):
            if connection.out or not connection.takes_answers:
                self._release(connection, now)
            else:
                plain.append(connection)
        for at in range(0, len(plain), AT_ONCE):
            self._release_all(plain[at : at + AT_ONCE], now)

    def _release_all(self, connections: list[Connection], now: int) -> None:
        """As `_release`, in one native call for all of them."""
        sessions = [connection.session for connection in connections]
        for index, _, rest, error in self._sender.release(sessions, now, self.timeout):
            connections[index].sent_natively(rest, error)
        for connection in connections:
            if connection.session.unconfirmed:
                self.note(connection)
            else:
                self.forget(connection)
            connection.released()


POLL = 0.002
"""Seconds between two looks at a write that another thread does."""


class GroupCommit:
    """Knows whose answers wait for the write of this round."""

    def __init__(self, name: str, store: Store, unconfirmed: Unconfirmed) -> None:
        self._name = name
        self._store = store
        self._unconfirmed = unconfirmed
        self._fed: list[Connection] = []
        self._busy_logged = False
        self._left_at = 0.0
        self.left = False
        """A write was left to the engine's thread: call `wait`."""

    def fed(self, connection: Connection) -> None:
        """The session of `connection` keeps answers that wait for the write alone."""
        self._fed.append(connection)

    def write(self) -> bool:
        """Writes and answers. Returns whether queues have grown."""
        arrivals, error = False, None
        try:
            arrivals = self._store.write_staged()
        except Exception as e:
            error = e
        self.written(error)
        return arrivals

    def written(self, error: Exception | None) -> None:
        """Answers behind a write. `error`: what it failed with, None if it did not."""
        if isinstance(error, ServiceNotAvailableError):
            self._unconfirmed.release()  # the engine logs it, once
        elif error is not None:
            log.error("%s: messages are not stored", self._name, exc_info=error)
        if self._fed:
            fed, self._fed = self._fed, []
            self._unconfirmed.release_of(fed)

    def leave(self) -> None:
        """Leaves the write to the engine's thread; `wait` waits for it."""
        fed, self._fed = self._fed, []
        for connection in fed:
            self._unconfirmed.note(connection)
        if not self._store.writes_later():  # nor does a write wait that was left before
            self._left_at = trio.current_time()
        self.left = True
        self._store.write_later()

    def stalled_ms(self) -> int:
        """Milliseconds that what was left has waited for the disk so far; 0 if nothing waits."""
        if not self.left or not self._store.writes_later():
            return 0
        return int((trio.current_time() - self._left_at) * 1000)

    async def wait(self) -> None:
        """Waits for what was left, until it takes too long: then the engine's eventfd tells the
        reader when it is done."""
        while self._store.writes_later():
            if self._store.stall() == BUSY:
                if not self._busy_logged:
                    self._busy_logged = True
                    log.warning(
                        "%s: the disk hangs in a write of the commit log: messages are refused "
                        "(SYSTEM_BUSY) until it is done",
                        self._name,
                    )
                return
            await trio.sleep(POLL)
        self.left = False
        if self._busy_logged:
            self._busy_logged = False
            log.info("%s: the disk takes messages again", self._name)
