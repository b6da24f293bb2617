"""The columns of a table as Arrow types, and the body of a message of the log as the table's
columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyrmq.engine import ALL_COLUMNS
from pyrmq.segments.read_options import ReadOptions
from pyrmq.tables.errors import TableSchemaError

BODY = "pyrmq.body"
"""Property of a table whose rows have columns that were decoded from bodies: how."""


def arrow_schema(table: Any, name: str, columns: Sequence[str] = ()) -> Any:
    """The pyarrow.Schema of columns of a pyiceberg Table: those of messages as `pyrmq.scan` gives
    them, others as pyiceberg does."""
    import pyarrow
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    known = [field.name for field in table.schema().fields]
    unknown = [column for column in columns if column not in known]
    if unknown or len(set(columns)) < len(columns):
        wrong = f"has no columns {', '.join(unknown)}" if unknown else "has each column once"
        raise TableSchemaError(f"table {name} {wrong}", f"it has {', '.join(known)}")
    others = schema_to_pyarrow(table.schema(), include_field_ids=False)
    of_messages = ReadOptions(columns=ALL_COLUMNS).schema()
    fields = []
    for column in columns or known:
        field = (of_messages if column in ALL_COLUMNS else others).field(column)
        fields.append(pyarrow.field(column, field.type))
    return pyarrow.schema(fields)


class Decode:
    """Bodies as columns, by the property of a table. Can be sent to another process."""

    names: tuple[str, ...] = ()

    def __call__(self, batch: Any) -> Any:
        raise NotImplementedError


def of(table: Any, name: str, schema: Any) -> Decode | None:
    """How columns of the schema are made of bodies; None where none of them is."""
    return None
