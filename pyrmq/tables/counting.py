"""What was read of each queue, counted over the batches on their way to the files.

Counts are of what was read, not of what was written: a message that is skipped, or goes to another
table, is done with as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyrmq.escape import escape
from pyrmq.tables.ends import Anchor, Ends, QueueEnd
from pyrmq.tables.errors import TableStoreError

PLACE = ("brokerName", "queueId", "queueOffset", "commitLogOffset", "storeTimestamp")
"""Columns that a batch must have."""
MAX_GAPS = 1000
"""Gaps that are listed by one commit."""


@dataclass(frozen=True)
class Gap:
    """Offsets of a queue that were not there to read: from `start` to before `end`."""

    broker: str
    queue: int
    start: int
    end: int


class Counted:
    """Batches of one commit, each queue in the order of its offsets."""

    def __init__(self, ends: Ends, is_first: bool = False) -> None:
        """`is_first`: the table is being begun. What was deleted before is not missing in it."""
        self.before = ends
        """What the table has already."""
        self._is_first = is_first
        self.rows = 0
        self.gaps: list[Gap] = []
        """Between messages, and between the end of the table and the first message."""
        self._found: dict[str, dict[int, QueueEnd]] = {}

    def ends(self) -> Ends:
        """What the table has when these batches are in it."""
        return self.before.plus(self._found)

    def add(self, batch: Any) -> None:
        """TableStoreError for an offset that the table, or a batch before, has already, and for a
        record with a negative queue or offset, which no checksum covers."""
        import numpy as np
        import pyarrow

        if not batch.num_rows:
            return
        self.rows += batch.num_rows
        brokers = batch.column("brokerName").dictionary_encode()
        names = brokers.dictionary.to_pylist()
        codes = brokers.indices.to_numpy().astype("i8")
        queues = batch.column("queueId").to_numpy().astype("i8")
        offsets = batch.column("queueOffset").to_numpy()
        if (wrong := np.flatnonzero((queues < 0) | (offsets < 0))).size:
            raise _damaged(batch.slice(int(wrong[0]), 1).select(PLACE[:4]).to_pylist()[0])
        keys = (codes << 32) | queues
        order = np.argsort(keys, kind="stable")
        sorted_keys = keys[order]
        cuts = np.flatnonzero(np.diff(sorted_keys)) + 1
        micros = batch.column("storeTimestamp").cast(pyarrow.int64())
        for rows in np.split(order, cuts):
            own = offsets[rows]
            last = int(rows[-1])
            anchor = Anchor(
                int(own[-1]),
                batch.column("commitLogOffset")[last].as_py(),
                max(0, micros[last].as_py() // 1000),
            )
            self._range(names[codes[last]], int(queues[last]), own, anchor)

    def follow(self, other: Counted) -> None:
        """Takes what was counted elsewhere of the messages that follow. As `add`."""
        self.rows += other.rows
        for broker, queues in other._found.items():
            mine = self._found.setdefault(broker, {})
            for queue, new in queues.items():
                known = mine.get(queue) or self.before.queue(broker, queue)
                if known is not None and new.start < known.end:
                    raise _again(broker, queue, new.start)
                self._gap_before(broker, queue, known, new.start)
                old = mine.get(queue)
                mine[queue] = QueueEnd(new.start if old is None else old.start, new.end, new.last)
        self.gaps += other.gaps[: MAX_GAPS - len(self.gaps)]

    def _range(self, broker: str, queue: int, offsets: Any, last: Anchor) -> None:
        import numpy as np

        mine = self._found.setdefault(broker, {})
        known = mine.get(queue) or self.before.queue(broker, queue)
        first = int(offsets[0])
        self._gap_before(broker, queue, known, first)
        steps = np.diff(offsets)
        if (known is not None and first < known.end) or (steps < 1).any():
            again = first if known is not None and first < known.end else int(offsets[1:].min())
            raise _again(broker, queue, again)
        for at in np.flatnonzero(steps > 1).tolist():
            self._gap(broker, queue, int(offsets[at]) + 1, int(offsets[at + 1]))
        old = mine.get(queue)
        mine[queue] = QueueEnd(first if old is None else old.start, last.offset + 1, last)

    def _gap_before(self, broker: str, queue: int, known: QueueEnd | None, first: int) -> None:
        """Before the first message of a queue. Of a queue that the table has nothing of, all from
        0 on, as far as the broker is not new as well: nobody knows when that was deleted."""
        if known is None and (self._is_first or broker not in self.before.brokers):
            return
        end = 0 if known is None else known.end
        if first > end:
            self._gap(broker, queue, end, first)

    def _gap(self, broker: str, queue: int, start: int, end: int) -> None:
        if len(self.gaps) < MAX_GAPS:
            self.gaps.append(Gap(broker, queue, start, end))


def _again(broker: str, queue: int, offset: int) -> TableStoreError:
    return TableStoreError(
        f"queue {queue} of {broker} gives offset {offset} again",
        "the topic or the log was made anew while it was read: run again, and the place is checked",
    )


def _damaged(row: Mapping[str, Any]) -> TableStoreError:
    return TableStoreError(
        f"{escape(row['brokerName'])}: the record at {row['commitLogOffset']} of the log says "
        f"queue {row['queueId']}, offset {row['queueOffset']}: it is damaged",
        "`pyrmq store verify` looks at the log; restore it from a replica",
    )
