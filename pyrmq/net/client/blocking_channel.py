"""The client's end on a blocking socket, for processes without an event loop: Spark's tasks.

Many requests can be under way on a connection (`submit`), answers are picked up when they are
needed (`take`), and while the caller does other things the next answers wait in the socket. There
are no threads. It is `ClientProtocol` with a socket, as `Channel` is on trio.
"""

from __future__ import annotations

import select
import socket
import time
from typing import Self, TypeVar

from pyrmq.engine import Command, RecvBuffer
from pyrmq.errors import PyrmqError
from pyrmq.net.address import Address, format_address
from pyrmq.net.client.blocking_socket import TlsSocket, open_socket, why_failed
from pyrmq.net.client.credentials import Credentials, Signer
from pyrmq.net.client.procedure import Pause, Procedure, Result
from pyrmq.net.client.protocol import (
    FOREVER,
    ClientProtocol,
    CloseReason,
    Ext,
    GiveUp,
    Request,
)
from pyrmq.net.client.tls import Tls

STALL_TIMEOUT = 10.0
"""Seconds in which at least some of a frame has to leave."""
RECEIVE_TIMEOUT = 1.0
"""Seconds after which `receive` returns though more keeps coming; no socket buffers that much."""
RECEIVE = 256 << 10
T = TypeVar("T")


class BlockingChannel:
    """One connection. Raises ConnectError once it is broken; make another one then.

    A request that times out ends it: it may be dead without a word, and nobody else uses it.
    Requests of the server are dropped.
    """

    def __init__(
        self, address: Address, *, credentials: Credentials | None = None, tls: Tls | None = None
    ) -> None:
        self.address = address
        self.name = format_address(address)
        self._signer = None if credentials is None else Signer(credentials)
        self._socket: socket.socket | TlsSocket = open_socket(address, tls)
        self._protocol = ClientProtocol(
            self.name,
            time.monotonic(),
            give_up=GiveUp.TIMED_OUT,
            max_server_requests=0,
            plain=tls is None,
            signed=credentials is not None,
        )
        self._buffer = RecvBuffer(RECEIVE)

    @property
    def broken(self) -> str | None:
        """Why no answer will come any more, None while one may."""
        closed = self._protocol.closed
        return None if closed is None else closed.text

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._protocol.close(CloseReason.CLOSED)
        self._socket.close()

    def submit(
        self, code: int, ext: Ext, body: bytes = b"", *, timeout: float = FOREVER
    ) -> Request:
        """Sends a request; what `take` and `wait` want. Its answer may take `timeout` seconds from
        when the request has left. Answers are received meanwhile: a broker that cannot get rid of
        them takes no more requests. ConnectError."""
        if self.broken is None:
            self.receive()  # sees that the other end hung up, if it did
        protocol = self._protocol
        if self._signer is not None:
            ext = self._signer.signed(ext, body)
        request, head = protocol.request(
            code, ext, len(body), now=time.monotonic(), timeout=FOREVER
        )
        for part in (head, body):
            self._send(memoryview(part))
        if request.outcome is None:
            protocol.restart(request, time.monotonic(), timeout)
        return request

    def _send(self, data: memoryview) -> None:
        until = time.monotonic() + STALL_TIMEOUT
        while data:
            try:
                sent = self._socket.send(data)
            except BlockingIOError:
                sent = 0
            except OSError as error:
                self._protocol.close(CloseReason.FAILED, why_failed(error))
                sent = 0
            if sent:
                data = data[sent:]
                until = time.monotonic() + STALL_TIMEOUT
                continue
            if self.broken is None:
                poll = select.poll()
                poll.register(self._socket, select.POLLIN | select.POLLOUT)
                poll.poll(max(0.0, until - time.monotonic()) * 1000)
                self.receive()
                if time.monotonic() > until:
                    self._protocol.close(CloseReason.STALLED)
            self._protocol.check_open()

    def receive(self) -> bool:
        """Takes what has arrived, without waiting; then ends what is late. Whether there was
        anything."""
        some = self._receive()
        self._protocol.expire(time.monotonic())
        return some

    def _receive(self) -> bool:
        protocol, some = self._protocol, False
        now = time.monotonic()
        until = now + RECEIVE_TIMEOUT
        while protocol.closed is None and now < until:
            size = 0
            try:
                if (place := protocol.space()) is not None:
                    n = self._socket.recv_into(place)
                    protocol.filled(n)
                else:
                    n = size = self._socket.recv_into(self._buffer)
            except BlockingIOError:
                protocol.filled(0)
                return some
            except OSError as error:
                protocol.close(CloseReason.FAILED, why_failed(error))
                return True
            some = True
            if n == 0:
                protocol.close(CloseReason.HUNG_UP)
            else:
                protocol.receive_buffer(self._buffer, size, now)
            now = time.monotonic()
        return some

    @property
    def holds_some(self) -> bool:
        """Whether bytes have been received that no poll of the socket sees."""
        held = self._socket
        return isinstance(held, TlsSocket) and held.pending() > 0 and self.broken is None

    def take(self, request: Request) -> Command | None:
        """The answer to a request, if it is there. ConnectError or RequestTimeoutError if it
        cannot come any more."""
        return self._protocol.result(request)

    def forget(self, request: Request) -> None:
        """Nobody waits for this answer any more."""
        self._protocol.forget(request)

    def wait(self, request: Request, timeout: float) -> Command:
        """The answer to a request, waited for up to `timeout` seconds from now.
        RequestTimeoutError, ConnectError."""
        if request.outcome is None:
            self._protocol.restart(request, time.monotonic(), timeout)
        poll = select.poll()
        if self.broken is None:
            poll.register(self._socket, select.POLLIN)
        while True:
            # What has arrived counts, however long nobody asked for it.
            self.receive()
            answer = self.take(request)
            if answer is not None:
                return answer
            if not self.holds_some:
                poll.poll(max(0.0, request.deadline - time.monotonic()) * 1000)

    def call(self, code: int, ext: Ext, body: bytes = b"", *, timeout: float) -> Command:
        """Sends a request and waits for its answer, whatever its code."""
        return self.wait(self.submit(code, ext, body), timeout)


