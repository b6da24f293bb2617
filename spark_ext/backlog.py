"""How far a stream is behind, as it stands in the `latestOffset` of its progress.

PySpark up to 4.3 asks a Python source for no metrics, but what it reports as its latest offset is
shown as it is, `query.lastProgress["sources"][0]["latestOffset"]`. There is a part `behind` in it;
`spark_ext.listener` makes metrics of it, by Kafka's names.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyrmq.segments.stream import Behind


def of_queues(behind: Collection[int]) -> dict[str, Any]:
    """Messages that the queues are behind: in all, and of one of them."""
    if not behind:
        return {}
    return {
        "messages": sum(behind),
        "minMessages": min(behind),
        "avgMessages": round(sum(behind) / len(behind), 1),
        "maxMessages": max(behind),
    }


def of_segments(behind: Behind) -> dict[str, Any]:
    """Bytes of the whole log, and messages of the chosen topics where the store has queues."""
    out: dict[str, Any] = {"bytes": sum(behind.bytes.values())}
    if behind.messages is not None:
        out |= of_queues(behind.messages.values())
    return out


def with_backlog(latest: dict[str, Any], behind: dict[str, Any]) -> dict[str, Any]:
    return {**latest, "behind": behind}
