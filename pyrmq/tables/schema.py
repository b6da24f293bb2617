"""The columns and partitions of a table, and whether an existing table fits.

The message columns are those of `pyrmq.scan`, by the same names and types. Field ids are those of
the table: top-level columns in order from 1, then what is inside of them. Files carry them, so a
renamed column keeps its data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyrmq.engine import scan_columns
from pyrmq.segments.read_options import ReadOptions
from pyrmq.tables.ends import TOPIC
from pyrmq.tables.errors import TableSchemaError, need

COLUMNS = (
    "topic", "brokerName", "queueId", "queueOffset", "commitLogOffset", "storeTimestamp",
    "bornTimestamp", "tags", "keys", "flag", "body", "properties",
)  # fmt: skip
"""Columns of a table that names none."""
NEEDED = COLUMNS[:6]
"""Columns that every table has."""
DEAD_OF = "pyrmq.dead-of"
"""Property of a table of bodies that do not fit: the table whose bodies it has."""
DEAD_WISH = "the job of that table writes it (--on-error dlq); name another one"
"""What to do instead of writing into it."""
FIELD_ID = b"PARQUET:field_id"
"""Key of the metadata of a pyarrow.Field that has Iceberg's id."""
ORDER = ("brokerName", "queueId", "queueOffset")
"""How the rows of a file are sorted."""
PARTITIONS = {"day": ("storeTimestamp", "day"), "queue": ("queueId", "identity"),
              "broker": ("brokerName", "identity"), "hour": ("storeTimestamp", "hour")}  # fmt: skip
"""Word of `--partition`: column and transform. A day is that of the store time, in UTC."""


def columns_of(names: Sequence[str] = ()) -> tuple[str, ...]:
    """The message columns of a table; `NEEDED` come first if they are not named."""
    known = [name for name, _ in scan_columns()]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise TableSchemaError(
            f"no such columns: {', '.join(unknown)}", f"there are {', '.join(known)}"
        )
    if not names:
        return COLUMNS
    return (*(name for name in NEEDED if name not in names), *dict.fromkeys(names))


def message_schema(columns: Sequence[str] = COLUMNS) -> Any:
    """These columns as the pyarrow.Schema in which `pyrmq.scan` gives them."""
    return ReadOptions(columns=tuple(columns)).schema()


def parse_partition(text: str) -> tuple[str, ...]:
    """The words of `--partition`: `none`, or a comma list of those in PARTITIONS."""
    words = tuple(word.strip() for word in text.split(","))
    if words == ("none",):
        return ()
    wrong = [word for word in words if word not in PARTITIONS]
    if wrong or len(set(words)) < len(words) or {"day", "hour"} <= set(words):
        raise TableSchemaError(
            f"{text!r} is no partition", f"expected none, or some of {', '.join(PARTITIONS)}"
        )
    return words


def iceberg_schema(schema: Any) -> Any:
    """A pyarrow.Schema as Iceberg's for a new table, with field ids from 1. TableSchemaError for a
    type that Iceberg does not have."""
    need("pyiceberg", "a table")
    import pyarrow
    from pyiceberg.io.pyarrow import UnsupportedPyArrowTypeException, pyarrow_to_schema

    last = len(schema)

    def fresh(*path: str) -> int:
        nonlocal last
        last += 1
        return last

    tops = iter(range(1, last + 1))
    numbered = [_with_id(field, next(tops), fresh, (field.name,)) for field in schema]
    try:
        return pyarrow_to_schema(pyarrow.schema(numbered))
    except (UnsupportedPyArrowTypeException, TypeError, ValueError) as error:
        raise TableSchemaError(
            f"a column has a type that Iceberg does not have: {error}", "cast it to another type"
        ) from None


def partition_spec(words: Sequence[str], schema: Any) -> Any:
    """Iceberg's PartitionSpec for words of `parse_partition` and a schema of `iceberg_schema`."""
    need("pyiceberg", "a table")
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.transforms import parse_transform

    fields = []
    for at, word in enumerate(words):
        column, transform = PARTITIONS[word]
        name = column if transform == "identity" else f"{column}_{transform}"
        source = schema.find_field(column).field_id
        fields.append(PartitionField(source, 1000 + at, parse_transform(transform), name))
    return PartitionSpec(*fields)


