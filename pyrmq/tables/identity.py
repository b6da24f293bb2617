"""Whether a log is the one that a table was written from.

The table has, of each queue, where its last message is in the commit log and when it was stored.
The log must have that message there, unless retention has deleted this part of it.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping

from pyrmq.engine import LogPlaces, SegmentReader, SegmentStore
from pyrmq.errors import SegmentError, StoreDamagedError
from pyrmq.escape import escape
from pyrmq.segments.read_options import ReadOptions
from pyrmq.tables.ends import QueueEnd
from pyrmq.tables.errors import TableStoreError

_COLUMNS = ("topic", "queueId", "queueOffset", "commitLogOffset", "storeTimestamp")
HINT = (
    "name the store that the table was written from; if the store was made anew, write its "
    "messages to another table"
)


def check(table: str, topic: str, store: SegmentStore, queues: Mapping[int, QueueEnd]) -> None:
    """TableStoreError unless the log has the last message that the table has of each queue."""
    files = store.files
    first = files[0][0] if files else 0
    end = files[-1][0] + files[-1][1] if files else 0
    wanted = {
        queue: found.last for queue, found in queues.items() if found.last.commitLogOffset >= first
    }
    if not wanted:
        return
    for queue, last in wanted.items():
        if last.commitLogOffset >= end:
            raise _other(table, topic, store, queue, queues[queue], f"the log ends before {end}")
    places = sorted({last.commitLogOffset for last in wanted.values()})
    there = _messages(store, places)
    for queue, last in sorted(wanted.items()):
        found = there.get(last.commitLogOffset, ())
        if (topic, queue, last.offset, last.storeTimestamp) in found:
            continue
        what = "no message begins there" if not found else "there is " + _shown(found[0])
        raise _other(table, topic, store, queue, queues[queue], what)


Message = tuple[str, int, int, int]
"""Topic, queue id, queue offset, store time in ms."""


def _messages(store: SegmentStore, places: list[int]) -> dict[int, list[Message]]:
    """What begins at these commit-log offsets; several of an inner batch."""
    try:
        return _read(store, places)
    except (SegmentError, StoreDamagedError):
        if len(places) == 1:
            return {}
    # One of them has no record, which ends a reader.
    found: dict[int, list[Message]] = {}
    for place in places:
        found |= _messages(store, [place])
    return found


def _read(store: SegmentStore, places: list[int]) -> dict[int, list[Message]]:
    import pyarrow

    positions = array("q")
    for place in places:
        positions.extend((place, 0))
    system = store.filesystem
    reader = SegmentReader(
        LogPlaces(store.files, positions, opener=None if system is None else system.opener()),
        None,
        ReadOptions(columns=_COLUMNS),
        broker_name=store.name,
    )
    found: dict[int, list[Message]] = {}
    while (made := reader.next_batch()) is not None:
        batch = pyarrow.record_batch(made)
        columns = [batch.column(name) for name in _COLUMNS[:4]]
        columns.append(batch.column("storeTimestamp").cast(pyarrow.int64()))
        for topic, queue, offset, place, time in zip(
            *(column.to_pylist() for column in columns), strict=True
        ):
            found.setdefault(place, []).append((topic, queue, offset, max(0, time // 1000)))
    return found


def _shown(message: Message) -> str:
    topic, queue, offset, time = message
    return f"offset {offset} of queue {queue} of topic {escape(topic)}, stored at {time}"


def _other(
    table: str, topic: str, store: SegmentStore, queue: int, end: QueueEnd, what: str
) -> TableStoreError:
    last = end.last
    return TableStoreError(
        f"table {table} has offset {last.offset} of queue {queue} of topic {escape(topic)}, broker "
        f"{escape(store.name)}, at {last.commitLogOffset} of the commit log, stored at "
        f"{last.storeTimestamp}; in {escape(store.root)} {what}",
        HINT,
    )
