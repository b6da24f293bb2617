"""A listener that hands out metrics of the streaming queries of a session.

    listener = StreamMetrics()
    spark.streams.addListener(listener)

PySpark (4.1 to 4.3) asks a Python source for no metrics, so `lastProgress.sources[].metrics` stays
empty; this makes them of the offsets in a query's progress.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from pyrmq.escape import escape
from spark_ext.metrics import Metrics, arrived, metrics_of
from spark_ext.progress import visible

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

log = logging.getLogger(__name__)

Take = Callable[[str, list[Metrics]], None]


def log_metrics(name: str, sources: list[Metrics]) -> None:
    """A line for each source, to the log `spark_ext.listener`."""
    visible(log)
    for metrics in sources:
        shown = ", ".join(f"{key}={_number(value)}" for key, value in metrics.items())
        log.info("rocketmq stream %s: %s", escape(name), escape(shown))


def _number(value: float) -> str:
    """Counts in full, rates with one decimal place."""
    return str(int(value)) if float(value).is_integer() else f"{value:.1f}"


class StreamMetrics(StreamingQueryListener):
    """Calls `take(name, metrics of each source)` after each micro-batch of a query that reads
    messages; the name is the query's, or its id. By default they are logged. `last` has the newest
    of each query that runs."""

    def __init__(self, take: Take = log_metrics) -> None:
        self.last: dict[str, list[Metrics]] = {}
        self._take = take
        self._before: dict[str, Any] = {}
        self._names: dict[str, str] = {}

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        self._names[str(event.runId)] = event.name or str(event.id)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        progress = event.progress
        found = metrics_of(progress)
        if not found:
            return
        run = str(progress.runId)
        rate = arrived(self._before.get(run), progress)
        self._before[run] = progress
        if rate is not None and len(found) == 1:
            key = "messages" if "bytesBehindLatest" not in found[0] else "bytes"
            found[0][f"{key}ArrivedPerSecond"] = rate
        name = progress.name or str(progress.id)
        self._names[run] = name
        self.last[name] = found
        self._take(name, found)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Nothing was new: what was said last is still true."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        run = str(event.runId)
        self._before.pop(run, None)
        self.last.pop(self._names.pop(run, ""), None)
