"""Columns and Spark's types for them, and the check of a user's schema: the engine has the rules.

Since 4.2 Spark wants each Arrow batch to have exactly the schema of the query, field by field and
in its order; before, it reads swapped columns without a word. So a schema is either exactly one of
ours or an error; only the case of its names is the user's, and batches get it back. Spark prunes no
columns for a Python source: what the schema names is what is built.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyrmq.engine import scan_columns, scan_schema

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql.types import StructType

    from spark_ext.options import Options

COLUMNS: dict[str, str] = dict(scan_columns())
"""All columns and their types, in the words of Spark's DDL."""

WITH_PROPERTIES = tuple(COLUMNS)[:12]
"""Columns of a query that names none, but a form of properties."""
DEFAULT = tuple(name for name in WITH_PROPERTIES if name != "properties")
"""Columns of a query that names none; the rest only when asked for."""
_OWN = {name.lower(): name for name in COLUMNS}


def spark_schema(columns: Sequence[str], properties: str) -> StructType:
    """The schema of these columns; `properties` is that option: map, json, raw or none."""
    return _struct(scan_schema({"columns": ",".join(columns), "properties": properties})[2])


def form_of(options: Options) -> str:
    """The form of the column `properties`. Where no option says one, its name alone asks for a
    map, and without its name it is not built."""
    return _found(options)[1]


def of_options(options: Options) -> StructType:
    """The schema of a query whose user gave none. Raises ConfigError for an unknown column."""
    return _struct(_found(options)[2])


def check(given: StructType, options: Options) -> None:
    """Raises ConfigError unless the schema holds columns of ours with exactly our types."""
    _found(options, given.json())


def column_names(schema: StructType) -> tuple[str, ...]:
    """Our names of the columns of a schema that was checked, in its order."""
    return tuple(_OWN[field.name.lower()] for field in schema.fields)


def as_given(batches: Iterator[RecordBatch], schema: StructType) -> Iterator[RecordBatch]:
    """Batches of these columns with the names that the schema has."""
    names = [field.name for field in schema.fields]
    if tuple(names) == column_names(schema):
        return batches
    return (as_named(batch, names) for batch in batches)


def as_named(batch: RecordBatch, names: list[str]) -> RecordBatch:
    """A batch with these names of columns."""
    return batch if batch.schema.names == names else batch.rename_columns(names)


def _found(options: Options, schema: str | None = None) -> tuple[tuple[str, ...], str, str]:
    return scan_schema(options.text, options.query and options.query.value, schema)


def _struct(schema: str) -> StructType:
    from pyspark.sql.types import StructType

    return StructType.fromJson(json.loads(schema))
