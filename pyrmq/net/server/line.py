"""Counts requests that wait in line, and how long the first of them has waited."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import trio


class Line:
    """The line. Who joins it must leave it."""

    def __init__(self, clock: Callable[[], float] = trio.current_time) -> None:
        self._clock = clock
        self._since: dict[int, float] = {}
        self._number = itertools.count()

    def __len__(self) -> int:
        return len(self._since)

    def join(self) -> int:
        """A place, for `leave`."""
        place = next(self._number)
        self._since[place] = self._clock()
        return place

    def leave(self, place: int) -> None:
        del self._since[place]

    def head_wait_ms(self) -> int:
        """Milliseconds that the first one has waited; 0 if nobody waits."""
        first = next(iter(self._since.values()), None)
        return 0 if first is None else int((self._clock() - first) * 1000)
