"""The position of a streaming query, as lines in the log of the driver.

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
from pyrmq.escape import escape

if TYPE_CHECKING:
    from pyrmq.segments.stream import StreamPlanner

EVERY = 10.0
"""Seconds between two lines at least: a query may commit several times in a second."""

_log = logging.getLogger(__name__)


class Progress:
    """Logs the positions that a query committed: one every `EVERY` seconds, and the last one."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._logged_at: float | None = None
        self._logged: dict[str, int] = {}
        self._last: dict[str, int] = {}

    def __reduce__(self) -> tuple[type[Progress], tuple[()]]:
        # Travels to workers with its reader, where it is not used.
        return Progress, ()

    def committed(self, end: dict[str, Any], planner: StreamPlanner) -> None:
        """A micro-batch up to `end` is done."""
        self._last = dict(end["log"])
        now = self._clock()
        if self._logged_at is not None and now < self._logged_at + EVERY:
            return
        self._logged_at = now
        try:
            ends = planner.end()["log"]
        except (PyrmqError, OSError):
            ends = {}  # the next micro-batch reports it
        self._log_position(ends)

    def stopped(self) -> None:
        """The query ends. Logs what was committed since the last line."""
        if self._last != self._logged:
            self._log_position({})

    def _log_position(self, ends: dict[str, int]) -> None:
        visible(_log)
        parts = []
        for broker, position in sorted(self._last.items()):
            notes = []
            if broker in self._logged:
                notes.append(f"+{position - self._logged[broker]} bytes since the last line")
            if broker in ends:
                notes.append(f"{max(0, ends[broker] - position)} behind")
            parts.append(f"{broker} at {position}" + (f" ({', '.join(notes)})" if notes else ""))
        _log.info("rocketmq stream: %s", escape("; ".join(parts)))
        self._logged = self._last


def visible(log: logging.Logger) -> None:
    """Unless somebody configured logging here, lines go to standard error."""
    if not log.hasHandlers():
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        log.addHandler(handler)
        log.setLevel(logging.INFO)
