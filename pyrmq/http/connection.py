"""One HTTP connection: reads a request, answers it and closes.

h11 speaks the protocol. A connection has one request, so that nothing of a client's is kept between
two scrapes and no request can hide behind another one.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, aclosing
from http import HTTPStatus

import h11
import trio

from pyrmq.escape import escape
from pyrmq.http.messages import Reply, Request, text

log = logging.getLogger(__name__)

MAX_HEADER = 8192
"""Bytes of a request line and its headers."""
READ_SECONDS = 10.0
"""How long a client may take to send its request."""
ANSWER_SECONDS = 30.0
"""How long an answer may take, until the client has read it."""
LINGER_SECONDS = 1.0
"""How long the client may take to close behind the answer."""
MAX_LINGER = 65_536
"""Bytes that a client may still send then; they are thrown away."""
READ = 4096
"""Bytes of one read."""
METHODS = ("GET", "HEAD")
_HEADERS = (("cache-control", "no-store"), ("x-content-type-options", "nosniff"))

Answering = Callable[[Request], AbstractAsyncContextManager[Reply]]
"""The reply to a request; it is left when the reply is sent."""


class Connection:
    """Serves one stream. `name` is the server's, for the log; `peer` the client's address."""

    def __init__(self, name: str, stream: trio.abc.HalfCloseableStream, peer: str) -> None:
        self._name = name
        self._stream = stream
        self._peer = peer
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEADER)
        self._is_head = False
        self.waits = True
        """Whether it only waits for the client: for its request, or for it to close behind the
        answer."""

    async def serve(self, answering: Answering) -> None:
        """Answers the one request. The caller closes the stream."""
        try:
            request = await self._read()
            if request is None:
                return
            with trio.move_on_after(ANSWER_SECONDS) as scope:
                if isinstance(request, Reply):
                    await self._write(request)
                else:
                    async with answering(request) as reply:
                        await self._write(reply)
            if scope.cancelled_caught:
                self._note(f"an answer was not read within {ANSWER_SECONDS:g} s")
                return
            await self._linger()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self._note("the client has gone")

    def _note(self, what: str) -> None:
        log.info("%s: connection from %s closed: %s", self._name, escape(self._peer), what)

    async def _read(self) -> Request | Reply | None:
        """The request, what is answered instead of reading it, or None where nobody asks."""
        try:
            with trio.move_on_after(READ_SECONDS) as scope:
                event = await self._event()
            if scope.cancelled_caught:
                return text(408, f"no request within {READ_SECONDS:g} s\n")
        except h11.RemoteProtocolError as e:
            return text(e.error_status_hint or 400, f"{e}\n")
        finally:
            self.waits = False
        if not isinstance(event, h11.Request):
            return None
        request = _request_of(event)
        self._is_head = request.method == "HEAD"
        if request.method not in METHODS:
            return text(405, "only GET and HEAD are served\n", ("allow", ", ".join(METHODS)))
        return request

    async def _event(self) -> object:
        while True:
            event = self._http.next_event()
            if event is not h11.NEED_DATA:
                return event
            self._http.receive_data(bytes(await self._stream.receive_some(READ)))

    async def _write(self, reply: Reply) -> None:
        chunks = reply.chunks
        headers = [("content-type", reply.content_type), ("connection", "close"), *_HEADERS]
        headers += reply.headers
        if isinstance(chunks, bytes):
            headers.append(("content-length", str(len(chunks))))
        head = self._http.send(
            h11.Response(
                status_code=reply.status,
                headers=[(name.encode(), value.encode()) for name, value in headers],
                reason=HTTPStatus(reply.status).phrase.encode(),
            )
        )
        assert head is not None
        if isinstance(chunks, bytes):
            body = b"" if self._is_head else self._part(chunks)
            await self._stream.send_all(head + body + self._end())
            return
        async with aclosing(chunks):
            await self._stream.send_all(head)
            if self._is_head or await self._parts(chunks):
                await self._stream.send_all(self._end())

    async def _parts(self, chunks: AsyncGenerator[bytes, None]) -> bool:
        """Sends the parts; whether all of them came. If one cannot be made the answer ends early,
        which the client sees: its last chunk is missing."""
        while True:
            try:
                chunk = await anext(chunks)
            except StopAsyncIteration:
                return True
            except Exception:
                log.exception("%s: an answer was ended early", self._name)
                return False
            await self._stream.send_all(self._part(chunk))

    def _part(self, data: bytes) -> bytes:
        """A part of the body as it is sent."""
        return self._http.send(h11.Data(data=data)) or b"" if data else b""

    def _end(self) -> bytes:
        return self._http.send(h11.EndOfMessage()) or b""

    async def _linger(self) -> None:
        """Lets the client close first: a socket that is closed with unread bytes takes the answer
        back."""
        await self._stream.send_eof()
        self.waits = True
        left = MAX_LINGER
        with trio.move_on_after(LINGER_SECONDS):
            while left > 0 and (data := await self._stream.receive_some(READ)):
                left -= len(data)


def _request_of(event: h11.Request) -> Request:
    target = event.target.decode("ascii")
    if "://" in target:  # the form that proxies use
        target = "/" + target.partition("://")[2].partition("/")[2]
    path, _, query = target.partition("?")
    headers = {name.decode("ascii"): value.decode("latin-1") for name, value in event.headers}
    return Request(event.method.decode("ascii"), path, query, headers)
