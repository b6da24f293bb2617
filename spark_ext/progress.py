"""Where a streaming query stands, as lines in the log of the driver.

A checkpoint holds one number per broker; this is its form for people:

    rocketmq stream: broker-a at 734003200 (+52428800 bytes since the last line, 1024 behind)

The logger is `spark_ext.progress`, level INFO. Spark configures no logging in the Python process of
a query, so lines go to its standard error, which Spark passes on to the driver's.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pyrmq.errors import PyrmqError

if TYPE_CHECKING:
    from pyrmq.segments.stream import StreamPlanner

EVERY = 10.0
"""Seconds between two lines at least: a query may commit several times in a second."""

_log = logging.getLogger(__name__)


class Progress:
    """Collects what a query committed and tells it now and then; the last position for sure."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._told_at: float | None = None
        self._told: dict[str, int] = {}
        self._last: dict[str, int] = {}

    def __reduce__(self) -> tuple[type[Progress], tuple[()]]:
        # Goes to workers with its reader, where it has nothing to do.
        return Progress, ()

    def committed(self, end: dict[str, Any], planner: StreamPlanner) -> None:
        """A micro-batch up to `end` is done."""
        self._last = dict(end["log"])
        now = self._clock()
        if self._told_at is not None and now < self._told_at + EVERY:
            return
        self._told_at = now
        try:
            ends = planner.end()["log"]
        except (PyrmqError, OSError):
            ends = {}  # the next micro-batch meets it too, and says so
        self._tell(ends)

    def stopped(self) -> None:
        """The query ends; tells what was committed since the last line."""
        if self._last != self._told:
            self._tell({})

    def _tell(self, ends: dict[str, int]) -> None:
        visible(_log)
        parts = []
        for broker, position in sorted(self._last.items()):
            notes = []
            if broker in self._told:
                notes.append(f"+{position - self._told[broker]} bytes since the last line")
            if broker in ends:
                notes.append(f"{max(0, ends[broker] - position)} behind")
            parts.append(f"{broker} at {position}" + (f" ({', '.join(notes)})" if notes else ""))
        _log.info("rocketmq stream: %s", "; ".join(parts))
        self._told = self._last


def visible(log: logging.Logger) -> None:
    """Unless somebody configured logging here, lines go to standard error."""
    if not log.hasHandlers():
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        log.addHandler(handler)
        log.setLevel(logging.INFO)
