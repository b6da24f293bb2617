"""The position of a stream through brokers, as lines in the log of the driver.

    rocketmq stream: 125000 messages since the last line; orders broker-a 0 at 31250, ...

The logger is `spark_ext.broker.progress`, level INFO.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from pyrmq.escape import escape
from pyrmq.model.message import MessageQueue
from spark_ext.broker.ranges import Offsets
from spark_ext.progress import EVERY, visible

SHOWN = 8
"""Queues that a line names."""

log = logging.getLogger(__name__)


class BrokerProgress:
    """Logs the positions that a query committed: one every `EVERY` seconds, and the last one."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._logged_at: float | None = None
        self._logged: dict[MessageQueue, int] = {}
        self._last: dict[MessageQueue, int] = {}

    def __reduce__(self) -> tuple[type[BrokerProgress], tuple[()]]:
        # Travels to workers with its reader, where it is not used.
        return BrokerProgress, ()

    def committed(self, offsets: Offsets) -> None:
        """A micro-batch up to these offsets is done."""
        self._last = dict(offsets)
        now = self._clock()
        if self._logged_at is None or now >= self._logged_at + EVERY:
            self._logged_at = now
            self._log_position()

    def stopped(self) -> None:
        """The query ends. Logs what was committed since the last line."""
        if self._last != self._logged:
            self._log_position()

    def _log_position(self) -> None:
        visible(log)
        moved = {q: n for q, n in self._last.items() if n != self._logged.get(q)}
        count = sum(n - self._logged[q] for q, n in moved.items() if q in self._logged)
        places = [f"{q.topic} {q.broker_name} {q.queue_id} at {moved[q]}" for q in sorted(moved)]
        more = f", and {len(places) - SHOWN} queues more" if len(places) > SHOWN else ""
        shown = ", ".join(places[:SHOWN]) + more or "nowhere new"
        since = f"{count} messages since the last line; " if self._logged else ""
        log.info("rocketmq stream: %s%s", since, escape(shown))
        self._logged = self._last
