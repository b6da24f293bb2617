"""The client's end on trio: a connection that many tasks share (`ClientProtocol` with a socket)."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Self, TypeVar

import trio

from pyrmq.engine import Command
from pyrmq.errors import ClientError, ConnectError, PyrmqError
from pyrmq.escape import escape
from pyrmq.net.address import Address, format_address
from pyrmq.net.client.connecting import CONNECT_TIMEOUT as CONNECT_TIMEOUT
from pyrmq.net.client.connecting import close_stream, open_stream, why_broken
from pyrmq.net.client.credentials import Credentials, Signer
from pyrmq.net.client.procedure import Pause, Procedure, Result
from pyrmq.net.client.protocol import (
    ClientProtocol,
    Closed,
    CloseReason,
    Event,
    Ext,
    RequestEnded,
    ServerRequest,
)
from pyrmq.net.client.requests import SendRequest
from pyrmq.net.client.tls import Tls
from pyrmq.net.client.tls_context import context_of
from pyrmq.net.command import Response, check_success, json_fields
from pyrmq.net.tasks import Tasks

log = logging.getLogger(__name__)

WRITE_TIMEOUT = 3.0
"""Seconds in which something of what is written has to leave."""
RECEIVE = 256 << 10
PIECE = 256 << 10
"""Bytes of a write that have WRITE_TIMEOUT to leave."""
HELD_UP, MOST_GRACE = 0.1, 1.0
"""Seconds: a look at deadlines that is later is late because this process was held up; the peer
then gets as long as that was, at most so long."""
MAX_WAITING = 1 << 20
"""Bytes that wait for the write that is under way; callers with more wait themselves."""
T = TypeVar("T")
Handler = Callable[["Channel", Command], Awaitable[Response | None]]
OnClosed = Callable[["Channel"], None]


class _Frames:
    """What leaves with one write: all that came while the one before was under way."""

    __slots__ = ("ended", "left", "parts", "size", "taken")

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.size = 0
        self.taken = trio.Event()
        """They are being written: others may be collected."""
        self.ended = trio.Event()
        """They have left, or never will."""
        self.left = False


class Channel:
    """One connection to a server. Use through `Channels`, which opens and reopens them.

    `greeted` says whether a heartbeat was answered on it, and `version` what that answer states as
    the broker's version (MQVersion); `greeting` is locked while one is under way, `introduced` says
    whether one was begun in the background. All of them are their owner's.
    """

    def __init__(
        self,
        stream: trio.abc.Stream,
        address: Address,
        handler: Handler | None,
        on_closed: OnClosed | None = None,
        fields: Ext | None = None,
        signer: Signer | None = None,
    ) -> None:
        self.address = address
        self.greeted = self.introduced = False
        self.version = 0
        self.greeting = trio.Lock()
        self._stream = stream
        self._on_closed = on_closed
        self._fields = fields
        self._signer = signer
        plain = not isinstance(stream, trio.SSLStream)
        self._protocol = ClientProtocol(
            format_address(address), trio.current_time(), plain=plain, signed=signer is not None
        )
        self._handler = handler
        self._next = _Frames()
        self._wake = trio.Event()
        self._scope = trio.CancelScope()
        self._writing = trio.CancelScope()
        self._sweep = trio.CancelScope()
        """Its deadline is when a request may be late next."""

    @property
    def closed(self) -> bool:
        return self._protocol.closed is not None

    @property
    def silent(self) -> bool:
        """Whether nothing has come since a request that timed out was sent."""
        return self._protocol.silent

    async def run(self) -> None:
        """Reads until the connection ends; then every waiting call fails."""
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._write)
                    nursery.start_soon(self._expire)
                    while not self.closed:
                        data = bytes(await self._stream.receive_some(RECEIVE))
                        self._act(self._protocol.receive_bytes(data, trio.current_time()), nursery)
                    self._end_tasks()
        except* (trio.BrokenResourceError, trio.ClosedResourceError) as group:
            self._close(CloseReason.HUNG_UP, why_broken(group.exceptions[0]))
        finally:
            self._close(CloseReason.CLOSED)
            await close_stream(self._stream)

    def _act(self, events: list[Event], nursery: trio.Nursery | None = None) -> None:
        for event in events:
            if isinstance(event, RequestEnded):
                request = event.request
                if request.waiter is not None:
                    trio.lowlevel.reschedule(request.waiter)
                    request.waiter = None
            elif isinstance(event, ServerRequest):
                if nursery is not None and self._handler is not None:
                    nursery.start_soon(self._handle, self._handler, event)
                else:
                    self._protocol.finish_server_request(event)
            else:
                self._ended(event)

    def _ended(self, event: Closed) -> None:
        if event.reason is CloseReason.PROTOCOL:
            log.warning(
                "connection to %s: %s", escape(format_address(self.address)), escape(event.text)
            )
        self._next.taken.set()
        self._next.ended.set()
        if event.reason is not CloseReason.HUNG_UP:
            self._scope.cancel()
        if self._on_closed is not None:  # at once: a request of the server may take its time
            self._on_closed(self)

    def _close(self, reason: CloseReason, text: str = "") -> None:
        self._act(self._protocol.close(reason, text))

    async def _handle(self, handler: Handler, request: ServerRequest) -> None:
        command = request.command
        try:
            try:
                response = await handler(self, command)
                frame = self._protocol.answer_frame(command, response)
            except Exception as e:
                log.exception("request %d of the server failed", command.code)
                text = f"{type(e).__name__}: {e}".encode(errors="replace").decode()
                frame = self._protocol.answer_frame(command, Response(1, text))
            if frame is not None:
                await self._send(frame)
        except ConnectError:
            log.info("answer to request %d not sent: connection is gone", command.code)
        finally:
            self._protocol.finish_server_request(request)

    def _end_tasks(self) -> None:
        self._writing.cancel()
        self._sweep.cancel()

    async def _expire(self) -> None:
        """Ends what is late, for all callers: none has a deadline of its own."""
        while not self.closed:
            with trio.CancelScope(deadline=self._protocol.expires) as self._sweep:
                await trio.sleep_forever()
            held_up = trio.current_time() - self._sweep.deadline
            if held_up > HELD_UP:
                # This process stood still, not the peer: what it has sent is looked at first.
                await trio.sleep(min(held_up, MOST_GRACE))
            self._act(self._protocol.expire(trio.current_time()))

    async def _write(self) -> None:
        """Writes what is collected, frames as wholes: no caller's cancellation reaches it."""
        frames = self._next
        try:
            with self._writing:
                while True:
                    await self._wake.wait()
                    frames, self._next, self._wake = self._next, _Frames(), trio.Event()
                    frames.taken.set()
                    data = b"".join(frames.parts)
                    for at in range(0, len(data), PIECE):
                        with trio.move_on_after(WRITE_TIMEOUT) as limit:
                            await self._stream.send_all(data[at : at + PIECE])
                        if limit.cancelled_caught:
                            self._close(CloseReason.STALLED)
                            return
                    frames.left = True
                    frames.ended.set()
        except (trio.BrokenResourceError, trio.ClosedResourceError) as e:
            self._close(CloseReason.FAILED, why_broken(e) or CloseReason.HUNG_UP.value)
        finally:
            frames.ended.set()

    def _has_room(self, size: int) -> bool:
        """Whether a frame with a body of this size may be collected now."""
        waiting = self._next.size
        return not waiting or waiting + size <= MAX_WAITING or self.closed

    async def _wait_for_room(self, size: int) -> None:
        while not self._has_room(size):
            await self._next.taken.wait()

    def _collect(self, head: bytes, body: bytes) -> _Frames:
        """Hands a frame to the writer. ConnectError if the connection ended."""
        self._protocol.check_open()
        frames = self._next
        frames.parts += (head, body)
        frames.size += len(head) + len(body)
        self._wake.set()
        return frames

    async def _send(self, head: bytes, body: bytes = b"") -> None:
        """ConnectError if the connection has ended, or ends before the frame has left."""
        await self._wait_for_room(len(body))
        frames = self._collect(head, body)
        await frames.ended.wait()
        if not frames.left:
            self._protocol.check_open()

    async def call(
        self,
        code: int,
        ext: Ext | SendRequest | None = None,
        body: bytes = b"",
        *,
        timeout: float = 3.0,
    ) -> Command:
        """Sends a request and returns its answer, whatever its code; `timeout` in seconds.
        RequestTimeoutError, ConnectError."""
        protocol, fields = self._protocol, self._all_fields(ext, body)
        request, head = protocol.request(
            code, fields, len(body), now=trio.current_time(), timeout=timeout
        )
        try:
            room = self._has_room(len(body))
            if not room:
                with trio.CancelScope(deadline=request.deadline):
                    await self._wait_for_room(len(body))
                    room = request.outcome is None
            if room:
                self._collect(head, body)
            if request.deadline < self._sweep.deadline:
                self._sweep.deadline = request.deadline
            if request.outcome is None:

                def abort(_: object) -> trio.lowlevel.Abort:
                    request.waiter = None
                    return trio.lowlevel.Abort.SUCCEEDED

                request.waiter = trio.lowlevel.current_task()
                await trio.lowlevel.wait_task_rescheduled(abort)
            answer = protocol.result(request)
        finally:
            protocol.forget(request)
        assert answer is not None
        return answer

    def _all_fields(self, ext: Ext | SendRequest | None, body: bytes) -> Ext | str | None:
        """The fields of a request, with those that all requests have, and signed."""
        if isinstance(ext, SendRequest):
            if self._signer is not None:
                return self._signer.signed_json(ext, body)
            return f"{ext.json},{json_fields(self._fields)}" if self._fields else ext.json
        if self._signer is not None:
            return self._signer.signed(ext, body)
        return {**(ext or {}), **self._fields} if self._fields else ext

    async def request(
        self, code: int, ext: Ext | None = None, body: bytes = b"", *, timeout: float = 3.0
    ) -> Command:
        """As `call`, but a code other than SUCCESS is raised. ResponseError."""
        return check_success(await self.call(code, ext, body, timeout=timeout))

    async def oneway(
        self,
        code: int,
        ext: Ext | SendRequest | None = None,
        body: bytes = b"",
        *,
        remark: str | None = None,
    ) -> None:
        """Sends a request that is not answered. ConnectError."""
        fields = self._all_fields(ext, body)
        await self._send(self._protocol.oneway(code, fields, len(body), remark=remark), body)


