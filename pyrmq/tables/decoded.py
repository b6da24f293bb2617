"""The columns of a table as Arrow types, and the body of a message of the log as the table's
columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pyrmq.engine import ALL_COLUMNS
from pyrmq.escape import escape
from pyrmq.segments.read_options import ReadOptions
from pyrmq.tables.bodies.spec import BODY
from pyrmq.tables.errors import TableError, TableSchemaError

ON_ERROR = ("fail", "skip")
PLACE = ("brokerName", "queueId", "queueOffset")


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
        fields.append(pyarrow.field(column, _plain(field.type)))
    return pyarrow.schema(fields)


def _plain(kind: Any) -> Any:
    """A type with 32-bit places, as `pyrmq.scan` has them, and with nulls allowed inside."""
    import pyarrow
    from pyarrow import types

    if types.is_large_string(kind):
        return pyarrow.string()
    if types.is_large_binary(kind):
        return pyarrow.binary()
    if types.is_struct(kind):
        return pyarrow.struct([pyarrow.field(one.name, _plain(one.type)) for one in kind])
    if types.is_map(kind):
        return pyarrow.map_(_plain(kind.key_type), _plain(kind.item_type))
    if types.is_list(kind) or types.is_large_list(kind):
        inner = kind.value_field
        return pyarrow.list_(pyarrow.field(inner.name, _plain(inner.type)))
    return kind


@dataclass(frozen=True)
class _Seen:
    """As much of a pyiceberg Table as says how its bodies are decoded. Can be sent elsewhere."""

    properties: Mapping[str, str]
    columns: Any
    parts: tuple[str, ...]

    def schema(self) -> Any:
        return self.columns

    def name(self) -> tuple[str, ...]:
        return self.parts


@dataclass(frozen=True)
class Decode:
    """Bodies of the log as the columns of a table, by the schema that the table was written with.
    Can be sent to another process."""

    seen: _Seen
    on_error: str
    """`fail`, or `skip`: a body that does not fit is left out, as the table leaves it out."""

    @cached_property
    def _plan(self) -> Any:
        from pyrmq.tables.bodies.plan import of_table

        return of_table(self.seen)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that are made of bodies."""
        return tuple(field.name for field in self._plan.fields)

    def __call__(self, batch: Any) -> Iterator[Any]:
        """The rows with these columns, in batches. TableError for a body that does not fit, with
        its place."""
        for found in self._plan.stage(batch):
            if found.bad.num_rows and self.on_error == "fail":
                names = [name for name in (*PLACE, "error") if name in found.bad.schema.names]
                raise self._misfit(found.bad.select(names).slice(0, 1).to_pylist()[0])
            yield found.good

    def _misfit(self, row: Mapping[str, Any]) -> TableError:
        place = ", ".join(f"{name} {row[name]}" for name in PLACE if name in row)
        return TableError(
            f"table {'.'.join(self.seen.parts)}: a body of the log does not fit its schema: "
            f"{escape(row['error'])} ({escape(place)})",
            "on_error='skip' (Spark: historyOnError=skip) leaves such messages out, as a "
            "table does whose job skips them or writes them to its dead-letter table",
        )

    def __reduce__(self) -> Any:
        return Decode, (self.seen, self.on_error)


def of(table: Any, on_error: str) -> Decode | None:
    """How the columns of a pyiceberg Table are made of bodies; None if they stay bytes."""
    text = table.properties.get(BODY)
    if text is None:
        return None
    return Decode(_Seen({BODY: text}, table.schema(), tuple(table.name())), on_error)
