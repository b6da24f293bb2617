"""How far a table is behind the log, by queue."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyrmq.engine import SegmentStore
from pyrmq.tables.ends import Ends
from pyrmq.tables.history import Pinned
from pyrmq.tables.rows import Rows
from pyrmq.tables.tail import Tail, TailOptions

COLUMNS = ("brokerName", "queueId", "queueOffset", "storeTimestamp", "storeSize")


@dataclass(frozen=True)
class QueueLag:
    """What the table lacks of one queue."""

    brokerName: str
    queueId: int
    tableEnd: int
    """The next offset of the table; 0 if it has nothing of the queue."""
    logEnd: int
    """The next offset of the log."""
    messages: int
    """In the log and not in the table."""
    bytes: int | None
    """Of their records in the log; None: not known."""
    gone: int
    """Messages behind the table's end that retention has deleted: they are lost."""
    oldestTimestamp: int | None
    """Store time of the first message that the table lacks, ms; None: it lacks none."""

    def behind(self, now: int) -> int:
        """Age of that message, ms; 0 without one, and if a clock was set back."""
        return 0 if self.oldestTimestamp is None else max(0, now - self.oldestTimestamp)


@dataclass
class _Seen:
    first: int
    last: int
    rows: int
    size: int
    oldest: int


def of_stores(pinned: Pinned, stores: Sequence[SegmentStore]) -> list[QueueLag]:
    """By broker and queue. It reads the heads of the messages that the table lacks. TableStoreError
    for a log that is not the table's."""
    options = TailOptions(fail_on_data_loss=False)
    splits = Tail(pinned.name, pinned.topic, pinned.ends, options).splits(stores, Rows(), COLUMNS)
    seen: dict[tuple[str, int], _Seen] = {}
    for key, found in _counted(batch for split in splits for batch in split.read()):
        old = seen.get(key)
        if old is None:
            seen[key] = found
            continue
        old.first, old.last = min(old.first, found.first), max(old.last, found.last)
        old.rows, old.size = old.rows + found.rows, old.size + found.size
        old.oldest = min(old.oldest, found.oldest)
    return [_lag(key, pinned.ends, seen.get(key)) for key in sorted(_keys(pinned.ends) | set(seen))]


def _keys(ends: Ends | None) -> set[tuple[str, int]]:
    return set() if ends is None else {(broker, queue) for broker, queue, _ in ends.queues()}


def _lag(key: tuple[str, int], ends: Ends | None, seen: _Seen | None) -> QueueLag:
    known = None if ends is None else ends.queue(*key)
    end = 0 if known is None else known.end
    if seen is None:
        return QueueLag(*key, end, end, 0, 0, 0, None)
    # A table without the queue says nothing of what was deleted before it began.
    gone = 0 if known is None else max(0, seen.first - end)
    return QueueLag(*key, end, seen.last + 1, seen.rows, seen.size, gone, seen.oldest // 1000)


def _counted(batches: Iterable[Any]) -> Iterator[tuple[tuple[str, int], _Seen]]:
    import pyarrow

    for batch in batches:
        times = batch.column("storeTimestamp").cast(pyarrow.int64())
        table = pyarrow.table(
            {name: batch.column(name) for name in COLUMNS if name != "storeTimestamp"}
            | {"time": times}
        )
        sums = table.group_by(["brokerName", "queueId"]).aggregate(
            [
                ("queueOffset", "min"),
                ("queueOffset", "max"),
                ("queueOffset", "count"),
                ("storeSize", "sum"),
                ("time", "min"),
            ]
        )
        for row in sums.to_pylist():
            found = _Seen(
                row["queueOffset_min"],
                row["queueOffset_max"],
                row["queueOffset_count"],
                row["storeSize_sum"],
                row["time_min"],
            )
            yield (row["brokerName"], row["queueId"]), found
