"""How long requests take that make or change topics and groups, by whether they succeeded.
[BrokerMetricsManager: topicCreateExecuteTime, consumerGroupCreateExecuteTime]"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Awaitable, Callable
from functools import wraps

from pyrmq.engine import Command
from pyrmq.net.command import Response
from pyrmq.net.server.connection import Connection

BOUNDS_MS = (10, 100, 1000, 3000, 5000)
"""[BrokerMetricsManager.registerMetricsView]"""
Change = Callable[[Connection, Command], Awaitable[Response]]


class Times:
    """A histogram, ms."""

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_MS) + 1)
        self.total = 0.0

    def add(self, ms: float) -> None:
        self.counts[bisect_left(BOUNDS_MS, ms)] += 1
        self.total += ms

    @property
    def row(self) -> tuple[list[int], float]:
        """Buckets, the last of them above all bounds, and the sum."""
        return self.counts, round(self.total, 3)


class CreateTimes:
    """Those of one broker. `clock` in seconds."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self.topics: dict[tuple[bool, bool], Times] = {}
        """By whether it succeeded, and whether the topic is one of the system."""
        self.groups: dict[bool, Times] = {}
        """By whether it succeeded."""

    def of_topic(self, change: Change, is_system: Callable[[str], bool]) -> Change:
        """A processor that does what `change` does, and has its time counted. A list counts as one
        request, and as none of the system."""

        def times(command: Command, succeeded: bool) -> Times:
            own = is_system(command.ext.get("topic", ""))
            return self.topics.setdefault((succeeded, own), Times())

        return self._timed(change, times)

    def of_group(self, change: Change) -> Change:
        """The same of groups."""
        return self._timed(
            change, lambda command, succeeded: self.groups.setdefault(succeeded, Times())
        )

    def _timed(self, change: Change, times: Callable[[Command, bool], Times]) -> Change:
        """`times`: where a request is counted, by whether it succeeded."""

        @wraps(change)
        async def timed(connection: Connection, command: Command) -> Response:
            begun, succeeded = self._clock(), False
            try:
                response = await change(connection, command)
                succeeded = True
            finally:
                times(command, succeeded).add((self._clock() - begun) * 1000)
            return response

        return timed
