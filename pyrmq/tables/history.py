"""`pyrmq.table`: a topic's table and the log behind it as one Arrow stream, each message once."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pyrmq.errors import DataLossError, Parameter, SegmentOptionError
from pyrmq.escape import escape
from pyrmq.segments.scan import Path, as_paths, as_tags, milliseconds
from pyrmq.segments.store import open_stores
from pyrmq.tables import decoded, stored
from pyrmq.tables.catalog import Catalog, open_catalog
from pyrmq.tables.ends import TOPIC, Ends, ends_of
from pyrmq.tables.errors import TableSchemaError, need
from pyrmq.tables.rows import Rows
from pyrmq.tables.stored import StoredPart
from pyrmq.tables.tail import Readable, Tail, TailOptions, TailPart, read_columns

_MAX_THREADS = 8
_TRIES = 3
"""Times that a table is loaded anew where retention deleted what its ends did not have yet."""

Part = StoredPart | TailPart


@dataclass(frozen=True)
class Pinned:
    """A table as it is at one moment."""

    name: str
    iceberg: Any
    """pyiceberg's Table."""
    topic: str
    ends: Ends | None
    """None: it was never written."""

    @property
    def snapshot(self) -> int | None:
        found = self.iceberg.current_snapshot()
        return None if found is None else int(found.snapshot_id)

    def columns(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.iceberg.schema().fields)

    def schema(self, columns: Sequence[str] = ()) -> Any:
        """The pyarrow.Schema of these columns, of all if none is named. TableSchemaError for one
        that the table does not have."""
        return decoded.arrow_schema(self.iceberg, self.name, columns)


def pin(catalog: Catalog, name: str) -> Pinned:
    """The table as it is now. CatalogError if it does not exist, TableSchemaError if it was not
    made by pyrmq."""
    table = catalog.load(name)
    topic = table.properties.get(TOPIC)
    ends = ends_of(table)
    if ends is not None:
        topic = ends.topic
    if not topic:
        raise TableSchemaError(
            f"table {name} was not made by pyrmq, so nothing says which topic it is of",
            "name a table that `pyrmq pipeline table write` made",
        )
    return Pinned(name, table, topic, ends)


class TableScan:
    """The messages of a table and of the log behind it, as they were when the scan was made.

    Programs with Arrow's PyCapsule interface can read it: `pyarrow.table(scan)`,
    `polars.DataFrame(scan)`, `duckdb.sql("select … from scan")`. Each of them reads the files
    again: the table's first, then the log. One batch is held at a time.
    """

    def __init__(self, pinned: Pinned, schema: Any, parts: Sequence[Part]) -> None:
        self._pinned = pinned
        self.schema = schema
        """The pyarrow.Schema of what comes."""
        self.parts = list(parts)
        """Files of the table, then parts of the logs."""

    @property
    def topic(self) -> str:
        return self._pinned.topic

    @property
    def snapshot_id(self) -> int | None:
        """The snapshot of the table that is read; None: it has none yet."""
        return self._pinned.snapshot

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any:
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def to_reader(self) -> Any:
        """A pyarrow.RecordBatchReader, which holds one batch at a time."""
        arrow = need("pyarrow", "a reader of record batches")
        return arrow.RecordBatchReader.from_batches(self.schema, self._batches())

    def to_arrow(self, threads: int | None = None) -> Any:
        """A pyarrow.Table. `threads` read at the same time; default: the number of cores."""
        arrow = need("pyarrow", "a table")
        if threads is not None and threads < 1:
            raise SegmentOptionError((Parameter("threads"), f": {threads}"), "expected at least 1")
        count = min(threads or os.cpu_count() or 1, len(self.parts), _MAX_THREADS)
        if count < 2:
            return arrow.Table.from_batches(self._batches(), self.schema)
        with ThreadPoolExecutor(count) as pool:
            read = list(pool.map(lambda part: list(part.read()), self.parts))
        return arrow.Table.from_batches([b for part in read for b in part], self.schema)

    def to_polars(self) -> Any:
        """A polars.LazyFrame, which reads when it is collected, a batch at a time. Columns that its
        query does not name are not read."""
        polars = need("polars", "a LazyFrame")
        plugins = need("polars.io.plugins", "a LazyFrame")
        schema = polars.from_arrow(self.schema.empty_table()).schema

        def read(
            columns: list[str] | None, predicate: Any, rows: int | None, size: int | None
        ) -> Iterator[Any]:
            # No column at all: what is counted needs one.
            narrow = self if columns is None else self._only(columns or [self.schema.names[0]])
            left = rows
            for batch in narrow._batches():
                frame = polars.from_arrow(batch if left is None else batch.slice(0, left))
                left = None if left is None else left - frame.height
                yield frame if predicate is None else frame.filter(predicate)
                if left == 0:
                    return

        return plugins.register_io_source(read, schema=schema)

    def to_duckdb(self, connection: Any = None) -> Any:
        """A duckdb.DuckDBPyRelation, of `connection` or DuckDB's default one. It streams, and each
        query reads anew. For fewer columns and rows, name them to `pyrmq.table`."""
        duckdb = need("duckdb", "a relation")
        return (duckdb if connection is None else connection).from_arrow(self)

    def _only(self, columns: Sequence[str]) -> TableScan:
        import pyarrow

        schema = pyarrow.schema([self.schema.field(name) for name in columns])
        return TableScan(self._pinned, schema, [part.only(schema) for part in self.parts])

    def _batches(self) -> Iterator[Any]:
        for part in self.parts:
            yield from part.read()