class BlockingChannels:
    """Connections by address, opened when asked for. A context manager that closes them."""

    def __init__(self, credentials: Credentials | None = None, tls: Tls | None = None) -> None:
        self._credentials = credentials
        self._tls = tls
        self._open: dict[Address, BlockingChannel] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        for channel in self._open.values():
            channel.close()
        self._open.clear()

    def get(self, address: Address) -> BlockingChannel:
        """A connection that works as far as is known. ConnectError."""
        known = self._open.get(address)
        if known is not None:
            if known.broken is None:
                return known
            known.close()
            del self._open[address]
        made = self._open[address] = BlockingChannel(
            address, credentials=self._credentials, tls=self._tls
        )
        return made

    def drop(self, channel: BlockingChannel) -> None:
        """What is under way on it is given up: the next `get` opens another one."""
        channel.close()

    def pause(self, seconds: float) -> None:
        """Waits before another try."""
        time.sleep(seconds)

    def perform(self, procedure: Procedure[T]) -> T:
        """Runs a procedure. Raises what it raises."""
        result: Result = None
        while True:
            try:
                step = procedure.send(result)
            except StopIteration as end:
                value: T = end.value
                return value
            if isinstance(step, Pause):
                self.pause(step.seconds)
                result = None
                continue
            try:
                channel = self.get(step.address)
                result = channel.call(step.code, step.ext, timeout=step.timeout)
            except PyrmqError as error:
                result = error

    def receive(self, timeout: float) -> None:
        """Waits until something arrived on any of them, or the time (seconds) is over."""
        alive = [c for c in self._open.values() if c.broken is None]
        some = False
        for channel in alive:
            some |= channel.receive()
        if some:
            return
        if any(channel.holds_some for channel in alive):
            return
        poll = select.poll()
        for channel in alive:
            if channel.broken is None:
                poll.register(channel, select.POLLIN)
        poll.poll(max(0.0, timeout) * 1000)
        for channel in alive:
            channel.receive()
