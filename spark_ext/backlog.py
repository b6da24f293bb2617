"""How far a stream is behind, as it stands in the `latestOffset` of its progress.

PySpark up to 4.3 asks a Python source for no metrics, but what it reports as its latest offset is
shown as it is, `query.lastProgress["sources"][0]["latestOffset"]`. There is a part `behind` in it;
`spark_ext.listener` makes metrics of it, by Kafka's names. What a query over files lost is reported
there too: the driver sees it as it plans.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyrmq.segments.split import Split
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


class Lost:
    """Bytes of the logs that micro-batches did not read because their files are deleted, since the
    query started."""

    def __init__(self) -> None:
        self._bytes = 0
        self._counted: Mapping[str, Any] | None = None
        """The end of the micro-batch that was counted last: Spark may plan one twice."""

    def count(
        self, start: Mapping[str, Any], end: Mapping[str, Any], splits: Iterable[Split]
    ) -> None:
        """Adds what no task of a micro-batch reads."""
        if end == self._counted:
            return
        self._counted = dict(end)
        # A broker that was added begins wherever its log does: nothing of it is lost.
        begins: dict[str, int] = start["log"]
        missing = {name: end["log"].get(name, at) - at for name, at in begins.items()}
        for split in splits:
            # What stands in front of the start is of a topic that was added.
            if split.broker in missing and split.start >= begins[split.broker]:
                missing[split.broker] -= split.end - split.start
        self._bytes += sum(max(left, 0) for left in missing.values())

    def report(self) -> dict[str, Any]:
        """As a part of `behind`."""
        return {"lostBytes": self._bytes}