def table(
    name: str,
    store: Path | Sequence[Path] | None = None,
    *,
    catalog: str | os.PathLike[str] | Catalog,
    catalog_properties: Mapping[str, str] | None = None,
    columns: Sequence[str] = (),
    queues: Sequence[int] = (),
    brokers: Sequence[str] = (),
    offsets: tuple[int | None, int | None] = (None, None),
    start_time: int | datetime | None = None,
    end_time: int | datetime | None = None,
    tags: str | Sequence[str] | None = None,
    broker_names: Sequence[str] = (),
    storage_options: Mapping[str, Any] | None = None,
    fail_on_data_loss: bool = True,
    on_corruption: str = "fail",
    on_error: str = "fail",
    name_server: str | None = None,
) -> TableScan:
    """The messages of table `name` (`mq.orders`) and those behind it in the segments at `store`:
    each message of the topic once. The table's snapshot and the ends of the logs are fixed here:
    what is committed or sent later is not in the result, and nothing is in it twice.

    `catalog`: as `pyrmq pipeline table write --catalog` takes it: a folder, a name of
    `.pyiceberg.yaml`, or a URI with `catalog_properties`. `store`, `broker_names`,
    `storage_options`: as `path` and these of `pyrmq.scan`. The stores of all brokers of the table
    are needed, or `brokers`.

    Rows are left out in both halves, before they are read where that is possible: `queues` by id,
    `brokers` by name, `offsets` (from, before) of each queue, store times from `start_time` to
    before `end_time` (ms, or a datetime with a zone), `tags` ("A || B", or several). `columns` by
    name; all without them. Of a table with decoded bodies the log is decoded by the same schema;
    `on_error`: fail or skip, for a body of the log that does not fit.

    Raises DataLossError if retention deleted messages that the table does not have
    (`fail_on_data_loss=False` continues behind them, and without brokers that have no store),
    TableStoreError if the table was written from another store, CatalogError and TableError for
    the table, SegmentError for the store.
    """
    if name_server is not None:
        raise SegmentOptionError(
            (Parameter("name_server"), ": the log is read from files here, not through brokers"),
            "give the store; Spark reads through brokers: options history and nameServer",
        )
    if on_error not in decoded.ON_ERROR:
        raise SegmentOptionError(
            (Parameter("on_error"), f": {on_error!r}"), f"expected {' or '.join(decoded.ON_ERROR)}"
        )
    for parameter, given in (("columns", columns), ("brokers", brokers)):
        if isinstance(given, str):
            raise SegmentOptionError((Parameter(parameter), f": {given!r}"), "expected a list")
    if store is None:
        raise SegmentOptionError(
            (Parameter("store"), ": none is given"),
            "name the folder of the store; pyiceberg alone reads the table without the log",
        )
    opened = (
        catalog
        if isinstance(catalog, Catalog)
        else open_catalog(os.fspath(catalog), catalog_properties)
    )
    rows = Rows(
        queues=tuple(queues),
        brokers=tuple(brokers),
        offsets=offsets,
        times=(milliseconds(start_time, "start_time"), milliseconds(end_time, "end_time")),
        tags=as_tags(tags),
    )
    options = TailOptions(
        fail_on_data_loss=fail_on_data_loss,
        may_miss_brokers=not fail_on_data_loss,
        on_corruption=on_corruption,
    )

    def behind(pinned: Pinned, read: tuple[str, ...]) -> Sequence[Readable]:
        stores = open_stores(as_paths(store), broker_names, storage_options)
        return Tail(pinned.name, pinned.topic, pinned.ends, options).splits(stores, rows, read)

    return planned(opened, name, lambda pinned: pinned.schema(columns), rows, behind, on_error)


def planned(
    catalog: Catalog,
    name: str,
    schema_of: Callable[[Pinned], Any],
    rows: Rows,
    behind: Callable[[Pinned, tuple[str, ...]], Sequence[Readable]],
    on_error: str = "fail",
) -> TableScan:
    """A scan of the table as it is now. `schema_of(pinned)` gives the pyarrow.Schema of what comes,
    `behind(pinned, columns)` the tasks that read these columns of the log.

    Where retention has deleted what the table's ends did not have, the table is loaded anew: with
    `reclaimAfter=table` a log loses only what has been committed. So it is where an expiry has
    removed the snapshot.
    """
    tries = 0
    while True:
        pinned = pin(catalog, name)
        schema = schema_of(pinned)
        decode = decoded.of(pinned.iceberg, on_error)
        read = read_columns(schema, decode)
        try:
            splits = behind(pinned, read)
        except DataLossError:
            tries += 1
            if tries >= _TRIES or pin(catalog, name).snapshot == pinned.snapshot:
                raise
            continue
        try:
            with catalog.errors(f"table {escape(name)} cannot be planned"):
                first = stored.parts(pinned.iceberg, rows, schema)
        except FileNotFoundError:
            tries += 1
            if tries >= _TRIES:
                raise
            continue
        return TableScan(
            pinned, schema, [*first, *(TailPart(one, schema, decode) for one in splits)]
        )
