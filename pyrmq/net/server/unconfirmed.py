"""Answers that wait until the log is confirmed: which connections have some, and who sends them.

Each session keeps its own answers in one queue, those that the engine wrote and those of processors
(native/crates/broker/src/wire/unconfirmed.rs).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from pyrmq.engine import AnswerSender, Command, Store
from pyrmq.escape import escape
from pyrmq.net.clock import clock_ms
from pyrmq.net.command import ReplyTo
from pyrmq.net.server.answers import WhenConfirmed, encoded, send_answer
from pyrmq.net.server.connection import Connection
from pyrmq.net.server.connection_state import Event

log = logging.getLogger(__name__)

AT_ONCE = 512
"""Connections whose answers one native call sends."""


class Unconfirmed:
    """Connections whose sessions keep unconfirmed answers. `timeout_ms`: syncFlushTimeout."""

    def __init__(self, name: str, store: Store | None, timeout_ms: int) -> None:
        self._name = name
        self._store = store
        self.timeout = timeout_ms
        self._connections: set[Connection] = set()
        self._failure_logged = False
        self._sender = AnswerSender(AT_ONCE)

    def __bool__(self) -> bool:
        return bool(self._connections)

    def note(self, connection: Connection) -> None:
        """The session of `connection` keeps answers."""
        self._connections.add(connection)

    def forget(self, connection: Connection) -> None:
        """`connection` is closed."""
        self._connections.discard(connection)

    def answer(
        self, connection: Connection, command: Command | ReplyTo, answer: WhenConfirmed
    ) -> None:
        """Answers, now or when the log is confirmed up to `answer.log_end`."""
        if command.flag & 2:
            return
        if not answer.log_end:
            send_answer(connection, command, answer.response)
            return
        pieces = encoded(command, answer.response)
        if not pieces:
            connection.happened(Event.END)
            return
        session = connection.session
        frame = b"".join(pieces)
        reply = session.answer(frame, command.codec, command.opaque, answer.log_end, clock_ms())
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
        too long, or failed with a write or a flush."""
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
            if not connection.session.unconfirmed:
                self.forget(connection)
            connection.released()
