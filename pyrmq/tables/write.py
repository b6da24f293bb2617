"""Runs: what a topic has and its table has not, one commit after the other."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pyrmq.tables import commit as committing
from pyrmq.tables import leftovers, parquet, schema
from pyrmq.tables.catalog import Catalog
from pyrmq.tables.commit import Staged, Waiting
from pyrmq.tables.counting import Counted, Gap
from pyrmq.tables.ends import TOPIC, Ends, ends_of
from pyrmq.tables.errors import (
    CatalogAwayError,
    OutcomeUnknownError,
    TableConflictError,
    TableSchemaError,
)
from pyrmq.tables.source import Source

COMMIT_BYTES = 4 << 30
"""Bytes of rows (as Arrow) after which a run is committed though there is more."""
PROPERTIES = {
    "format-version": "2",
    committing.MERGE: "true",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "100",
    "write.metadata.metrics.column.body": "none",
    "write.metadata.metrics.column.properties": "none",
}
"""Of a new table. Later runs follow what the table has."""

Change = Callable[[Any], Any]
"""What is done to a batch of the source before it is written."""


class Stage(Protocol):
    """What else is done with the rows of each commit, such as the decoding of bodies."""

    def begin(self, table: Any, ends: Ends | None) -> Any:
        """Before the first batch of a commit; returns the pyarrow.Schema of the rows."""

    def change(self, batch: Any) -> Iterator[Any]:
        """The rows of the table, of a batch of the source; in several batches if they are much."""

    def commit(self, ends: Ends, waiting: Waiting) -> None:
        """Right before the commit of the table, with the ends that it is to have."""

    def discard(self) -> None:
        """The commit failed, or has nothing: what was written for it is deleted."""

    def committed(self) -> None:
        """The table has the rows."""


@dataclass
class Added:
    """What a call added."""

    commits: int = 0
    rows: int = 0
    """Messages that were read; those of the table, if nothing is left out."""
    files: int = 0
    bytes: int = 0
    """Of the files."""
    races: int = 0
    """Runs that another writer overtook."""
    dead: int = 0
    """Bodies that do not fit, in the table of these."""
    skipped: int = 0
    """Bodies that do not fit and were left out."""
    left: int = 0
    """Messages that were read and are not in this table: the two above, and those that the table of
    dead bodies had before."""
    cleaned: int = 0
    """Files of killed runs that were deleted."""
    gaps: list[Gap] = field(default_factory=list)


def create_table(
    catalog: Catalog,
    name: str,
    topic: str,
    columns: Any,
    *,
    partition: Sequence[str] = ("day",),
    codec: str = "zstd",
    properties: Mapping[str, str] | None = None,
) -> Any:
    """The table, which is created if it does not exist. `columns`: pyarrow.Schema of its rows.
    TableSchemaError if it exists and does not fit."""
    table = catalog.find(name)
    if table is None:
        wanted = schema.iceberg_schema(columns)
        table = catalog.create(
            name,
            wanted,
            partition_spec=schema.partition_spec(partition, wanted),
            sort_order=schema.sort_order(wanted),
            properties={**PROPERTIES, parquet.CODEC: codec, TOPIC: topic, **(properties or {})},
        )
    schema.check_alive(table, schema.DEAD_WISH)
    schema.check(table, topic, columns)
    return table


def check_asked(table: Any, partition: Sequence[str] | None, codec: str | None) -> None:
    """TableSchemaError if what was asked of a new table is not what this one has. None: not asked.
    `codec`: of pyrmq.tables.parquet."""
    name = ".".join(table.name())
    fields = table.schema()
    there = {
        (fields.find_column_name(one.source_id), str(one.transform)) for one in table.spec().fields
    }
    if partition is not None and there != {schema.PARTITIONS[word] for word in partition}:
        words = {pair: word for word, pair in schema.PARTITIONS.items()}
        shown = ",".join(sorted(words.get(pair, f"{pair[1]} of {pair[0]}") for pair in there))
        asked = ",".join(partition) or "none"
        raise TableSchemaError(
            f"table {name} has the partitions {shown or 'none'}, not {asked}",
            "leave out --partition, or write another table",
        )
    has = str(table.properties.get(parquet.CODEC, "zstd")).lower()
    if codec is not None and codec != has:
        raise TableSchemaError(
            f"the codec of table {name} is {has}, not {codec}",
            f"leave out --codec, or set the table's property {parquet.CODEC}",
        )


class Run:
    """Writes a table from a source. One object for one process; `stop` says whether to end at the
    next place where that loses no work."""

    def __init__(
        self,
        catalog: Catalog,
        name: str,
        source: Source,
        columns: Any,
        *,
        change: Change | None = None,
        stage: Stage | None = None,
        waiting: Waiting | None = None,
        stop: Callable[[], bool] = lambda: False,
        commit_bytes: int = COMMIT_BYTES,
    ) -> None:
        """`columns`: pyarrow.Schema of the rows that are written: of what `change` returns. With
        `stage`: of what that returns."""
        self._catalog, self._name, self._source = catalog, name, source
        self._columns, self._change = columns, change
        self._stage = stage
        self._waiting = waiting or Waiting()
        self._stop = stop
        self._most = commit_bytes
        self._at: tuple[Ends | None, Any] | None = None
        """Ends of the table, and the source's position behind them."""
        self._checked = False
        self._is_first = False
        """Whether this call has begun the table."""
        self._cleaned = self._swept = False
        self.added = Added()

    def catch_up(self) -> None:
        """Commits what is in the log now, or less if `stop` says so. What comes meanwhile is left
        to the next call: else each look would find a few messages, and commit them.
        CatalogAwayError if the catalog could not be reached for the time of `waiting`."""
        self._source.pin()
        self._checked = self._is_first = False
        while not self._stop():
            try:
                more = self._one()
            except OutcomeUnknownError:
                raise
            except CatalogAwayError:
                if not self._waiting.again():
                    raise
            else:
                self._waiting.done()
                if not more:
                    return

    def _one(self) -> bool:
        """One commit; False if there was nothing to read."""
        table = self._catalog.load(self._name)
        ends = ends_of(table)
        if self._stage is None:
            schema.check(table, self._source.topic, self._columns)
        start = self._start(ends)
        if start is None:
            return False
        if self._stage is not None:
            self._columns = self._stage.begin(table, ends)
            schema.check(table, self._source.topic, self._columns)
        if not self._swept and self._catalog.is_embedded:
            # Another object: `table` must stay as its ends were read.
            self._swept = True
            self._clean(self._catalog.load(self._name))
        counted = self._counted(ends)
        commit = str(uuid.uuid4())
        writer = self._writer(table, commit)
        try:
            position = self._read(start, counted, writer)
            if not counted.rows:
                self._discard(writer)
                self._at = ends, position
                return False
            staged = Staged(
                commit, writer.close(), ends, counted.ends(), table.spec().spec_id,
                table.schema().schema_id, str(table.metadata.table_uuid), counted.gaps,
            )  # fmt: skip
        except BaseException:
            self._at = None
            self._discard(writer)
            raise
        self._at = None
        try:
            if self._stage is not None:
                self._before(self._stage, staged, writer)
            table = committing.commit(self._catalog, self._name, table, staged, self._waiting)
        except OutcomeUnknownError:
            raise  # the files may be in the table
        except TableConflictError:
            self._discard(writer)
            self.added.races += 1
            return True
        except Exception:
            self._discard(writer)
            raise
        if self._stage is not None:
            self._stage.committed()
        self._at = staged.ends, position
        self._count(counted, staged, writer)
        if not self._cleaned:
            self._cleaned = True
            self._clean(table)
        return True

    def _clean(self, table: Any) -> None:
        """Deletes the files of killed runs."""
        self.added.cleaned += leftovers.try_clean(self._catalog, table)

    def _counted(self, ends: Ends | None) -> Counted:
        self._is_first = self._is_first or ends is None
        return Counted(ends or Ends(self._source.topic), self._is_first)

    def _before(self, stage: Stage, staged: Staged, writer: parquet.Writer) -> None:
        try:
            stage.commit(staged.ends, self._waiting)
        except OutcomeUnknownError:
            writer.discard()  # the commit of the table itself was not tried
            raise

    def _discard(self, writer: parquet.Writer) -> None:
        writer.discard()
        if self._stage is not None:
            self._stage.discard()

    def _writer(self, table: Any, commit: str) -> parquet.Writer:
        """What takes the rows of a commit."""
        return parquet.Writer(table, self._columns, commit)

    def _start(self, ends: Ends | None) -> Any:
        """Where to read from; None if there is nothing to read. Each `catch_up` that finds messages
        checks first that the log is still the one that the table is of."""
        if self._at is not None and self._at[0] == ends:
            position = self._at[1]
            if self._checked:
                return position
            if self._source.next(position) == position:
                return None
        position = self._source.start(ends)
        self._checked = True
        self._at = ends, position
        return position

    def _read(self, start: Any, counted: Counted, writer: parquet.Writer) -> Any:
        """Reads until there is enough for a commit; returns the position behind it."""
        position, size = start, 0
        while size < self._most:
            end = self._source.next(position)
            if end == position:
                break
            for batch in self._source.batches(position, end):
                counted.add(batch)
                size += batch.nbytes
                for rows in self._changed(batch):
                    writer.write(rows)
            position = end
            if self._stop():
                break
        return position

    def _changed(self, batch: Any) -> Iterator[Any]:
        if self._stage is not None:
            return self._stage.change(batch)
        return iter([batch if self._change is None else self._change(batch)])

    def _count(self, counted: Counted, staged: Staged, writer: parquet.Writer) -> None:
        self.added.commits += 1
        self.added.rows += counted.rows
        self.added.files += len(staged.files)
        self.added.bytes += writer.bytes
        self.added.gaps += counted.gaps
