"""A listener that hands out metrics of the streaming queries of a session.

    listener = StreamMetrics()
    spark.streams.addListener(listener)

PySpark (4.1 to 4.3) asks a Python source for no metrics, so `lastProgress.sources[].metrics` stays
empty; this makes them of the offsets in a query's progress, by the names of Kafka's source. The
reader in the JVM has them there, and what it left out. Without a listener:

    metrics_of(query.lastProgress)
    [{"messagesBehindLatest": 1200, "minOffsetsBehindLatest": 0, ...}]
"""

from __future__ import annotations

import ast
import json
import logging
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from pyrmq.escape import escape
from spark_ext.progress import visible

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )


Metrics = dict[str, float]
LEFT_OUT = ("damagedParts", "skippedBytes", "lostBytes")
"""What a query left out since it started."""


def metrics_of(progress: Any) -> list[Metrics]:
    """One of each source of ours that a query reads. `progress` is `query.lastProgress`, or the
    `progress` of a listener's event; None, before there is any, gives []."""
    if progress is None:
        return []
    return [of_source(source) for source in _get(progress, "sources") or () if _is_ours(source)]


def of_source(source: Any) -> Metrics:
    """Behind the end of the micro-batch: messages and bytes, as far as they are known, and of one
    queue least, average and most; what was left out; rows per second as Spark counts them."""
    out: Metrics = {}
    behind = _offset(source, "latestOffset").get("behind", {})
    names = {
        "messages": "messagesBehindLatest",
        "minMessages": "minOffsetsBehindLatest",
        "avgMessages": "avgOffsetsBehindLatest",
        "maxMessages": "maxOffsetsBehindLatest",
        "bytes": "bytesBehindLatest",
        "lostBytes": "lostBytes",
    }
    for key, name in names.items():
        if key in behind:
            out[name] = behind[key]
    told = _get(source, "metrics")
    if isinstance(told, Mapping):  # of the reader in the JVM
        out |= {name: float(told[name]) for name in LEFT_OUT if name in told}
    for name in ("inputRowsPerSecond", "processedRowsPerSecond"):
        rate = _get(source, name)
        if isinstance(rate, (int, float)):
            out[name] = float(rate)
    rate, left = out.get("processedRowsPerSecond"), out.get("messagesBehindLatest")
    if rate and left is not None:
        out["secondsBehindLatest"] = round(left / rate, 1)
    return out


def arrived(before: Any, now: Any) -> float | None:
    """Messages, or over files bytes, per second that came between two progresses of one query;
    None where that is not known."""
    if before is None:
        return None
    first, last = _ends(before), _ends(now)
    seconds = (_time(now) - _time(before)).total_seconds()
    if seconds <= 0 or first is None or last is None:
        return None
    return round(max(0, last - first) / seconds, 1)


def _ends(progress: Any) -> int | None:
    found = [_end(source) for source in _get(progress, "sources") or () if _is_ours(source)]
    known = [end for end in found if end is not None]
    return sum(known) if known and len(known) == len(found) else None


def _end(source: Any) -> int | None:
    """All offsets of a source's end together."""
    latest = _offset(source, "latestOffset")
    if "log" in latest:
        return sum(map(int, latest["log"].values()))
    if "queues" in latest:
        return sum(
            int(offset)
            for brokers in latest["queues"].values()
            for queues in brokers.values()
            for offset in queues.values()
        )
    return None


def _is_ours(source: Any) -> bool:
    end = _offset(source, "endOffset")
    return "version" in end and ("log" in end or "queues" in end)


def _offset(source: Any, name: str) -> dict[str, Any]:
    """An offset is JSON text in the objects of PySpark, and may be an object elsewhere. PySpark 4.1
    gives what the reader in the JVM says as the text of a dict of Python."""
    found = _get(source, name)
    if isinstance(found, str):
        found = _parsed(found)
    return found if isinstance(found, dict) else {}


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        try:
            return ast.literal_eval(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            return None


def _get(holder: Any, name: str) -> Any:
    return holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name, None)


def _time(progress: Any) -> datetime:
    return datetime.fromisoformat(_get(progress, "timestamp"))


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
