"""Connections to name servers and brokers for Spark's Python processes, without an event loop.

A task is a plain function that Spark calls, so requests go out over blocking sockets: many can be
under way on each connection (`submit`), answers are picked up when they are needed (`take`), and
while Spark works on a batch the next answers wait in the socket. There are no threads. Frames are
read by the engine (`pyrmq.engine.Session`), as everywhere.
"""

from __future__ import annotations

import itertools
import select
import socket
import time
from collections.abc import Mapping
from typing import Self

from pyrmq.engine import Command, Listener, RecvBuffer, Session
from pyrmq.errors import ConnectError, EngineError, RequestTimeoutError
from pyrmq.net.address import Address, format_address
from pyrmq.net.clock import clock_ms
from pyrmq.net.command import FLAG_RESPONSE, JSON, encode_header, frame_head

CONNECT_TIMEOUT = 3.0
STALL_TIMEOUT = 10.0
"""Seconds in which at least some of a frame has to leave."""
RECEIVE_TIMEOUT = 1.0
"""Seconds after which `receive` returns though more keeps coming; no socket holds that much."""
RECEIVE = 256 << 10
Ext = Mapping[str, str | int | bool]


class Connection:
    """One connection. Raises ConnectError once it is broken; make another one then."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.name = format_address(address)
        try:
            self._socket = socket.create_connection(address, CONNECT_TIMEOUT)
        except OSError as error:
            raise ConnectError(f"cannot connect to {self.name}: {error}") from error
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._session = Session(Listener(), b"\0\0\0\0", 0)
        self._buffer = RecvBuffer(RECEIVE)
        self._opaque = itertools.count(1)
        self._waiting: set[int] = set()
        self._answers: dict[int, Command] = {}
        self.broken: str | None = None
        """Why no answer will come any more."""

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self.broken = self.broken or "closed"
        self._socket.close()

    def submit(self, code: int, ext: Ext, body: bytes = b"") -> int:
        """Sends a request; the number that `take` wants. Answers are received meanwhile: a broker
        that cannot get rid of them takes no more requests."""
        if self.broken is None:
            self.receive()  # sees that the other end hung up, if it did
        if self.broken is not None:
            raise ConnectError(f"connection to {self.name} is gone: {self.broken}")
        opaque = next(self._opaque) & 0x7FFFFFFF
        header = encode_header(JSON, code, opaque, 0, ext)
        self._waiting.add(opaque)
        for part in (frame_head(JSON, header, len(body)), body):
            self._send(memoryview(part))
        return opaque

    def _send(self, data: memoryview) -> None:
        until = time.monotonic() + STALL_TIMEOUT
        while data:
            try:
                sent = self._socket.send(data)
            except BlockingIOError:
                sent = 0
            except OSError as error:
                raise self._lost(str(error)) from error
            if sent:
                data = data[sent:]
                until = time.monotonic() + STALL_TIMEOUT
                continue
            poll = select.poll()
            poll.register(self._socket, select.POLLIN | select.POLLOUT)
            poll.poll(max(0.0, until - time.monotonic()) * 1000)
            self.receive()
            if self.broken is None and time.monotonic() > until:
                self.broken = "it takes no data"
            if self.broken is not None:
                raise self._lost(self.broken)

    def _lost(self, why: str) -> ConnectError:
        self.broken = self.broken or why
        return ConnectError(f"connection to {self.name} is gone: {self.broken}")

    def receive(self) -> bool:
        """Takes what has arrived, without waiting. Whether there was anything."""
        session, some = self._session, False
        until = time.monotonic() + RECEIVE_TIMEOUT
        while self.broken is None and time.monotonic() < until:
            try:
                if session.large and (place := session.space()) is not None:
                    n = self._socket.recv_into(place)
                    session.filled(n)
                    size = 0
                else:
                    n = size = self._socket.recv_into(self._buffer)
            except BlockingIOError:
                session.filled(0)
                return some
            except OSError as error:
                self.broken = str(error)
                return True
            some = True
            if n == 0:
                self.broken = "the other end hung up"
                return True
            self._feed(size)
        return some

    def _feed(self, size: int) -> None:
        session = self._session
        try:
            session.feed(self._buffer, size, clock_ms())
            while True:
                while (command := session.next_command()) is not None:
                    if command.flag & FLAG_RESPONSE and command.opaque in self._waiting:
                        self._waiting.discard(command.opaque)
                        self._answers[command.opaque] = command
                if session.error is not None:
                    self.broken = f"it broke the protocol: {session.error}"
                    return
                if not session.more:
                    return
                session.feed(self._buffer, 0, clock_ms())
        except EngineError as error:
            self.broken = str(error)

    def take(self, opaque: int) -> Command | None:
        """The answer to a request, if it is there. ConnectError if it cannot come any more."""
        answer = self._answers.pop(opaque, None)
        if answer is None and self.broken is not None:
            raise ConnectError(f"connection to {self.name} is gone: {self.broken}")
        return answer

    def forget(self, opaque: int) -> None:
        """Nobody waits for this answer any more."""
        self._waiting.discard(opaque)
        self._answers.pop(opaque, None)

    def wait(self, opaque: int, timeout: float) -> Command:
        """The answer to a request, waited for. RequestTimeoutError, ConnectError."""
        until = time.monotonic() + timeout
        poll = select.poll()
        if self.broken is None:
            poll.register(self._socket, select.POLLIN)
        while True:
            # What has arrived counts, however long Spark did not ask.
            self.receive()
            answer = self.take(opaque)
            if answer is not None:
                return answer
            left = until - time.monotonic()
            if left <= 0:
                self.forget(opaque)
                raise RequestTimeoutError(f"{self.name} did not answer in {timeout:g} s")
            poll.poll(left * 1000)

    def call(self, code: int, ext: Ext, body: bytes = b"", *, timeout: float) -> Command:
        """Sends a request and waits for its answer, whatever its code."""
        return self.wait(self.submit(code, ext, body), timeout)


class Connections:
    """Connections by address, opened when asked for. A context manager that closes them."""

    def __init__(self) -> None:
        self._open: dict[Address, Connection] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        for connection in self._open.values():
            connection.close()
        self._open.clear()

    def get(self, address: Address) -> Connection:
        """A connection that works as far as is known. ConnectError."""
        known = self._open.get(address)
        if known is not None:
            if known.broken is None:
                return known
            known.close()
            del self._open[address]
        made = self._open[address] = Connection(address)
        return made

    def drop(self, connection: Connection) -> None:
        """It did not answer: the next `get` opens another one."""
        connection.close()

    def receive(self, timeout: float) -> None:
        """Waits until something arrived on any of them, or the time (seconds) is over."""
        alive = [c for c in self._open.values() if c.broken is None]
        some = False
        for connection in alive:
            some |= connection.receive()
        if some:
            return
        poll = select.poll()
        for connection in alive:
            if connection.broken is None:
                poll.register(connection, select.POLLIN)
        poll.poll(max(0.0, timeout) * 1000)
        for connection in alive:
            connection.receive()
