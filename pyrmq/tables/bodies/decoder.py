"""Makes columns of the bodies of a batch, and takes out the rows whose bodies do not fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from pyrmq.escape import escape
from pyrmq.tables.bodies import kinds
from pyrmq.tables.bodies.kinds import Field, Record
from pyrmq.tables.bodies.rows import Part
from pyrmq.tables.bodies.spec import AVRO, FLAT, JSON, BodySpec
from pyrmq.tables.errors import TableError

if TYPE_CHECKING:
    import pyarrow

BODY = "body"
"""The column with the bytes."""
VALUE = "value"
"""The column of structs, in the layout `struct`."""
ERROR = "error"
"""The column with the reason, in batches of bodies that do not fit."""


class Form(Protocol):
    """A form of bodies."""

    record: Record

    def parts(self, bodies: pyarrow.Array) -> Iterator[Part]:
        """The columns of the bodies of a binary array, in order."""


@dataclass(frozen=True)
class Decoded:
    """Rows of a batch. Each is in one of the two, in the order of the batch."""

    good: pyarrow.RecordBatch
    """With the fields; without `body`, unless it is kept."""
    bad: pyarrow.RecordBatch
    """As it was, with the column `error`."""


class Decoder:
    """Decodes batches that have a column `body`."""

    def __init__(self, spec: BodySpec, form: Form) -> None:
        import pyarrow as pa

        self.spec = spec
        self._form = form
        self.fields = _columns(spec, form.record)
        """The columns that a table gets."""
        self.schema: pyarrow.Schema = pa.schema(
            [pa.field(one.name, kinds.arrow_type(one.kind)) for one in self.fields]
        )

    def decode(self, batch: pyarrow.RecordBatch, keep_body: bool = False) -> Iterator[Decoded]:
        """The rows of a batch with their columns, and those that do not fit. A small batch may hold
        much, so it comes in parts. `keep_body`: as in the spec, for a table that has the column."""
        import pyarrow as pa

        at = batch.schema.get_field_index(BODY)
        if at < 0:
            raise TableError("the batch has no column body", "read the column body as well")
        bodies = batch.column(at)
        if bodies.type not in (pa.binary(), pa.large_binary()):
            bodies = bodies.cast(pa.binary())
        for part in self._form.parts(bodies):
            rows = batch.slice(part.start, len(part.values))
            yield self._decoded(rows, part, keep_body or self.spec.keep_body)

    def _decoded(self, batch: pyarrow.RecordBatch, part: Part, keep_body: bool) -> Decoded:
        import pyarrow as pa

        good, values, rows = batch, part.values, sorted(part.reasons)
        texts = pa.array([part.reasons[row] for row in rows], pa.string())
        if not rows:
            bad = batch.slice(0, 0)
        else:
            bad = batch.take(pa.array(rows, pa.int64()))
            fits = [True] * len(batch)
            for row in rows:
                fits[row] = False
            mask = pa.array(fits, pa.bool_())
            good, values = batch.filter(mask), values.filter(mask)
        if not keep_body:
            good = good.drop_columns([BODY])
        return Decoded(self._with(good, values), _appended(bad, {ERROR: texts}))

    def _with(self, batch: pyarrow.RecordBatch, values: pyarrow.StructArray) -> pyarrow.RecordBatch:
        if self.spec.layout != FLAT:
            return _appended(batch, {VALUE: values})
        names = [one.name for one in self._form.record.fields]
        return _appended(batch, dict(zip(names, values.flatten(), strict=True)))


def decoder(spec: BodySpec) -> Decoder:
    """A decoder for bodies of a form. TableError if its schema makes no columns."""
    if spec.form == JSON:
        from pyrmq.tables.bodies.json_form import JsonForm

        return Decoder(spec, JsonForm(spec.schemas[0], spec.header))
    if spec.form == AVRO:
        from pyrmq.tables.bodies.avro_form import AvroForm

        return Decoder(spec, AvroForm(spec.schemas, spec.header))
    from pyrmq.tables.bodies.protobuf_form import ProtobufForm

    return Decoder(spec, ProtobufForm(spec.schemas[0], spec.message, spec.header))


def _columns(spec: BodySpec, record: Record) -> tuple[Field, ...]:
    if spec.layout != FLAT:
        return (Field(VALUE, record),)
    from pyrmq.engine import ALL_COLUMNS

    taken = {name.lower() for name in ALL_COLUMNS}
    for one in record.fields:
        if one.name.lower() in taken:
            raise TableError(
                f"the field {escape(one.name)} has the name of a column of messages",
                "leave out --body-columns flat: the fields are then in the column value",
            )
    return tuple(Field(one.name, one.kind) for one in record.fields)


def _appended(batch: pyarrow.RecordBatch, columns: dict[str, pyarrow.Array]) -> pyarrow.RecordBatch:
    import pyarrow as pa

    schema = batch.schema
    for name, column in columns.items():
        schema = schema.append(pa.field(name, column.type))
    return pa.RecordBatch.from_arrays([*batch.columns, *columns.values()], schema=schema)
