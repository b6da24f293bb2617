"""Extra requests for routes, when one of their brokers is gone or back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

from pyrmq.client.recent_topics import keep
from pyrmq.net.tasks import Tasks

INTERVAL = (0.5, 10.0)
"""Seconds between two requests for a topic's route: the first interval, doubled up to the last as
long as nothing has changed."""


class RouteLooks:
    """`refresh` fetches the route of a topic and returns whether it has changed."""

    def __init__(self, tasks: Tasks, refresh: Callable[[str], Awaitable[bool]]) -> None:
        self._tasks = tasks
        self._refresh = refresh
        self._next: dict[str, tuple[float, float]] = {}
        """When a topic's route may be requested again, and the interval after that."""

    def look(self, topic: str) -> None:
        """Requests the route, unless the last request was a moment ago."""
        now = trio.current_time()
        due, wait = self._next.get(topic, (now, INTERVAL[0]))
        if now < due or not self._tasks.running:
            return
        if now > due + INTERVAL[1]:
            wait = INTERVAL[0]  # that was another trouble
        self._next[topic] = now + wait, min(2 * wait, INTERVAL[1])
        self._tasks.start_soon(self._look, topic)

    async def _look(self, topic: str) -> None:
        if await self._refresh(topic):
            self._next.pop(topic, None)

    def forget(self, topics: set[str]) -> None:
        """Keeps only these topics."""
        keep(self._next, topics)
