"""The messages of a log that a table does not have yet: where they begin, and whether nothing is
missing in between."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from pyrmq.engine import ALL_COLUMNS, SegmentStore, Split
from pyrmq.errors import DataLossError, OffsetOutOfRangeError, UnknownTopicError
from pyrmq.escape import escape
from pyrmq.segments.plan import SPLIT_BYTES, plan
from pyrmq.segments.read_options import ReadOptions
from pyrmq.segments.selection import Selection
from pyrmq.tables import identity
from pyrmq.tables.decoded import PLACE, Decode
from pyrmq.tables.ends import Ends, QueueEnd
from pyrmq.tables.errors import TableStoreError
from pyrmq.tables.rows import Rows

log = logging.getLogger(__name__)
_TRIES = 3
"""Times that the files of a log are listed where retention deletes some of them meanwhile."""


@dataclass(frozen=True)
class TailOptions:
    """How a log is read, by the parameters of `pyrmq.scan`."""

    fail_on_data_loss: bool = True
    may_miss_brokers: bool = False
    """Whether brokers of the table may have no store: what they have beyond it is then left out."""
    on_corruption: str = "fail"
    verify_crc: str = "tail"
    plan: str = "auto"
    split_bytes: int = SPLIT_BYTES
    min_partitions: int | None = None
    batch_rows: int = 10_000
    batch_bytes: int = 1 << 20

    def reading(self, columns: tuple[str, ...]) -> ReadOptions:
        """Of these columns, properties as a map."""
        return ReadOptions(
            columns=columns,
            properties="map",
            verify_crc=self.verify_crc,
            on_corruption=self.on_corruption,
            batch_rows=self.batch_rows,
            batch_bytes=self.batch_bytes,
        )


class Tail:
    """Of one table, at the ends that it had."""

    def __init__(self, table: str, topic: str, ends: Ends | None, options: TailOptions) -> None:
        self._table = table
        self._topic = topic
        self._ends = ends
        self._options = options

    def splits(
        self, stores: Sequence[SegmentStore], rows: Rows, columns: tuple[str, ...]
    ) -> list[Split]:
        """The tasks that read it, up to the present end of each log.

        TableStoreError for a log that is not the table's, and for a broker whose log is not given;
        DataLossError, with queue and offsets, for messages that are in neither.
        """
        stores = [s for s in stores if not rows.brokers or s.name in rows.brokers]
        self._check_brokers(stores, rows)
        return [split for store in stores for split in self._of_store(store, rows, columns)]

    def _check_brokers(self, stores: Sequence[SegmentStore], rows: Rows) -> None:
        given = {store.name for store in stores}
        known = set() if self._ends is None else set(self._ends.brokers)
        wanted = known & set(rows.brokers) if rows.brokers else known
        if not (missing := sorted(wanted - given)):
            return
        names = ", ".join(map(escape, sorted(given))) or "none"
        text = (
            f"table {self._table} has messages of broker {escape(missing[0])}, and no store of it "
            f"is given (given: {names})"
        )
        if not self._options.may_miss_brokers:
            raise TableStoreError(
                text,
                "give the stores of all brokers of the table, by the names that it has for them; "
                "pyrmq.table(…, brokers=[…]) asks for the rows of some",
            )
        log.warning("%s; continuing with what the table has of it", text)

    def _of_store(self, store: SegmentStore, rows: Rows, columns: tuple[str, ...]) -> list[Split]:
        known = {
            queue: end
            for queue, end in self._queues(store).items()
            if not rows.queues or queue in rows.queues
        }
        store = self._checked(store, known)
        starts = self._starts(store, known, rows)
        chosen = Selection(
            topics=(self._topic,),
            queues=rows.queues,
            tags=rows.tags,
            starting_offsets=starts,
            filters=rows.filters(),
        )
        try:
            if store.queues is None and self._options.fail_on_data_loss:
                self._check_afar(store, known, replace(chosen, tags=None, filters={}))
            return self._planned(store, chosen, columns)
        except UnknownTopicError as error:
            if not known:
                return []
            raise self._shorter(store, f"it has no topic {escape(self._topic)}") from error
        except OffsetOutOfRangeError as error:
            raise self._shorter(store, error.args[0]) from error
        except DataLossError as error:
            raise DataLossError(
                f"table {self._table} does not reach to what is left in {escape(store.root)}: "
                f"{error.args[0]}; what is between is lost"
            ) from error

    def _checked(self, store: SegmentStore, known: Mapping[int, QueueEnd]) -> SegmentStore:
        """The store, with the files that it has now. TableStoreError if it is not the table's."""
        for left in reversed(range(_TRIES)):
            try:
                identity.check(self._table, self._topic, store, known)
                break
            except FileNotFoundError:  # retention deletes meanwhile
                if not left:
                    raise
                store = store.relisted()
        return store

    def _queues(self, store: SegmentStore) -> Mapping[int, QueueEnd]:
        """What the table has of a broker."""
        return {} if self._ends is None else self._ends.brokers.get(store.name, {})

    def _planned(
        self, store: SegmentStore, chosen: Selection, columns: tuple[str, ...]
    ) -> list[Split]:
        return plan(
            [store],
            chosen,
            self._options.reading(columns),
            split_bytes=self._options.split_bytes,
            min_partitions=self._options.min_partitions,
            mode=self._options.plan,
            fail_on_data_loss=self._options.fail_on_data_loss,
        )

    def _check_afar(
        self, store: SegmentStore, known: Mapping[int, QueueEnd], chosen: Selection
    ) -> None:
        """DataLossError for a gap in a log that has no queue files here, which would say it. The
        heads of its messages are read, unless the last ones of the table are still there."""
        if self._ends is None or store.filesystem is None or not self._may_have_gap(store, known):
            return
        import pyarrow

        first: dict[int, int] = {}
        for split in self._planned(store, chosen, ("queueId", "queueOffset")):
            for batch in split.read():
                table = pyarrow.Table.from_batches([batch])
                lowest = table.group_by("queueId").aggregate([("queueOffset", "min")])
                for row in lowest.to_pylist():
                    queue, offset = row["queueId"], row["queueOffset_min"]
                    first[queue] = min(offset, first.get(queue, offset))
        for queue, offset in sorted(first.items()):
            end = known[queue].end if queue in known else 0
            if offset > end and (queue in known or self._began_later(store)):
                raise DataLossError(
                    f"offset {end} of topic {escape(self._topic)}, broker {escape(store.name)}, "
                    f"queue {queue} is deleted: what is left begins at {offset}"
                )

    @staticmethod
    def _may_have_gap(store: SegmentStore, known: Mapping[int, QueueEnd]) -> bool:
        begin = store.files[0][0] if store.files else 0
        return begin > 0 and (
            not known or any(end.last.commitLogOffset < begin for end in known.values())
        )

    def _began_later(self, store: SegmentStore) -> bool:
        """Whether the log begins behind all that the table has of the broker."""
        begin = store.files[0][0] if store.files else 0
        places = (end.last.commitLogOffset for end in self._queues(store).values())
        return begin > max(places, default=-1)

    def _shorter(self, store: SegmentStore, what: str) -> TableStoreError:
        return TableStoreError(
            f"table {self._table} has more than {escape(store.root)}: {what}",
            f"{identity.HINT}; a copy of a store, or a slave, may have to catch up",
        )

    def _starts(
        self, store: SegmentStore, known: Mapping[int, QueueEnd], rows: Rows
    ) -> str | dict[str, dict[str, dict[int, int]]]:
        """Where each queue begins. A queue that the table does not have begins at 0, so that
        deleted messages of it are an error; but not if they were deleted before the table's last
        commit, which has all that was there."""
        starts = {queue: end.end for queue, end in known.items()}
        if self._ends is None:
            return "earliest"
        begin = store.files[0][0] if store.files else 0
        if begin == 0 or self._began_later(store):
            for queue in queues_of(store, self._topic):
                if not rows.queues or queue in rows.queues:
                    starts.setdefault(queue, 0)
        return {self._topic: {store.name: starts}} if starts else "earliest"


