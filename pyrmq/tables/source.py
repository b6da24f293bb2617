"""What a run reads: from the ends of a table on, of the same log.

A position says how far it is read; a source gives the next one and the rows between two of them, in
the order of each queue. `StoreSource` reads the segments of stores, through `pyrmq.segments`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from pyrmq.errors import DataLossError, OffsetOutOfRangeError
from pyrmq.escape import escape
from pyrmq.segments.offsets import shown
from pyrmq.segments.plan import plan
from pyrmq.segments.read_options import ReadOptions
from pyrmq.segments.scan import Scan
from pyrmq.segments.selection import Selection, unknown_topic
from pyrmq.segments.split import Split
from pyrmq.segments.store import SegmentStore, open_stores
from pyrmq.segments.stream import Position, StreamPlanner
from pyrmq.tables.counting import PLACE
from pyrmq.tables.ends import Anchor, Ends
from pyrmq.tables.errors import TableLossError, TableStoreError

STEP_BYTES = 256 << 20
"""Bytes of the logs between two positions, about. A signal is looked for after each."""
BATCH_ROWS, BATCH_BYTES = 200_000, 16 << 20
"""Of a batch, about: what is sorted at a time need not be put together first."""
MAX_SHOWN = 5
"""Queues that an error lists."""


class Source(Protocol):
    """Where the messages of one topic are read."""

    topic: str
    schema: Any
    """pyarrow.Schema of its batches."""

    def start(self, ends: Ends | None) -> Any:
        """The position behind what a table has. TableStoreError if the log is not the one that the
        table was written from; TableLossError if messages that it has not are deleted."""

    def next(self, position: Any) -> Any:
        """The next position; the same one if there is nothing more."""

    def batches(self, start: Any, end: Any) -> Iterator[Any]:
        """pyarrow record batches of the rows between two positions."""

    def splits(self, start: Any, end: Any) -> Sequence[Any]:
        """What is between two positions, in parts whose `read` gives the batches, also in another
        process. Those of one queue come in order."""

    def pin(self) -> None:
        """From now on no position goes beyond what is there now. May be called again."""


class StoreSource:
    """Reads stores of this machine, or by URI."""

    def __init__(
        self,
        paths: Sequence[str],
        topic: str,
        columns: Sequence[str],
        *,
        broker_names: Sequence[str] = (),
        storage_options: Mapping[str, Any] | None = None,
        fail_on_data_loss: bool = True,
        add_broker: bool = False,
        verify_crc: str = "tail",
        on_corruption: str = "fail",
        step_bytes: int = STEP_BYTES,
    ) -> None:
        """`add_broker`: the stores may all be of brokers that the table does not have yet."""
        self.topic = topic
        self._paths, self._names = list(paths), list(broker_names)
        self._storage = storage_options
        self._fail = fail_on_data_loss
        self._add = add_broker
        self._how = ReadOptions(
            columns=tuple(columns),
            verify_crc=verify_crc,
            on_corruption=on_corruption,
            batch_rows=BATCH_ROWS,
            batch_bytes=BATCH_BYTES,
        )
        self._step = step_bytes
        self._planner: StreamPlanner | None = None
        self._pinned = False
        self.schema = self._how.schema()

    def start(self, ends: Ends | None) -> Position:
        stores = open_stores(self._paths, self._names, self._storage)
        known = check_brokers(ends, [store.name for store in stores], self._add)
        self._check_topic(stores, known)
        check_anchors(known, lambda: anchors(stores, self.topic, known))
        starts: Any = known.offsets() if known is not None and known.brokers else "earliest"
        self._planner = StreamPlanner(
            self._paths,
            Selection(topics=(self.topic,), starting_offsets=starts),
            self._how,
            broker_names=self._names,
            storage_options=self._storage,
            fail_on_data_loss=self._fail,
        )
        with readable(known):
            position = self._planner.initial()
            if self._pinned:
                self._planner.pin()
        return position

    def next(self, position: Position) -> Position:
        assert self._planner is not None
        with readable(None):
            return self._planner.latest(position, max_bytes=self._step)

    def batches(self, start: Position, end: Position) -> Iterator[Any]:
        assert self._planner is not None
        with readable(None):
            yield from Scan(self.splits(start, end), self._how).to_reader()

    def splits(self, start: Position, end: Position) -> list[Split]:
        """What is between two positions, in parts whose `read` gives the batches."""
        assert self._planner is not None
        return self._planner.splits(start, end)

    def left(self, position: Position) -> int:
        """Bytes of the logs behind a position, at most a step more or less."""
        assert self._planner is not None
        self.next(position)
        return sum(self._planner.behind().bytes.values())

    def pin(self) -> None:
        self._pinned = True
        if self._planner is not None:
            self._planner.pin()

    def _check_topic(self, stores: Sequence[SegmentStore], known: Ends | None) -> None:
        """UnknownTopicError where all stores know their topics and none has it."""
        found: set[str] = set()
        for store in stores:
            topics = store.topics()
            if topics is None:
                return
            found |= topics
        if self.topic not in found:
            if known is not None and known.brokers:
                raise TableStoreError(
                    f"topic {escape(self.topic)} is not in the store any more: it was deleted",
                    "the table keeps what it has; stop this job, or create the topic again and "
                    "write another table",
                )
            raise unknown_topic(self.topic, found)


def anchors(
    stores: Sequence[SegmentStore], topic: str, known: Ends | None
) -> dict[tuple[str, int], Anchor]:
    """The last messages that the table has, as the queues of the stores have them."""
    if known is None:
        return {}
    assign = {b: tuple(sorted(queues)) for b, queues in known.brokers.items()}
    ranges = [(b, q, one.last.offset) for b, q, one in known.queues()]
    starts: dict[str, dict[int, int]] = {}
    stops: dict[str, dict[int, int]] = {}
    for broker, queue, offset in ranges:
        starts.setdefault(broker, {})[queue] = offset
        stops.setdefault(broker, {})[queue] = offset + 1
    how = ReadOptions(columns=PLACE)
    splits = plan(
        list(stores),
        Selection(
            assign={topic: assign},
            starting_offsets={topic: starts},
            ending_offsets={topic: stops},
        ),
        how,
        fail_on_data_loss=False,
    )
    return {key: one for batch in Scan(splits, how).to_reader() for key, one in places_of(batch)}


def places_of(batch: Any) -> Iterator[tuple[tuple[str, int], Anchor]]:
    """Broker and queue, and the place, of each message of a batch with the columns PLACE."""
    import pyarrow

    times = batch.column("storeTimestamp").cast(pyarrow.int64()).to_pylist()
    columns = [batch.column(name).to_pylist() for name in PLACE[:4]]
    for broker, queue, offset, place, time in zip(*columns, times, strict=True):
        # A time before 1970 is 0, as `counting` has it.
        yield (broker, queue), Anchor(offset, place, max(0, time // 1000))


def check_brokers(ends: Ends | None, there: Sequence[str], add: bool) -> Ends | None:
    """The ends of the brokers that are read; others may be away, or written by another job.
    TableStoreError if the table has messages, and of none of them: that may be a broker under
    another name, whose messages would be written again."""
    if ends is None or not ends.brokers:
        return ends
    mine = {name: queues for name, queues in ends.brokers.items() if name in there}
    if not mine and not add:
        raise TableStoreError(
            f"the table has messages of {_list(sorted(ends.brokers))}, and the store is of "
            f"{_list(sorted(there))}",
            "give the name that the table has (--broker-name), or --add-broker if it is another "
            "broker of the same topic",
        )
    return Ends(ends.topic, mine)


def check_anchors(ends: Ends | None, read: Any) -> None:
    """TableStoreError if the log has other messages in the places of the last ones of the table.
    `read()` gives the log's, by broker and queue; those that retention deleted are not in it."""
    if ends is None or not ends.brokers:
        return
    with readable(ends):
        found: dict[tuple[str, int], Anchor] = read()
    compare(ends, found)


