"""Bodies in JSON: the engine makes the columns, and Python says why the others do not fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyrmq.tables.bodies import frames, json_schema, json_values, kinds, rows
from pyrmq.tables.bodies.schema_file import SchemaFile

if TYPE_CHECKING:
    import pyarrow


class JsonForm:
    """Decodes the bodies of one topic."""

    def __init__(self, schema: SchemaFile, header: str) -> None:
        self.record = json_schema.read(schema.text(), schema.name)
        self._kind = kinds.arrow_type(self.record)
        self._confluent = header == frames.CONFLUENT

    def column(self, bodies: pyarrow.Array) -> tuple[pyarrow.Array, dict[int, str]]:
        """The structs, null for a body that does not fit, and the reasons by row."""
        return rows.column(bodies, self._kind, self._row)

    def _row(self, body: bytes) -> dict[str, object]:
        if self._confluent:
            _, body = frames.confluent(body)
        return json_values.values(body, self.record)