def queues_of(store: SegmentStore, topic: str) -> Iterator[int]:
    """Ids of the topic's queues that have a folder; none where the store has no queues here."""
    if store.queues is None:
        return
    for folder in (store.queues, os.path.join(os.path.dirname(store.queues), "batchconsumequeue")):
        try:
            names = os.listdir(os.path.join(folder, topic))
        except (OSError, ValueError):
            continue
        for name in names:
            if name.isascii() and name.isdigit() and int(name) < 1 << 31:
                yield int(name)


class Readable(Protocol):
    """A task of a read: a `Split`, or one that reads through a broker."""

    def read(self) -> Iterator[Any]: ...


@dataclass(frozen=True)
class TailPart:
    """A part of a log with the columns of a table. Can be sent to another process."""

    split: Readable
    schema: Any
    """pyarrow.Schema of what comes."""
    decode: Decode | None
    """None: bodies stay as they are."""

    def only(self, schema: Any) -> TailPart:
        """With some of the columns."""
        split = self.split
        if isinstance(split, Split):
            split = with_columns(split, read_columns(schema, self.decode))
        return TailPart(split, schema, self.decode)

    def read(self) -> Iterator[Any]:
        """Its rows as pyarrow record batches. Errors: see `Split.read`; TableError for a body that
        does not fit."""
        for batch in self.split.read():
            for whole in (batch,) if self.decode is None else self.decode(batch):
                if whole.num_rows:
                    yield shaped(whole, self.schema)


def with_columns(split: Split, columns: tuple[str, ...]) -> Split:
    """The same task with other columns."""
    whole: Any = split
    made, (text, system) = whole.__reduce__()
    task = json.loads(text)
    task["how"]["columns"] = list(columns)
    found: Split = made(json.dumps(task).encode(), system)
    return found


def read_columns(schema: Any, decode: Decode | None) -> tuple[str, ...]:
    """The columns that are read of a log for these of a table. Where bodies are decoded they are
    read in any case: one that does not fit is no row."""
    made = set() if decode is None else set(decode.names)
    wanted = [name for name in schema.names if name in ALL_COLUMNS and name not in made]
    if decode is not None:
        wanted += [name for name in (*PLACE, "body") if name not in wanted]
    return tuple(wanted) or PLACE[:1]


def shaped(batch: Any, schema: Any) -> Any:
    """A batch with exactly these columns; one that it does not have is null."""
    import pyarrow

    names = set(batch.schema.names)
    arrays = []
    for field in schema:
        if field.name not in names:
            arrays.append(pyarrow.nulls(batch.num_rows, field.type))
            continue
        values = batch.column(field.name)
        arrays.append(values if values.type == field.type else values.cast(field.type))
    return pyarrow.record_batch(arrays, schema=schema)
