"""Columns and Spark's types for them, and the check of a user's schema.

Since 4.2 Spark wants each Arrow batch to have exactly the schema of the query, field by field and
in its order; before, it reads swapped columns without a word. So a schema is either exactly one of
ours or an error. Spark prunes no columns for a Python source: what the schema names is what is
built.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyrmq.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

    from spark_ext.options import Options

COLUMNS = {
    "topic": "string",
    "flag": "int",
    "body": "binary",
    "properties": "map<string,string>",
    "brokerName": "string",
    "queueId": "int",
    "queueOffset": "bigint",
    "bornTimestamp": "timestamp",
    "storeTimestamp": "timestamp",
    "tags": "string",
    "keys": "string",
    "commitLogOffset": "bigint",
    "bodyLength": "int",
    "sysFlag": "int",
    "storeSize": "int",
    "bodyCRC": "int",
    "reconsumeTimes": "int",
    "preparedTransactionOffset": "bigint",
    "msgId": "string",
    "transactionId": "string",
    "bornHost": "string",
    "storeHost": "string",
    "propertiesRaw": "string",
}
"""All columns and their types, in the words of Spark's DDL."""

DEFAULT = tuple(COLUMNS)[:12]
"""Columns of a query that names none; the rest only when asked for."""

_TEXT_FORMS = ("json", "raw")


def spark_schema(columns: Sequence[str], properties: str) -> StructType:
    """The schema of these columns; `properties` is that option: map, json, raw or none."""
    from pyspark.sql.types import StructField, StructType

    types = _types(properties)
    return StructType([StructField(name, types[name], True) for name in columns])


def of_options(options: Options) -> StructType:
    """The schema of a query whose user gave none. Raises ConfigError for an unknown column."""
    form: str = options["properties"]
    wanted: tuple[str, ...] | None = options["columns"]
    if wanted is None:
        wanted = tuple(name for name in DEFAULT if name != "properties" or form != "none")
    _check_names(wanted, "option columns", form)
    return spark_schema(wanted, form)


def check(given: StructType, options: Options) -> None:
    """Raises ConfigError unless the schema holds columns of ours with exactly our types."""
    form: str = options["properties"]
    wanted = column_names(given)
    if not wanted:
        raise ConfigError(f"the schema has no column; {_known()}")
    _check_names(wanted, "the schema", form)
    types = _types(form)
    for field in given.fields:
        if not field.nullable:
            raise ConfigError(f"column {field.name} is NOT NULL in the schema: leave that out")
        right = types[field.name]
        if field.dataType != right:
            raise ConfigError(
                f"column {field.name} is {field.dataType.simpleString()} in the schema, but must "
                f"be {right.simpleString()}{_advice(field.name, field.dataType)}; {_known()}"
            )
    named: tuple[str, ...] | None = options["columns"]
    if named is not None and named != wanted:
        raise ConfigError(
            f"option columns ({', '.join(named)}) differs from the schema "
            f"({', '.join(wanted)}): give one of the two"
        )


def column_names(schema: StructType) -> tuple[str, ...]:
    return tuple(field.name for field in schema.fields)


def _types(properties: str) -> dict[str, DataType]:
    from pyspark.sql.types import (
        BinaryType,
        IntegerType,
        LongType,
        MapType,
        StringType,
        TimestampType,
    )

    by_word: dict[str, DataType] = {
        "string": StringType(),
        "binary": BinaryType(),
        "int": IntegerType(),
        "bigint": LongType(),
        "timestamp": TimestampType(),
        "map<string,string>": MapType(StringType(), StringType(), True),
    }
    types = {name: by_word[word] for name, word in COLUMNS.items()}
    if properties in _TEXT_FORMS:
        types["properties"] = StringType()
    return types


def _check_names(wanted: Sequence[str], where: str, properties: str) -> None:
    lower = {name.lower(): name for name in COLUMNS}
    seen = set()
    for name in wanted:
        if name not in COLUMNS:
            near = lower.get(name.lower()) or next(
                (lower[n] for n in difflib.get_close_matches(name.lower(), lower, n=1)), None
            )
            meant = f" (did you mean {near}?)" if near else ""
            raise ConfigError(f"{where} names the unknown column {name!r}{meant}; {_known()}")
        if name in seen:
            raise ConfigError(f"{where} names the column {name} twice")
        seen.add(name)
    if "properties" in seen and properties == "none":
        raise ConfigError(
            f"{where} names the column properties, but option properties (or includeHeaders) "
            "leaves it out: take map, json or raw"
        )


def _advice(name: str, given: DataType) -> str:
    if name != "properties":
        return ""
    if given.simpleString() == "string":
        return " (or set option properties to json or raw)"
    return " (its values may be null)" if given.simpleString() == "map<string,string>" else ""


def _known() -> str:
    listed = ", ".join(f"{name} {word}" for name, word in COLUMNS.items())
    return f"the columns are: {listed}"
