"""Bodies in JSON: the engine makes the columns, and Python says why the others do not fit."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyrmq.engine import JsonBodies
from pyrmq.tables.bodies import frames, json_schema, json_values
from pyrmq.tables.bodies.kinds import Kind, Many, Named, Plain
from pyrmq.tables.bodies.misfit import Misfit
from pyrmq.tables.bodies.rows import Part
from pyrmq.tables.bodies.schema_file import SchemaFile

if TYPE_CHECKING:
    import pyarrow

UNCLEAR = "the body does not fit the schema, or has more than 200 lists and objects in each other"
"""Where the engine refuses a body that Python would read."""


class JsonForm:
    """Decodes the bodies of one topic."""

    def __init__(self, schema: SchemaFile, header: str) -> None:
        self.record = json_schema.read(schema.text(), schema.name)
        self._confluent = header == frames.CONFLUENT
        self._native = JsonBodies(json.dumps(engine_type(self.record)), self._confluent)

    def parts(self, bodies: pyarrow.Array) -> Iterator[Part]:
        """The columns of the bodies, in order."""
        import pyarrow as pa

        batch = pa.RecordBatch.from_arrays([bodies], names=["body"])
        start = 0
        while start < len(bodies):
            found, unfit = self._native.decode(batch, start)
            values = pa.record_batch(found).column("value")
            reasons = {row: self.why(bodies[start + row].as_py()) for row in unfit}
            yield Part(start, values, reasons)
            start += len(values)

    def why(self, body: bytes | None) -> str:
        """Why a body does not fit."""
        try:
            if body is None:
                raise Misfit((), "the body is null")
            if self._confluent:
                _, body = frames.confluent(body)
            json_values.values(body, self.record)
        except Misfit as error:
            return str(error)
        return UNCLEAR


def engine_type(kind: Kind) -> Any:
    """The type in JSON, as the engine takes it."""
    if isinstance(kind, Plain):
        return "integer" if kind.name == "int" else kind.name
    if isinstance(kind, Many):
        return {"type": "array", "elementType": engine_type(kind.item)}
    if isinstance(kind, Named):
        return {"type": "map", "keyType": "string", "valueType": engine_type(kind.value)}
    fields = [
        {"name": one.name, "type": engine_type(one.kind), "nullable": not one.required}
        for one in kind.fields
    ]
    return {"type": "struct", "fields": fields, "closed": kind.closed}
