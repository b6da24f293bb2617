"""`option("history", "mq.orders")`: a table of the topic and the log behind it, as one batch.

The driver loads the table and plans files of the table and parts of the log; tasks read both with
pyarrow. So Spark needs no package of Iceberg, and tasks no catalog: what they need of the file
system of the table, credentials included, is part of their task.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from pyrmq.errors import ConfigError
from pyrmq.segments.store import open_stores
from pyrmq.tables import history
from pyrmq.tables.catalog import Catalog, has_credentials, open_catalog
from pyrmq.tables.rows import Rows
from pyrmq.tables.tail import Tail, TailOptions, TailPart
from spark_ext import selecting
from spark_ext.option_names import option_names
from spark_ext.option_table import GROUPS, SELECTING
from spark_ext.schema import as_named
from spark_ext.worker import VersionCheckedPickle, prepare

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql.types import StructType

    from pyrmq.engine import Split
    from pyrmq.segments.scan import Readable
    from pyrmq.tables.history import Part, Pinned
    from spark_ext.options import Options

MAX_FILES = 256
"""Files of the table that one task reads, at most."""
_TAKEN = frozenset(("subExpression", "startingTimestamp", "endingTimestamp"))
_REFUSED = {
    **{name: "the table says which messages there are" for name in SELECTING if name not in _TAKEN},
    "body": "the table says how bodies are decoded",
    "bodySchema": "the table says how bodies are decoded",
    "decompress": "a table has bodies that are decompressed",
}
"""Options that a table does not go with, and why."""


def check(options: Options) -> None:
    """ConfigError for options that do not go together."""
    name, catalog = (options.of_all()[one] for one in ("history", "historyCatalog"))
    if name is None or catalog is None:
        raise ConfigError(
            "options history and historyCatalog go together: the table, and its catalog"
        )
    if has_credentials(catalog):
        raise ConfigError(
            "option historyCatalog has credentials, and Spark shows options: write them into "
            ".pyiceberg.yaml, and give the name that the catalog has there"
        )
    for other, why in _REFUSED.items():
        if options.is_set(other):
            raise ConfigError(f"option {other} is not for a read with history: {why}")
    form = options.of_all()["properties"]
    if any(options.is_set(one) for one in GROUPS["properties"]) and form != "map":
        raise ConfigError(
            f"option properties={form} is not for a read with history: a table has a map; name the "
            "columns in option columns"
        )


def schema_of(options: Options) -> StructType:
    """The columns of the table, or those of option columns. Loads the table."""
    check(options)
    pinned = history.pin(_catalog(options), options.of_all()["history"])
    return _spark(pinned.schema(_columns(pinned, options)))


class HistoryPartition(VersionCheckedPickle, InputPartition):
    """`value` is a list of parts."""

    def __init__(self, parts: list[Part]) -> None:
        super().__init__(parts)


class HistoryReader(VersionCheckedPickle, DataSourceReader):
    """Made on the driver for each planned query; `read` runs in a worker on a pickled copy."""

    def __init__(self, options: Options, schema: StructType) -> None:
        check(options)
        self._options = options
        self._schema = schema

    @option_names()
    def partitions(self) -> list[InputPartition]:
        """Files of the table, then parts of the log. The table and the ends of the logs are fixed
        here. Raises PyrmqError for what cannot be read as asked."""
        given = self._options.of_all()
        scan = history.planned(
            _catalog(self._options),
            given["history"],
            self._arrow,
            _rows(given),
            self._behind,
            on_error=given["historyOnError"],
        )
        return [HistoryPartition(parts) for parts in _tasks(scan.parts, given["splitBytes"])]

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        prepare()
        parts: list[Part] | None = None if partition is None else partition.value
        names = [field.name for field in self._schema.fields]
        with option_names():
            for part in parts or []:
                for batch in part.read():
                    yield as_named(batch, names)

    def _arrow(self, pinned: Pinned) -> Any:
        """The columns of the query as Arrow has them. ConfigError for a schema of the user's that
        the table does not have."""
        there = {name.lower(): name for name in pinned.columns()}
        given = self._schema.fields
        unknown = [field.name for field in given if field.name.lower() not in there]
        if unknown:
            raise ConfigError(
                f"the schema has columns that table {pinned.name} does not have: "
                f"{', '.join(unknown)}; it has {', '.join(pinned.columns())}"
            )
        arrow = pinned.schema([there[field.name.lower()] for field in given])
        for mine, own in zip(_spark(arrow).fields, given, strict=True):
            if mine.dataType != own.dataType:
                raise ConfigError(
                    f"the schema has {own.name} {own.dataType.simpleString()}, and table "
                    f"{pinned.name} has {mine.dataType.simpleString()}"
                )
        return arrow

    def _behind(self, pinned: Pinned, columns: tuple[str, ...]) -> list[Readable]:
        given = self._options.of_all()
        if given["nameServer"] is not None and not given["path"] and not given["paths"]:
            return self._behind_brokers(pinned, columns)
        stores = open_stores(
            selecting.paths(self._options),
            selecting.broker_names(self._options),
            given["storageOptions"],
        )
        options = TailOptions(
            fail_on_data_loss=given["failOnDataLoss"],
            may_miss_brokers=not given["failOnDataLoss"],
            on_corruption=given["onCorruption"],
            verify_crc=given["verifyCrc"],
            plan=given["plan"],
            split_bytes=given["splitBytes"],
            min_partitions=given["minPartitions"],
            batch_rows=given["batchRows"],
            batch_bytes=given["batchBytes"],
        )
        tail = Tail(pinned.name, pinned.topic, pinned.ends, options)
        splits: list[Split] = tail.splits(stores, _rows(given), columns)
        most = given["maxRecordsPerPartition"]
        if most is not None:
            from pyrmq.segments.split import at_most

            splits = at_most(splits, most)
        return list(splits)

    def _behind_brokers(self, pinned: Pinned, columns: tuple[str, ...]) -> list[Readable]:
        from spark_ext.history_brokers import BrokerTail

        own = {"subexpression", "startingtimestamp", "endingtimestamp", "columns", "properties"}
        text = {
            name: value
            for name, value in self._options.text.items()
            if not name.lower().startswith("history") and name.lower() not in own
        }
        return list(BrokerTail(pinned, text).splits(_rows(self._options.of_all()), columns))


def _catalog(options: Options) -> Catalog:
    return open_catalog(options.of_all()["historyCatalog"])


def _rows(given: dict[str, Any]) -> Rows:
    return Rows(
        times=(given["startingTimestamp"], given["endingTimestamp"]), tags=given["subExpression"]
    )


def _columns(pinned: Pinned, options: Options) -> list[str]:
    """Those of option columns, by the names of the table; none: all."""
    named = options.of_all()["columns"] or ()
    if not named or tuple(named) == ("*",):
        return []
    there = {name.lower(): name for name in pinned.columns()}
    return [there.get(name.lower(), name) for name in named]


def _spark(schema: Any) -> StructType:
    from pyspark.sql.pandas.types import from_arrow_schema

    try:
        return from_arrow_schema(schema, prefer_timestamp_ntz=True)
    except Exception as error:
        raise ConfigError(
            f"the table has a column of a type that Spark does not have: {error}; name others in "
            "option columns"
        ) from None


def _tasks(parts: Iterable[Part], size: int) -> list[list[Part]]:
    """Small files together, up to so many bytes; each part of the log is a task of its own."""
    files: list[list[Part]] = []
    behind: list[list[Part]] = []
    filled = 0
    for part in parts:
        if isinstance(part, TailPart):
            behind.append([part])
            continue
        if not files or filled + part.size > size or len(files[-1]) >= MAX_FILES:
            files.append([])
            filled = 0
        files[-1].append(part)
        filled += part.size
    return files + behind
