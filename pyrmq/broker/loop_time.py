"""How much of the event loop's time some kind of work may take."""

from __future__ import annotations

import time


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
