"""Bounds on what requests may take.

`Bounded`: so many long requests at a time. `OneByOne`: one request for a name at a time.
`Creations`: so many topics or groups for each connection. `LoopTime`: a share of the event loop's
time.
"""

from __future__ import annotations

import math
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypeVar

import trio

from pyrmq.errors import SystemBusyError
from pyrmq.net.command import Response
from pyrmq.net.server.answers import Elsewhere
from pyrmq.net.server.connection import Connection
from pyrmq.net.server.line import Line

T = TypeVar("T")
SILENCE = 1.0
"""Seconds between two lines of the log about what is not created."""


class Bounded:
    """Requests of one kind. They have threads of their own, and take no place among the requests
    that the server awaits at a time: however long they take, others are answered."""

    def __init__(self, what: str, running: int, waiting: int) -> None:
        self._what = what
        self._running = running
        self._waiting = waiting
        self._places = trio.CapacityLimiter(running)
        self._threads = trio.CapacityLimiter(math.inf)  # who has a place may have a thread
        self._line = Line()
        self._under_way = 0

    def begin(self, answer: Coroutine[Any, Any, Response]) -> Elsewhere:
        """Has a request answered. SYSTEM_BUSY if too many wait."""
        if self._under_way >= self._running + self._waiting:
            answer.close()
            raise SystemBusyError(
                f"[OVERLOAD]{self._running} {self._what} are under way and {self._waiting} wait: "
                "ask again later"
            )
        self._under_way += 1
        return Elsewhere(self._counted(answer))

    @property
    def waiting(self) -> int:
        """How many wait for a thread."""
        return max(self._under_way - self._running, 0)

    @property
    def capacity(self) -> int:
        """How many may wait."""
        return self._waiting

    def head_wait_ms(self) -> int:
        """Milliseconds that the first one has waited for a thread; 0 if none waits."""
        return self._line.head_wait_ms()

    async def _counted(self, answer: Coroutine[Any, Any, Response]) -> Response:
        try:
            return await answer
        finally:
            self._under_way -= 1

    async def run(self, function: Callable[..., T], *args: object) -> T:
        """Calls it in one of the threads."""
        place = self._line.join()
        try:
            await self._places.acquire()
        finally:
            self._line.leave(place)
        try:
            return await trio.to_thread.run_sync(function, *args, limiter=self._threads)
        finally:
            self._places.release()


class OneByOne:
    def __init__(self) -> None:
        self._under_way: dict[str, trio.Event] = {}

    @asynccontextmanager
    async def alone(self, name: str) -> AsyncIterator[None]:
        """Holds a name. Requests about other names run meanwhile."""
        while (before := self._under_way.get(name)) is not None:
            await before.wait()
        self._under_way[name] = done = trio.Event()
        try:
            yield
        finally:
            del self._under_way[name]
            done.set()

    @asynccontextmanager
    async def all_alone(self, names: Iterable[str]) -> AsyncIterator[None]:
        """Holds several names; in one order, so that two of them never wait for each other."""
        async with AsyncExitStack() as stack:
            for name in sorted(set(names)):
                await stack.enter_async_context(self.alone(name))
            yield


class Creations:
    """`what` is the word for them in texts, `key` the configuration key of the bound."""

    def __init__(self, what: str, key: str) -> None:
        self._what = what
        self._key = key
        self._made: dict[Connection, int] = {}
        self._silent_until = 0.0

    def why_not(self, connection: Connection | None, most: int) -> str | None:
        """Why a connection may make no more, None if it may."""
        made = 0 if connection is None else self._made.get(connection, 0)
        if made < most:
            return None
        return f"this connection has made {made} {self._what} already, {self._key}={most}"

    def count(self, connection: Connection | None) -> None:
        """The connection has made one."""
        if connection is not None:
            self._made[connection] = self._made.get(connection, 0) + 1
            connection.call_on_close(self.connection_gone)

    def may_log(self) -> bool:
        """Whether a refusal is to be logged: those of a program in a loop are not, one by one."""
        now = time.monotonic()
        if now < self._silent_until:
            return False
        self._silent_until = now + SILENCE
        return True

    def connection_gone(self, connection: Connection) -> None:
        self._made.pop(connection, None)


class LoopTime:
    """Time on the event loop that some work may take: `share` of all time, counted by windows."""

    def __init__(self, share: float, window: float) -> None:
        self._most = share * window
        self._window = window
        self._end = 0.0
        self._used = 0.0

    def may_begin(self) -> bool:
        now = time.monotonic()
        if now >= self._end:
            self._end, self._used = now + self._window, 0.0
        return self._used < self._most

    def took(self, seconds: float) -> None:
        self._used += seconds