def compare(ends: Ends, found: Mapping[tuple[str, int], Anchor]) -> None:
    """TableStoreError if one of the last messages of the table is another one in the log. `found`:
    the log's, by broker and queue."""
    for broker, queue, end in ends.queues():
        other = found.get((broker, queue))
        if other is not None and other != end.last:
            raise TableStoreError(
                f"queue {queue} of {escape(broker)}: the table's message at offset "
                f"{end.last.offset} is at {end.last.commitLogOffset} of the log, stored "
                f"{shown(end.last.storeTimestamp)}, and this log has another one there, at "
                f"{other.commitLogOffset}, stored {shown(other.storeTimestamp)}",
                MADE_ANEW,
            )


MADE_ANEW = (
    "the store or the topic was made anew: write it to another table, or drop this one first; if "
    "the path is wrong, name the right store"
)


@contextmanager
def readable(ends: Ends | None) -> Iterator[None]:
    """Turns errors of reading into those of tables."""
    try:
        yield
    except OffsetOutOfRangeError as error:
        if ends is None:
            raise
        raise TableStoreError(
            f"the log is shorter than the table: {error.args[0]}", MADE_ANEW
        ) from None
    except DataLossError as error:
        raise TableLossError(
            f"retention overtook the table: {error.args[0]}",
            "--on-data-loss continue writes what is left, and the snapshot says what is missing",
        ) from None


def _list(names: Sequence[str]) -> str:
    more = f" and {len(names) - MAX_SHOWN} more" if len(names) > MAX_SHOWN else ""
    return escape(", ".join(names[:MAX_SHOWN])) + more