def _signer(credentials: Credentials | None, fields: Ext | None) -> Signer | None:
    return None if credentials is None else Signer(credentials, fields)


class Channels:
    """Channels by address, opened on demand and reopened when broken. An async context manager;
    requests of servers go to `handler`, connections that ended to `on_closed`. `fields` are added
    to every request; requests are signed with `credentials`. Entering it reads the files of `tls`:
    ConfigError if they are invalid. `apart`: servers with credentials and TLS of their own."""

    def __init__(
        self,
        handler: Handler | None = None,
        on_closed: OnClosed | None = None,
        fields: Ext | None = None,
        credentials: Credentials | None = None,
        tls: Tls | None = None,
        apart: Mapping[Address, tuple[Credentials | None, Tls | None]] = MappingProxyType({}),
    ) -> None:
        self._fields = fields
        self._access = _signer(credentials, fields), tls
        self._apart = {at: (_signer(one, fields), own) for at, (one, own) in apart.items()}
        self._handler = handler
        self._on_closed = on_closed
        self._channels: dict[Address, Channel] = {}
        self._locks: dict[Address, trio.Lock] = {}
        self._tasks = Tasks()

    @property
    def signs(self) -> bool:
        """Whether requests are signed."""
        return self._access[0] is not None

    async def __aenter__(self) -> Self:
        for _, tls in (self._access, *self._apart.values()):
            if tls is not None:
                await trio.to_thread.run_sync(context_of, tls)
        await self._tasks.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._tasks.__aexit__(*error)

    def open(self, address: Address) -> Channel | None:
        """The live channel to `address`, if there is one."""
        channel = self._channels.get(address)
        return None if channel is None or channel.closed else channel

    async def get(self, address: Address) -> Channel:
        """A live channel to `address`. ConnectError if there is none to be had."""
        channel = self.open(address)
        if channel is not None:
            return channel
        async with self._locks.setdefault(address, trio.Lock()):
            channel = self._channels.get(address)
            if channel is not None and not channel.closed:
                return channel
            return await self._open(address)

    async def perform(self, procedure: Procedure[T]) -> T:
        """Runs a procedure. Raises what it raises."""
        result: Result = None
        while True:
            try:
                step = procedure.send(result)
            except StopIteration as end:
                value: T = end.value
                return value
            if isinstance(step, Pause):
                await trio.sleep(step.seconds)
                result = None
                continue
            try:
                channel = None
                with trio.move_on_after(step.timeout):
                    channel = await self.get(step.address)
                if channel is None:
                    where = format_address(step.address)
                    raise ConnectError(f"cannot connect to {where} in {step.timeout:g} s")
                result = await channel.call(step.code, step.ext, timeout=step.timeout)
            except PyrmqError as e:
                result = e

    async def _open(self, address: Address) -> Channel:
        if not self._tasks.running:
            raise ClientError("not connected: use the client inside of its `async with`")
        signer, tls = self._apart.get(address, self._access)
        stream = await open_stream(address, tls)
        if not self._tasks.running:  # it was left meanwhile
            await trio.aclose_forcefully(stream)
            raise ClientError("not connected: the client was left")
        channel = Channel(stream, address, self._handler, self._on_closed, self._fields, signer)
        self._channels[address] = channel
        self._tasks.start_soon(channel.run)
        return channel
