"""How many lines the log of a server gets of one kind: whoever causes a line with each request
fills no disk with them, and hides no other line."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

LINES = 500
"""Lines of one place in the program within SECONDS; what comes behind is counted only."""
SECONDS = 10.0


class _Place:
    __slots__ = ("begun", "left_out", "lines")

    def __init__(self, begun: float) -> None:
        self.begun = begun
        self.lines = 0
        self.left_out = 0


class FewerLines(logging.Filter):
    """A filter of a handler. The first line of a place after some were left out says how many."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._places: dict[tuple[str, int], _Place] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        now, key = self._clock(), (record.pathname, record.lineno)
        place = self._places.get(key)
        if place is None:
            place = self._places[key] = _Place(now)
        if now - place.begun >= SECONDS:
            if place.left_out:
                record.msg = (
                    f"{record.getMessage()} (and {place.left_out} lines like this, left out)"
                )
                record.args = None
            place.begun, place.lines, place.left_out = now, 0, 0
        place.lines += 1
        if place.lines > LINES:
            place.left_out += 1
            return False
        return True