def sort_order(schema: Any) -> Any:
    """Iceberg's SortOrder: by broker, queue and offset."""
    from pyiceberg.table.sorting import SortField, SortOrder
    from pyiceberg.transforms import IdentityTransform

    ids = [schema.find_field(name).field_id for name in ORDER]
    return SortOrder(*(SortField(one, IdentityTransform()) for one in ids))


def file_schema(table: Any, schema: Any) -> Any:
    """A pyarrow.Schema with the field ids of a table's columns of these names, for its files."""
    import pyarrow

    ids = table.schema()
    fields = [
        _with_id(
            field,
            ids.find_field(field.name).field_id,
            lambda *path: ids.find_field(".".join(path)).field_id,
            (field.name,),
        )
        for field in schema
    ]
    return pyarrow.schema(fields)


def check_topic(table: Any, topic: str) -> None:
    """TableSchemaError unless a table is one of pyrmq, of this topic."""
    name = ".".join(table.name())
    said = table.properties.get(TOPIC)
    if said is None:
        raise TableSchemaError(
            f"table {name} was not made by pyrmq", "choose another name: a new table is made"
        )
    if said != topic:
        raise TableSchemaError(
            f"table {name} is of topic {said}, not of {topic}", "a table has one topic"
        )


def check_alive(table: Any, wish: str) -> None:
    """TableSchemaError for a table of bodies that do not fit: it has only some of the messages."""
    of = table.properties.get(DEAD_OF)
    if of is not None:
        raise TableSchemaError(
            f"table {'.'.join(table.name())} has only the messages whose bodies do not fit {of}",
            wish,
        )


def check(table: Any, topic: str, schema: Any) -> None:
    """TableSchemaError unless a table is one of pyrmq, of this topic, and has the columns of a
    pyarrow.Schema with their types. It may have more columns: they are null in new rows."""
    check_topic(table, topic)
    name = ".".join(table.name())
    there = {field.name: field for field in table.schema().fields}
    wanted = iceberg_schema(schema)
    missing = [field.name for field in wanted.fields if field.name not in there]
    if missing:
        raise TableSchemaError(
            f"table {name} has no columns {', '.join(missing)}",
            "write the columns that it has (--columns), or another table",
        )
    for field in wanted.fields:
        old = there[field.name]
        if _shape(old.field_type) != _shape(field.field_type):
            raise TableSchemaError(
                f"column {field.name} of table {name} is {old.field_type}, not {field.field_type}",
                "write another table",
            )
    given = {field.name for field in wanted.fields}
    needed = [one.name for one in there.values() if one.required and one.name not in given]
    if needed:
        raise TableSchemaError(
            f"table {name} requires values in {', '.join(needed)}", "make these columns optional"
        )


def _shape(kind: Any) -> str:
    """A type without its field ids."""
    if kind.is_struct:
        inner = ",".join(f"{one.name}:{_shape(one.field_type)}" for one in kind.fields)
        return f"struct<{inner}>"
    if hasattr(kind, "key_type"):
        return f"map<{_shape(kind.key_type)},{_shape(kind.value_type)}>"
    if hasattr(kind, "element_type"):
        return f"list<{_shape(kind.element_type)}>"
    return str(kind)


def _with_id(field: Any, number: int, inner: Callable[..., int], path: tuple[str, ...]) -> Any:
    """A pyarrow.Field with its id and those of what is inside; `inner(*path)` says the latter."""
    kind = _typed(field.type, inner, path)
    return field.with_type(kind).with_metadata({FIELD_ID: str(number)})


def _typed(kind: Any, inner: Callable[..., int], path: tuple[str, ...]) -> Any:
    import pyarrow

    if pyarrow.types.is_map(kind):
        parts = []
        for part, name in ((kind.key_field, "key"), (kind.item_field, "value")):
            at = (*path, name)
            parts.append(_with_id(part.with_name(name), inner(*at), inner, at))
        return pyarrow.map_(*parts)
    if pyarrow.types.is_list(kind) or pyarrow.types.is_large_list(kind):
        at = (*path, "element")
        value = _with_id(kind.value_field.with_name("element"), inner(*at), inner, at)
        return (
            pyarrow.large_list(value) if pyarrow.types.is_large_list(kind) else pyarrow.list_(value)
        )
    if pyarrow.types.is_struct(kind):
        fields = []
        for one in kind:
            at = (*path, one.name)
            fields.append(_with_id(one, inner(*at), inner, at))
        return pyarrow.struct(fields)
    return kind
