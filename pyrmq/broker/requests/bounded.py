"""Requests that may take long, bounded: so many at a time, so many that wait, no more."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import trio

from pyrmq.errors import SystemBusyError
from pyrmq.net.command import Response
from pyrmq.net.server.answers import Elsewhere

T = TypeVar("T")


class Bounded:
    """Requests of one kind. They have threads of their own, and take no place among the requests
    that the server awaits at a time: however long they take, others are answered."""

    def __init__(self, what: str, running: int, waiting: int) -> None:
        self._what = what
        self._running = running
        self._waiting = waiting
        self._threads = trio.CapacityLimiter(running)
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
    def room(self) -> int:
        """How many may wait."""
        return self._waiting

    async def _counted(self, answer: Coroutine[Any, Any, Response]) -> Response:
        try:
            return await answer
        finally:
            self._under_way -= 1

    async def run(self, function: Callable[..., T], *args: object) -> T:
        """Calls it in one of the threads."""
        return await trio.to_thread.run_sync(function, *args, limiter=self._threads)
