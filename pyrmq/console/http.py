"""Hypercorn's connections on trio, with bounds of their number and of the time that answers take.

Hypercorn itself waits for a client that takes no bytes, also at its end.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from functools import partial
from typing import Any

import h11
import trio
from hypercorn.config import Config
from hypercorn.events import Closed, Event, RawData, Updated
from hypercorn.protocol.h2 import H2Protocol
from hypercorn.trio.lifespan import Lifespan
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ASGIFramework, ConnectionState, LifespanState
from hypercorn.utils import wrap_app

MAX_CONNECTIONS = 1000
"""Connections at a time. Beyond it the oldest gives way that waits for a request, else the oldest
that waits for its client to send or to take something; if there is none, the new one is closed."""
WRITE = 60.0
"""Seconds in which a client has to take a piece of an answer."""
STOP = 3.0
"""Seconds that requests have to end in when the server stops."""


class HttpServer:
    """Serves an application on listening sockets, which it closes. `stop` ends it in order."""

    def __init__(
        self, app: ASGIFramework, config: Config, sockets: Sequence[socket.socket]
    ) -> None:
        self._app = app
        self._config = config
        self._sockets = sockets
        self._open: dict[_Connection, None] = {}
        """The oldest first."""
        self._stop, self._empty = trio.Event(), trio.Event()

    def stop(self) -> None:
        """Takes no more requests; those that have begun may end."""
        self._stop.set()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        state: LifespanState = {}
        app = wrap_app(self._app, self._config.wsgi_max_body_size, "asgi")
        lifespan = Lifespan(app, self._config, state)
        context = WorkerContext(None)
        tls = self._config.create_ssl_context()

        async def connected(stream: Any) -> None:
            if len(self._open) >= MAX_CONNECTIONS and not await self._give_way():
                await trio.aclose_forcefully(stream)
                return
            one = _Connection(app, self._config, context, ConnectionState(state.copy()), stream)
            self._open[one] = None
            try:
                await one.run()
            finally:
                del self._open[one]
                if not self._open and self._stop.is_set():
                    self._empty.set()

        async with trio.open_nursery() as outer:
            await outer.start(lifespan.handle_lifespan)
            await lifespan.wait_for_startup()
            listeners = [
                trio.SocketListener(trio.socket.from_stdlib_socket(sock)) for sock in self._sockets
            ]
            secured = [
                trio.SSLListener(one, tls, https_compatible=True) for one in listeners if tls
            ]
            async with trio.open_nursery() as connections:
                async with trio.open_nursery() as listening:
                    serve = partial(trio.serve_listeners, handler_nursery=connections)
                    await listening.start(serve, connected, secured or listeners)
                    task_status.started()
                    await self._stop.wait()
                    listening.cancel_scope.cancel()
                await context.terminated.set()
                if self._open:
                    with trio.move_on_after(STOP):
                        await self._empty.wait()
                for one in list(self._open):
                    await trio.aclose_forcefully(one.stream)
                connections.cancel_scope.cancel()
            await lifespan.wait_for_shutdown()
            outer.cancel_scope.cancel()

    async def _give_way(self) -> bool:
        """Closes the oldest connection that waits for a request, else for its client: whoever has
        many requests that never end keeps nobody out."""
        waiting = [one for one in self._open if one.waits_for_client]
        chosen = next((one for one in waiting if one.is_idle), waiting[0] if waiting else None)
        if chosen is None:
            return False
        chosen.is_closing = True
        await trio.aclose_forcefully(chosen.stream)
        return True


class _Connection(TCPServer):
    """A connection of HTTP/1.1 that does not wait for ever until its client takes something."""

    is_idle = True
    """Whether it waits for a request."""
    is_closing = False
    _sending = 0
    """Pieces of answers that the client has not taken."""

    @property
    def waits_for_client(self) -> bool:
        """Whether its client has to do something: to ask, to send the rest of its request, or to
        take an answer."""
        if self.is_closing:
            return False
        state = getattr(self._h11(), "their_state", None)
        return self.is_idle or self._sending > 0 or state is h11.SEND_BODY

    @property
    def _is_answering(self) -> bool:
        """Whether an answer has begun that is not whole."""
        return getattr(self._h11(), "our_state", None) is h11.SEND_BODY

    def _h11(self) -> Any:
        http = getattr(getattr(self, "protocol", None), "protocol", None)
        return getattr(http, "connection", None)

    async def protocol_send(self, event: Event) -> None:
        if isinstance(self.protocol.protocol, H2Protocol):
            # Nobody needs it here, and it has attacks of its own (streams that are reset).
            await trio.aclose_forcefully(self.stream)
            return
        if isinstance(event, Closed) and self._is_answering:
            # What follows a last request ends the reading; the answer closes the connection itself.
            return
        if isinstance(event, Updated):
            self.is_idle = event.idle
        if not isinstance(event, RawData):
            await super().protocol_send(event)
            return
        self._sending += 1
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._end_late)
                try:
                    await super().protocol_send(event)
                except trio.BusyResourceError:  # the reading side ends the connection meanwhile
                    await trio.aclose_forcefully(self.stream)
                nursery.cancel_scope.cancel()
        finally:
            self._sending -= 1

    async def _read_data(self) -> None:
        """Hypercorn would keep the connection of a client that is gone until it is idle too
        long."""
        await super()._read_data()
        await self.idle_task.stop()

    async def _end_late(self) -> None:
        """Hypercorn shields what it sends: it ends by the end of the stream."""
        await trio.sleep(WRITE)
        await trio.aclose_forcefully(self.stream)
