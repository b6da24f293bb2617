"""Runs into an Iceberg table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyrmq.tables import commit as committing
from pyrmq.tables import leftovers, parquet, schema
from pyrmq.tables.catalog import Catalog
from pyrmq.tables.commit import Staged
from pyrmq.tables.counting import Counted
from pyrmq.tables.ends import TOPIC, Ends, ends_of
from pyrmq.tables.errors import OutcomeUnknownError, TableSchemaError
from pyrmq.tables.runs import BaseRun
from pyrmq.tables.source import Source

PROPERTIES = {
    "format-version": "2",
    committing.MERGE: "true",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "100",
    "write.metadata.metrics.column.body": "none",
    "write.metadata.metrics.column.properties": "none",
}
"""Of a new table. Later runs follow what the table has."""


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


class Run(BaseRun):
    """Writes an Iceberg table from a source."""

    def __init__(
        self, catalog: Catalog, name: str, source: Source, columns: Any, **how: Any
    ) -> None:
        super().__init__(source, columns, **how)
        self._catalog, self._name = catalog, name
        self._cleaned = self._swept = False

    def _load(self) -> tuple[Any, Ends | None]:
        table = self._catalog.load(self._name)
        ends = ends_of(table)
        if self._stage is None:
            schema.check(table, self._source.topic, self._columns)
        return table, ends

    def _prepare(self, table: Any, ends: Ends | None) -> None:
        if self._stage is not None:
            self._columns = self._stage.begin(table, ends)
            schema.check(table, self._source.topic, self._columns)
        if not self._swept and self._catalog.is_embedded:
            # Another object: `table` must stay as its ends were read.
            self._swept = True
            self._clean(self._catalog.load(self._name))

    def _writer(self, table: Any, commit: str) -> parquet.Writer:
        return parquet.Writer(table, self._columns, commit)

    def _staged(
        self, table: Any, commit: str, files: list[Any], ends: Ends | None, counted: Counted
    ) -> Staged:
        return Staged(
            commit, files, ends, counted.ends(), table.spec().spec_id,
            table.schema().schema_id, str(table.metadata.table_uuid), counted.gaps,
        )  # fmt: skip

    def _commit(self, table: Any, staged: Staged, writer: parquet.Writer) -> Any:
        if self._stage is not None:
            try:
                self._stage.commit(staged.ends, self._waiting)
            except OutcomeUnknownError:
                writer.discard()  # the commit of the table itself was not tried
                raise
        return committing.commit(self._catalog, self._name, table, staged, self._waiting)

    def _committed(self, table: Any) -> None:
        if not self._cleaned:
            self._cleaned = True
            self._clean(table)

    def _clean(self, table: Any) -> None:
        """Deletes the files of killed runs."""
        self.added.cleaned += leftovers.try_clean(self._catalog, table)
