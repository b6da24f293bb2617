"""Bodies in JSON: the engine makes the columns, and Python says why the others do not fit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

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

    def parts(self, bodies: pyarrow.Array) -> Iterator[rows.Part]:
        """The columns of the bodies, in order."""
        return rows.parts(bodies, self._kind, self._row)

    def _row(self, body: bytes) -> tuple[dict[str, Any], int]:
        if self._confluent:
            _, body = frames.confluent(body)
        return json_values.values(body, self.record)
