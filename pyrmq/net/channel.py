"""The client's end: a connection that many tasks share, answers matched by opaque."""

from __future__ import annotations

import itertools
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import Self

import trio

from pyrmq.engine import Command, Listener, Session
from pyrmq.errors import (
    ClientError,
    ConnectError,
    ProtocolError,
    RequestTimeoutError,
    ResponseError,
    leaves,
)
from pyrmq.escape import escape
from pyrmq.net.address import Address, format_address
from pyrmq.net.clock import clock_ms
from pyrmq.net.command import Response, encode_request, encode_response
from pyrmq.net.tasks import Tasks

log = logging.getLogger(__name__)

CONNECT_TIMEOUT = 3.0
WRITE_TIMEOUT = 3.0
"""Seconds that a frame may take to leave."""
Handler = Callable[["Channel", Command], Awaitable[Response | None]]
Closed = Callable[["Channel"], None]


class Channel:
    """One connection to a server. Use through `Channels`, which opens and reopens them.

    `greeted` says whether a heartbeat was answered on it, `greeting` is held while one is under
    way; both are their owner's.
    """

    def __init__(
        self,
        stream: trio.abc.Stream,
        address: Address,
        handler: Handler | None,
        on_closed: Closed | None = None,
    ) -> None:
        self.address = address
        self.closed = False
        self.greeted = False
        self.greeting = trio.Lock()
        self._stream = stream
        self._on_closed = on_closed
        self._session = Session(Listener(), b"\0\0\0\0", 0)
        self._handler = handler
        self._opaque = itertools.count(1)
        self._waiting: dict[int, tuple[trio.Event, list[Command]]] = {}
        self._send_lock = trio.Lock()
        self._scope = trio.CancelScope()
        self._heard = trio.current_time()

    async def run(self) -> None:
        """Reads until the connection ends; then every waiting call fails."""
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    while data := await self._stream.receive_some(256 * 1024):
                        self._heard = trio.current_time()
                        self._take(bytes(data), nursery)
        except* (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        except* ProtocolError as e:
            where = format_address(self.address)
            log.warning("%s broke the protocol: %s", escape(where), escape(leaves(e)[0]))
        finally:
            self.closed = True
            waiting, self._waiting = self._waiting, {}
            for event, _ in waiting.values():
                event.set()
            if self._on_closed is not None:
                self._on_closed(self)
            with trio.CancelScope(shield=True, deadline=trio.current_time() + 1):
                await trio.aclose_forcefully(self._stream)

    def _take(self, data: bytes, nursery: trio.Nursery) -> None:
        session = self._session
        session.feed_bytes(data, clock_ms())
        while True:
            while (command := session.next_command()) is not None:
                if command.flag & 1:
                    waiting = self._waiting.pop(command.opaque, None)
                    if waiting is not None:
                        waiting[1].append(command)
                        waiting[0].set()
                elif self._handler is not None:
                    nursery.start_soon(self._handle, command)
            if session.error is not None:
                raise ProtocolError(session.error)
            if not session.more:
                return
            session.feed_bytes(b"", clock_ms())

    async def _handle(self, command: Command) -> None:
        assert self._handler is not None
        try:
            response = await self._handler(self, command)
        except Exception as e:
            log.exception("request %d of the server failed", command.code)
            response = Response(1, f"{type(e).__name__}: {e}")
        if response is None or command.flag & 2:
            return
        frame = b"".join(bytes(p) for p in encode_response(command, response))
        try:
            await self._send(frame)
        except ConnectError:
            log.info("answer to request %d not sent: connection is gone", command.code)

    async def _send(self, frame: bytes) -> None:
        where = format_address(self.address)
        try:
            async with self._send_lock:
                if self.closed:
                    raise ConnectError(f"connection to {where} is gone")
                # Half a frame would break the connection: it is not cancelled, but bounded.
                with trio.move_on_after(WRITE_TIMEOUT, shield=True) as limit:
                    await self._stream.send_all(frame)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as e:
            self.give_up()
            raise ConnectError(f"connection to {where} is gone") from e
        if limit.cancelled_caught:
            self.give_up()
            raise ConnectError(f"{where} takes no data")

    def give_up(self) -> None:
        """Ends the connection; waiting calls fail and the next request opens a new one."""
        self.closed = True
        self._scope.cancel()

    async def call(
        self,
        code: int,
        ext: Mapping[str, str | int | bool] | None = None,
        body: bytes = b"",
        *,
        timeout: float = 3.0,
    ) -> Command:
        """Sends a request and returns its answer, whatever its code. RequestTimeoutError,
        ConnectError."""
        opaque = next(self._opaque) & 0x7FFFFFFF
        began = trio.current_time()
        event = trio.Event()
        got: list[Command] = []
        self._waiting[opaque] = (event, got)
        try:
            with trio.move_on_after(timeout):
                await self._send(encode_request(code, opaque, ext, body))
                await event.wait()
        finally:
            self._waiting.pop(opaque, None)
        if got:
            return got[0]
        if event.is_set():
            raise ConnectError(f"connection to {format_address(self.address)} broke")
        if self._heard < began:
            self.give_up()  # nothing at all came: the peer may be gone without a word
        raise RequestTimeoutError(
            f"{format_address(self.address)} did not answer request {code} in {timeout:g} s"
        )

    async def request(
        self,
        code: int,
        ext: Mapping[str, str | int | bool] | None = None,
        body: bytes = b"",
        *,
        timeout: float = 3.0,
    ) -> Command:
        """As `call`, but a code other than SUCCESS is raised."""
        answer = await self.call(code, ext, body, timeout=timeout)
        if answer.code != 0:
            raise ResponseError.of(answer.code, answer.remark or "")
        return answer

    async def oneway(
        self,
        code: int,
        ext: Mapping[str, str | int | bool] | None = None,
        body: bytes = b"",
        *,
        remark: str | None = None,
    ) -> None:
        """Sends a request that is not answered."""
        opaque = next(self._opaque) & 0x7FFFFFFF
        await self._send(encode_request(code, opaque, ext, body, oneway=True, remark=remark))


class Channels:
    """Channels by address, opened on demand and reopened when broken. An async context manager;
    requests of servers go to `handler`, connections that ended to `on_closed`."""

    def __init__(self, handler: Handler | None = None, on_closed: Closed | None = None) -> None:
        self._handler = handler
        self._on_closed = on_closed
        self._channels: dict[Address, Channel] = {}
        self._locks: dict[Address, trio.Lock] = {}
        self._tasks = Tasks()

    async def __aenter__(self) -> Self:
        await self._tasks.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._tasks.__aexit__(*error)

    async def get(self, address: Address) -> Channel:
        """A live channel to `address`. ConnectError if there is none to be had."""
        channel = self._channels.get(address)
        if channel is not None and not channel.closed:
            return channel
        async with self._locks.setdefault(address, trio.Lock()):
            channel = self._channels.get(address)
            if channel is not None and not channel.closed:
                return channel
            return await self._open(address)

    async def _open(self, address: Address) -> Channel:
        if not self._tasks.running:
            raise ClientError("not connected: use the client inside of its `async with`")
        try:
            with trio.fail_after(CONNECT_TIMEOUT):
                stream = await trio.open_tcp_stream(*address)
        except (OSError, trio.TooSlowError) as e:
            raise ConnectError(f"cannot connect to {format_address(address)}: {e}") from e
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        channel = Channel(stream, address, self._handler, self._on_closed)
        self._channels[address] = channel
        self._tasks.start_soon(channel.run)
        return channel
