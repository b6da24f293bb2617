"""Types of the fields of bodies: those that Iceberg has, as one small tree.

Each form of bodies reads its schema into this tree. Arrow types, Iceberg types and the engine's
JSON are made of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyrmq.escape import escape
from pyrmq.tables.errors import TableError

if TYPE_CHECKING:
    import pyarrow

MAX_DEPTH = 30
"""Types within each other. The engine allows 32, and a body's columns are in a struct."""
MAX_FIELDS = 2000
"""Fields of a schema, in all structs of it."""
MAX_NAME = 255
"""Characters of a field's name."""

_DECIMAL = re.compile(r"decimal\((\d{1,2}),(\d{1,2})\)")
PLAIN = (
    "boolean", "int", "long", "float", "double", "string", "binary", "date", "time", "timestamp",
    "timestamp_ntz", "json",
)  # fmt: skip
"""Names of plain kinds; besides `decimal(p,s)`. `json` is any JSON value as its text."""


@dataclass(frozen=True)
class Plain:
    """A value without parts."""

    name: str

    def decimal(self) -> tuple[int, int] | None:
        """Digits in all, and behind the point."""
        found = _DECIMAL.fullmatch(self.name)
        return (int(found[1]), int(found[2])) if found else None


@dataclass(frozen=True)
class Many:
    """A list."""

    item: Kind


@dataclass(frozen=True)
class Named:
    """A map from texts."""

    value: Kind


@dataclass(frozen=True)
class Field:
    """A field of a struct. The column is optional in the table in any case."""

    name: str
    kind: Kind
    required: bool = False
    """A body without it, or with null, does not fit."""


@dataclass(frozen=True)
class Record:
    """A struct."""

    fields: tuple[Field, ...] = field(default_factory=tuple)
    closed: bool = False
    """A body with a field that is not named here does not fit."""


Kind = Plain | Many | Named | Record


def decimal(digits: int, scale: int, what: str) -> Plain:
    """A decimal type. TableError if Iceberg does not have it."""
    if not (1 <= digits <= 38 and 0 <= scale <= digits):
        raise TableError(
            f"{what}: decimal({digits},{scale}) is not a type of Iceberg",
            "expected 1 to 38 digits, and a scale from 0 to the number of digits",
        )
    return Plain(f"decimal({digits},{scale})")


def check(record: Record, what: str) -> Record:
    """The same record. TableError if a table cannot have these columns; `what` names the schema."""
    _check(record, what, (), [0])
    return record


def _check(kind: Kind, what: str, path: tuple[str, ...], count: list[int]) -> None:
    if len(path) > MAX_DEPTH:
        raise TableError(f"{what}: types are more than {MAX_DEPTH} deep at {shown(path[:4])}")
    if isinstance(kind, Many):
        return _check(kind.item, what, (*path, "element"), count)
    if isinstance(kind, Named):
        return _check(kind.value, what, (*path, "value"), count)
    if isinstance(kind, Plain):
        return None
    if not kind.fields:
        where = f"the struct {shown(path)}" if path else "the schema"
        raise TableError(
            f"{what}: {where} has no fields, and Iceberg has no empty structs",
            "name its fields, or leave it out",
        )
    count[0] += len(kind.fields)
    if count[0] > MAX_FIELDS:
        raise TableError(f"{what}: there are more than {MAX_FIELDS} fields")
    seen: dict[str, str] = {}
    for one in kind.fields:
        _check_name(one.name, what, path)
        twin = seen.setdefault(one.name.lower(), one.name)
        if twin is not one.name:
            raise TableError(
                f"{what}: the fields {shown((*path, twin))} and {shown((*path, one.name))} have "
                "the same name for Spark, which compares names without case",
                "leave one of them out of the schema",
            )
        _check(one.kind, what, (*path, one.name), count)
    return None


def _check_name(name: str, what: str, path: tuple[str, ...]) -> None:
    if not name or len(name) > MAX_NAME or "." in name or "`" in name or escape(name) != name:
        raise TableError(
            f"{what}: the name of the field {shown((*path, name[:MAX_NAME]))} cannot name a column",
            f"expected 1 to {MAX_NAME} printable characters without . and `; "
            "leave the field out of the schema",
        )


def shown(path: tuple[str, ...]) -> str:
    """The path of a column, as errors and SQL have it."""
    return escape(".".join(path))


def arrow_type(kind: Kind) -> pyarrow.DataType:
    """The Arrow type of a kind."""
    import pyarrow as pa

    if isinstance(kind, Many):
        return pa.list_(pa.field("element", arrow_type(kind.item)))
    if isinstance(kind, Named):
        return pa.map_(pa.string(), pa.field("value", arrow_type(kind.value)))
    if isinstance(kind, Record):
        return pa.struct([pa.field(one.name, arrow_type(one.kind)) for one in kind.fields])
    pair = kind.decimal()
    if pair:
        return pa.decimal128(*pair)
    plain = {
        "boolean": pa.bool_(),
        "int": pa.int32(),
        "long": pa.int64(),
        "float": pa.float32(),
        "double": pa.float64(),
        "string": pa.string(),
        "json": pa.string(),
        "binary": pa.binary(),
        "date": pa.date32(),
        "time": pa.time64("us"),
        "timestamp": pa.timestamp("us", "UTC"),
        "timestamp_ntz": pa.timestamp("us"),
    }
    return plain[kind.name]


def iceberg_type(kind: Kind, new_id: Callable[[], int]) -> Any:
    """The type in Iceberg; `new_id` gives the next id of a field."""
    from pyiceberg import types

    if isinstance(kind, Many):
        return types.ListType(new_id(), iceberg_type(kind.item, new_id), element_required=False)
    if isinstance(kind, Named):
        return types.MapType(
            new_id(), types.StringType(), new_id(), iceberg_type(kind.value, new_id), False
        )
    if isinstance(kind, Record):
        return types.StructType(*(iceberg_field(one, new_id) for one in kind.fields))
    pair = kind.decimal()
    if pair:
        return types.DecimalType(*pair)
    plain = {
        "boolean": types.BooleanType,
        "int": types.IntegerType,
        "long": types.LongType,
        "float": types.FloatType,
        "double": types.DoubleType,
        "string": types.StringType,
        "json": types.StringType,
        "binary": types.BinaryType,
        "date": types.DateType,
        "time": types.TimeType,
        "timestamp": types.TimestamptzType,
        "timestamp_ntz": types.TimestampType,
    }
    return plain[kind.name]()


def iceberg_field(one: Field, new_id: Callable[[], int]) -> Any:
    """A column in Iceberg: it is optional, so that a later schema may leave it out."""
    from pyiceberg.types import NestedField

    return NestedField(new_id(), one.name, iceberg_type(one.kind, new_id), required=False)
