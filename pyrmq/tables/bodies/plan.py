"""What a job does with bodies: the columns that its table gets, and each batch in two parts.

A job makes a `BodyPlan` of its options, has `evolve` bring the table to its columns, and gives each
batch to `stage`. `of_table` makes the plan that a table was written with.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyrmq.tables.bodies import evolve, kinds
from pyrmq.tables.bodies.conform import conform
from pyrmq.tables.bodies.decoder import BODY, Decoded, decoder
from pyrmq.tables.bodies.kinds import Field, Plain
from pyrmq.tables.bodies.spec import BINARY, BodySpec
from pyrmq.tables.bodies.spec import BODY as BODY_PROPERTY
from pyrmq.tables.catalog import Catalog
from pyrmq.tables.errors import TableError, TableSchemaError

if TYPE_CHECKING:
    import pyarrow


class BodyPlan:
    """How the bodies of a topic become columns of its table. TableError if the schema makes
    none."""

    def __init__(self, spec: BodySpec) -> None:
        self.spec = spec
        self._decoder = None if spec.form == BINARY else decoder(spec)
        self.fields: tuple[Field, ...] = self._decoder.fields if self._decoder else ()
        """The columns besides those of messages."""
        self._target: dict[str, pyarrow.DataType] = {}
        self._keeps = spec.keep_body

    @property
    def decodes(self) -> bool:
        """Whether bodies are more than bytes."""
        return self._decoder is not None

    def properties(self) -> dict[str, str]:
        """What the table remembers of it."""
        return {BODY_PROPERTY: self.spec.to_json()} if self.decodes else {}

    def columns(self, messages: pyarrow.Schema) -> pyarrow.Schema:
        """The columns of the table's rows, of those of messages. After `fit`: as the table has
        them."""
        import pyarrow as pa

        if self._decoder is None:
            return messages
        kept = [one for one in messages if one.name != BODY or self._keeps]
        own = [
            pa.field(one.name, self._target.get(one.name) or kinds.arrow_type(one.kind))
            for one in self.fields
        ]
        return pa.schema([*kept, *own])

    def evolve(self, catalog: Catalog, name: str) -> tuple[Any, list[str]]:
        """Brings an existing table to these columns; returns it and what was changed.
        TableSchemaError if Iceberg does not allow it."""
        fields = list(self.fields)
        if self.spec.keep_body:
            fields.append(Field(BODY, Plain("binary")))
        if not self.decodes:
            table = catalog.load(name)
            if BODY_PROPERTY in table.properties:
                raise TableSchemaError(
                    f"the bodies of table {name} are decoded, and --body binary decodes none",
                    "give --body and --body-schema as before",
                )
            return table, []
        self._check_layout(catalog.load(name), name)
        table, changed = evolve.evolve(catalog, name, fields, self.properties())
        self.fit(table)
        return table, changed

    def _check_layout(self, table: Any, name: str) -> None:
        text = table.properties.get(BODY_PROPERTY)
        try:
            layout = self.spec.layout if text is None else BodySpec.from_json(text).layout
        except TableError:
            return  # it is written anew
        if layout != self.spec.layout:
            raise TableSchemaError(
                f"the fields of table {name} are laid out as {layout}, not {self.spec.layout}",
                f"give --body-columns {layout}, or write another table",
            )

    def fit(self, table: Any) -> None:
        """Takes the types that the table has: it may have wider ones, and more fields. A table that
        has the column `body` gets it. TableSchemaError if a column is missing."""
        there = {one.name: one for one in table.schema().fields}
        self._keeps = self.spec.keep_body or BODY in there
        target = {}
        for field in self.fields:
            try:
                kind = evolve.kind_of(there[field.name].field_type)
            except (KeyError, ValueError) as error:
                raise TableSchemaError(
                    f"column {field.name} of table {'.'.join(table.name())} is not as the schema "
                    f"of bodies makes it: {error}",
                    "write another table",
                ) from None
            target[field.name] = kinds.arrow_type(kind)
        self._target = target

    def stage(self, batch: pyarrow.RecordBatch) -> Iterator[Decoded]:
        """The rows with the columns of the table, and those that do not fit, with the column
        `error`. TableError if bodies stay bytes."""
        if self._decoder is None:
            raise TableError("bodies stay bytes", "ask `decodes` first")
        for found in self._decoder.decode(batch, self._keeps):
            yield Decoded(self._conformed(found.good), found.bad)

    def _conformed(self, batch: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
        import pyarrow as pa

        names = batch.schema.names
        columns = [
            conform(column, self._target.get(name, column.type))
            for name, column in zip(names, batch.columns, strict=True)
        ]
        fields = [
            one.with_type(column.type) for one, column in zip(batch.schema, columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def of_table(table: Any) -> BodyPlan | None:
    """The plan with which a table was written last; None if its bodies are bytes."""
    text = table.properties.get(BODY_PROPERTY)
    if text is None:
        return None
    plan = BodyPlan(BodySpec.from_json(text))
    plan.fit(table)
    return plan
