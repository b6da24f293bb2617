"""The HTTP server: listens, bounds what clients can take of it, and calls the handler of a path."""

from __future__ import annotations

import logging
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import trio

from pyrmq.errors import ConfigError
from pyrmq.escape import escape
from pyrmq.http.connection import Connection
from pyrmq.http.messages import Handler, Reply, Request, text
from pyrmq.net.address import Address, format_address
from pyrmq.net.server import listen

log = logging.getLogger(__name__)

MAX_CONNECTIONS = 64
"""Connections at a time. Beyond it the oldest gives way that has sent no request, or is
answered and not closed."""
AT_ONCE = 4
"""Requests of one path that are answered at a time; beyond it 503."""
_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-length: 0\r\n"
    b"retry-after: 5\r\n\r\n"
)


def http_listeners(host: str, port: int, key: str) -> list[socket.socket]:
    """Sockets for an HTTP server. ConfigError names `key`, which chooses the port."""
    try:
        return listen.open_listeners(host, port)
    except ConfigError as e:
        raise ConfigError(f"{e}; {key} chooses another port") from e


class HttpServer:
    """Serves `routes`, handlers by path, on listening sockets until cancelled; it closes them.

    All times are those of trio's clock. `name` stands in the log.
    """

    def __init__(
        self, name: str, sockets: list[socket.socket], routes: Mapping[str, Handler]
    ) -> None:
        self._name = name
        self._sockets = sockets
        self._routes = dict(routes)
        self._busy: dict[str, int] = {}
        """Requests that are answered now, by path."""
        self._open: dict[Connection, trio.CancelScope] = {}
        """The oldest first."""
        self._refusals = listen.Refusals(name)

    @property
    def address(self) -> Address:
        """The first listener's address, with the port that was really taken."""
        name = self._sockets[0].getsockname()
        return str(name[0]), int(name[1])

    @property
    def answering(self) -> int:
        """Requests that are answered now."""
        return sum(self._busy.values())

    def add(self, routes: Mapping[str, Handler]) -> None:
        """From now on these paths are served as well."""
        self._routes.update(routes)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serves until cancelled; then every connection is closed."""
        try:
            async with trio.open_nursery() as nursery:
                for sock in self._sockets:
                    nursery.start_soon(self._accept, sock, nursery)
                log.info("%s: serves at %s", self._name, escape(format_address(self.address)))
                task_status.started()
        finally:
            for sock in self._sockets:
                sock.close()

    async def _accept(self, listening: socket.socket, nursery: trio.Nursery) -> None:
        while True:
            await trio.lowlevel.wait_readable(listening)
            try:
                sock, address = listening.accept()
            except BlockingIOError:
                continue
            except OSError as e:
                self._refusals.refused(str(e))
                await trio.sleep(0.1)  # out of descriptors: give others time to close
                continue
            if not self._has_place(sock):
                sock.close()
                continue
            stream = trio.SocketStream(trio.socket.from_stdlib_socket(sock))
            peer = format_address((str(address[0]), int(address[1])))
            nursery.start_soon(self.serve, stream, peer)

    def _has_place(self, sock: socket.socket) -> bool:
        """Whether a new connection is served; if not it is told so as far as that goes."""
        sock.setblocking(False)
        if sock.fileno() >= listen.descriptors_for_clients():
            self._refusals.refused("all descriptors that clients may have are in use")
            return False
        if len(self._open) < MAX_CONNECTIONS or self._give_way():
            return True
        self._refusals.refused(f"{MAX_CONNECTIONS} connections are answered already")
        try:
            sock.send(_FULL)
        except OSError:
            log.debug("%s: a refused client has gone", self._name)
        return False

    def _give_way(self) -> bool:
        """Ends the oldest connection that nothing is done for, if there is one."""
        for connection, scope in self._open.items():
            if connection.waits and not scope.cancel_called:
                scope.cancel()
                self._refusals.refused(
                    f"the oldest that only waits: there are {MAX_CONNECTIONS} connections"
                )
                return True
        return False

    async def serve(self, stream: trio.abc.HalfCloseableStream, peer: str) -> None:
        """Serves one connection, and closes it."""
        connection = Connection(self._name, stream, peer)
        with trio.CancelScope() as scope:
            self._open[connection] = scope
            try:
                await connection.serve(self._answering)
            finally:
                del self._open[connection]
                await trio.aclose_forcefully(stream)

    @asynccontextmanager
    async def _answering(self, request: Request) -> AsyncIterator[Reply]:
        """The reply to a request; within it the request counts as one that is answered."""
        path = request.path
        handler = self._routes.get(path)
        if handler is None:
            yield text(404, f"this server has {', '.join(sorted(self._routes))}\n")
            return
        busy = self._busy.get(path, 0)
        if busy >= AT_ONCE:
            yield text(503, f"{busy} requests of {path} are answered now\n", ("retry-after", "5"))
            return
        self._busy[path] = busy + 1
        try:
            yield await self._handle(handler, request)
        finally:
            self._busy[path] -= 1

    async def _handle(self, handler: Handler, request: Request) -> Reply:
        try:
            return await handler(request)
        except Exception:
            log.exception("%s: %s is not answered", self._name, escape(request.path))
            return text(500, "the server could not answer; its log says why\n")
