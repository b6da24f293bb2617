"""Bodies that do not fit, in a table of their own: `<table>_dlq`, with the reason and the position.

Two tables cannot be committed in one step. So the dead bodies of a run are committed first, with
the ends that the table is to have. If the process ends before the table is committed, the next run
begins at the old ends and meets the same messages again: those whose position the dead table has
are left out, from both tables. So a body is in one table, once, whatever ends when.

A body that is in the dead table stays there, also if it fits a schema that is given later.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from pyrmq.escape import escape
from pyrmq.tables import commit as committing
from pyrmq.tables import leftovers, parquet, schema
from pyrmq.tables.bodies.decoder import ERROR
from pyrmq.tables.catalog import Catalog
from pyrmq.tables.commit import Staged, Waiting
from pyrmq.tables.ends import TOPIC, Ends, QueueEnd, ends_of
from pyrmq.tables.errors import OutcomeUnknownError, TableSchemaError, TableStoreError, need

if TYPE_CHECKING:
    import pyarrow

SUFFIX = "_dlq"
_PLACE = ("brokerName", "queueId", "queueOffset", "commitLogOffset", "storeTimestamp")
_MAX_TERMS = 50
"""Queues that the filter of a scan names; with more of them it is coarser."""


class Known:
    """Positions that the dead table has behind the ends of the table. Few bytes each: there may be
    as many as a commit has messages."""

    def __init__(self) -> None:
        self._queues: dict[tuple[str, int], tuple[Any, Any, Any]] = {}

    def add(self, key: tuple[str, int], offsets: Any, places: Any, times: Any) -> None:
        import numpy as np

        old = self._queues.get(key)
        if old is not None:
            offsets, places, times = (
                np.concatenate(pair) for pair in zip(old, (offsets, places, times), strict=True)
            )
        order = np.argsort(offsets, kind="stable")
        self._queues[key] = offsets[order], places[order], times[order]

    def __bool__(self) -> bool:
        return bool(self._queues)

    def without(self, batch: pyarrow.RecordBatch, name: str) -> pyarrow.RecordBatch:
        """The rows that the dead table does not have. TableStoreError if it has another message in
        the place of one: it is of another log."""
        import numpy as np
        import pyarrow as pa

        keep = np.ones(len(batch), bool)
        brokers = batch.column("brokerName").to_pylist()
        queues, offsets, places, times = (_numbers(batch.column(column)) for column in _PLACE[1:])
        names = np.array(brokers, object)
        for (broker, queue), (known, known_places, known_times) in self._queues.items():
            rows = np.flatnonzero((queues == queue) & (names == broker))
            at = np.searchsorted(known, offsets[rows])
            found = np.flatnonzero(known[np.minimum(at, len(known) - 1)] == offsets[rows])
            rows, at = rows[found], at[found]
            other = (known_places[at] != places[rows]) | (known_times[at] != times[rows])
            if other.any():
                raise TableStoreError(
                    f"table {name} has a message of another log at offset "
                    f"{offsets[rows[np.argmax(other)]]} of queue {queue} of {escape(broker)}",
                    f"the store or the topic was made anew: drop or rename table {name}",
                )
            keep[rows] = False
        return batch if keep.all() else batch.filter(pa.array(keep))


class DeadTable:
    """The dead bodies of one table."""

    def __init__(self, catalog: Catalog, table: str, topic: str, messages: Any) -> None:
        self.name = table + SUFFIX
        self._catalog = catalog
        self._of = table
        self._topic = topic
        self._messages = messages
        self._table: Any = None
        self._ends: Ends | None = None
        self._writer: parquet.Writer | None = None
        self._commit = ""
        self._cleaned = False
        self.rows = 0
        """Bodies that were committed."""
        self._pending = 0

    def open(self, ends: Ends | None, create: bool) -> Known:
        """Looks the table up, and which positions it has behind the ends of the table. `create`: it
        is made if it is missing. TableSchemaError if a table of this name is not a dead table."""
        self._table = self._catalog.find(self.name)
        if self._table is None and create:
            self._create()
        known = Known()
        if self._table is None:
            return known
        if self._table.properties.get(schema.DEAD_OF) != self._of:
            raise TableSchemaError(
                f"table {self.name} exists, and is not the one of dead bodies of {self._of}",
                "rename it",
            )
        self._check()
        self._ends = ends_of(self._table)
        behind = {}
        for broker, queue, end in self._ends.queues() if self._ends else ():
            start = ends.queue(broker, queue) if ends else None
            first = start.end if start else 0
            if end.end > first:
                behind[broker, queue] = first
        if behind:
            self._read(behind, known)
        return known

    def write(self, batch: pyarrow.RecordBatch) -> None:
        """Takes rows with the column `error`."""
        if not len(batch):
            return
        columns = self._columns(batch.schema)
        if self._writer is None:
            self._commit = str(uuid.uuid4())
            self._writer = parquet.Writer(self._table, columns, self._commit)
        self._writer.write(batch.select(columns.names))
        self._pending += len(batch)

    def commit(self, ends: Ends, waiting: Waiting) -> None:
        """Commits what was written; `ends`: those that the table is to have. Does nothing if
        nothing was written. TableConflictError if another writer committed dead bodies."""
        writer = self._writer
        if writer is None:
            return
        table = self._table
        staged = Staged(
            self._commit,
            writer.close(),
            self._ends,
            _furthest(self._ends, ends),
            table.spec().spec_id,
            table.schema().schema_id,
            str(table.metadata.table_uuid),
        )
        try:
            table = committing.commit(self._catalog, self.name, table, staged, waiting)
        except OutcomeUnknownError:
            self._writer = None  # the files may be in the table
            raise
        self._writer = None
        self.rows += self._pending
        self._pending = 0
        if not self._cleaned:
            self._cleaned = True
            leftovers.try_clean(self._catalog, table)

    def discard(self) -> None:
        """Deletes what was written and not committed."""
        writer, self._writer, self._pending = self._writer, None, 0
        if writer is not None:
            writer.discard()

    def _create(self) -> None:
        from pyrmq.tables.write import PROPERTIES

        wanted = schema.iceberg_schema(_with_error(self._messages))
        self._table = self._catalog.create(
            self.name,
            wanted,
            sort_order=schema.sort_order(wanted),
            properties={**PROPERTIES, TOPIC: self._topic, schema.DEAD_OF: self._of},
        )

    def _check(self) -> None:
        schema.check(self._table, self._topic, self._columns(_with_error(self._messages)))

    def _columns(self, batch: pyarrow.Schema) -> pyarrow.Schema:
        """Those of a batch that the table has. It must have the place, the body and the reason."""
        import pyarrow as pa

        there = {one.name for one in self._table.schema().fields} | {*_PLACE, "body", ERROR}
        return pa.schema([one for one in batch if one.name in there])

    def _read(self, behind: dict[tuple[str, int], int], known: Known) -> None:
        import numpy as np

        of: Any = need("pyiceberg.expressions", "a table")
        terms: list[Any] = [
            of.And(
                of.EqualTo("brokerName", broker),
                of.EqualTo("queueId", queue),
                of.GreaterThanOrEqual("queueOffset", first),
            )
            for (broker, queue), first in behind.items()
        ]
        if len(terms) > _MAX_TERMS:
            terms = [of.GreaterThanOrEqual("queueOffset", min(behind.values()))]
        rows = terms[0] if len(terms) == 1 else of.Or(*terms)
        with self._catalog.errors(f"table {self.name} cannot be read"):
            scan = self._table.scan(row_filter=rows, selected_fields=_PLACE)
            for batch in scan.to_arrow_batch_reader():
                names = np.array(batch.column("brokerName").to_pylist(), object)
                queues, offsets, places, times = (
                    _numbers(batch.column(column)) for column in _PLACE[1:]
                )
                for (broker, queue), first in behind.items():
                    at = (queues == queue) & (names == broker) & (offsets >= first)
                    if at.any():
                        known.add((broker, queue), offsets[at], places[at], times[at])


def _numbers(column: pyarrow.Array) -> Any:
    import pyarrow as pa

    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
    return column.to_numpy(zero_copy_only=False).astype("i8")


def _with_error(messages: pyarrow.Schema) -> pyarrow.Schema:
    import pyarrow as pa

    return messages.append(pa.field(ERROR, pa.string()))


def _furthest(old: Ends | None, new: Ends) -> Ends:
    """Of each queue the one that reaches further."""
    brokers: dict[str, dict[int, QueueEnd]] = {}
    for ends in (new, old):
        for broker, queue, end in ends.queues() if ends else ():
            mine = brokers.setdefault(broker, {})
            if queue not in mine or end.end > mine[queue].end:
                mine[queue] = end
    return Ends(new.topic, brokers)
