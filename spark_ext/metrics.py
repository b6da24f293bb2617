"""Metrics of streaming queries, by the names of Kafka's source, from what their progress shows.

metrics_of(query.lastProgress)
[{"messagesBehindLatest": 1200, "minOffsetsBehindLatest": 0, ...}]
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

Metrics = dict[str, float]


def metrics_of(progress: Any) -> list[Metrics]:
    """One of each source of ours that a query reads. `progress` is `query.lastProgress`, or the
    `progress` of a listener's event; None, before there is any, gives []."""
    if progress is None:
        return []
    return [of_source(source) for source in _get(progress, "sources") or () if _is_ours(source)]


def of_source(source: Any) -> Metrics:
    """Behind the end of the micro-batch: messages and bytes, as far as they are known, and of one
    queue least, average and most; rows per second as Spark counts them."""
    out: Metrics = {}
    behind = _offset(source, "latestOffset").get("behind", {})
    names = {
        "messages": "messagesBehindLatest",
        "minMessages": "minOffsetsBehindLatest",
        "avgMessages": "avgOffsetsBehindLatest",
        "maxMessages": "maxOffsetsBehindLatest",
        "bytes": "bytesBehindLatest",
    }
    for key, name in names.items():
        if key in behind:
            out[name] = behind[key]
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
    """An offset is JSON text in the objects of PySpark, and may be an object elsewhere."""
    found = _get(source, name)
    if isinstance(found, str):
        try:
            found = json.loads(found)
        except ValueError:
            return {}
    return found if isinstance(found, dict) else {}


def _get(holder: Any, name: str) -> Any:
    return holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name, None)


def _time(progress: Any) -> datetime:
    return datetime.fromisoformat(_get(progress, "timestamp"))
