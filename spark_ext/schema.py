"""Columns and Spark's types for them, and the check of a user's schema.

Since 4.2 Spark wants each Arrow batch to have exactly the schema of the query, field by field and
in its order; before, it reads swapped columns without a word. So a schema is either exactly one of
ours or an error; only the case of its names is the user's, and batches get it back. Spark prunes no
columns for a Python source: what the schema names is what is built.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyrmq.errors import ConfigError

if TYPE_CHECKING:
    from pyarrow import RecordBatch
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

WITH_PROPERTIES = tuple(COLUMNS)[:12]
"""Columns of a query that names none, but a form of properties."""
DEFAULT = tuple(name for name in WITH_PROPERTIES if name != "properties")
"""Columns of a query that names none; the rest only when asked for."""
EVERY = "*"
"""The word for all columns in option `columns`."""

_OWN = {name.lower(): name for name in COLUMNS}

_TEXT_FORMS = ("json", "raw")


def spark_schema(columns: Sequence[str], properties: str) -> StructType:
    """The schema of these columns; `properties` is that option: map, json, raw or none."""
    from pyspark.sql.types import StructField, StructType

    types = _types(properties)
    return StructType([StructField(name, types[name], True) for name in columns])


def form_of(options: Options) -> str:
    """The form of the column `properties`. Where no option says one, its name alone asks for a
    map, and without its name it is not built."""
    form: str = options["properties"]
    return form if options.is_set("properties") or options.is_set("includeHeaders") else "map"


def of_options(options: Options) -> StructType:
    """The schema of a query whose user gave none. Raises ConfigError for an unknown column."""
    form = form_of(options)
    wanted = _named(options, form)
    if wanted is None:
        wanted = DEFAULT if options["properties"] == "none" else WITH_PROPERTIES
    return spark_schema(wanted, form)


def check(given: StructType, options: Options) -> None:
    """Raises ConfigError unless the schema holds columns of ours with exactly our types."""
    form = form_of(options)
    if not given.fields:
        raise ConfigError(f"the schema has no column; {_known()}")
    wanted = _own_names([field.name for field in given.fields], "the schema", form)
    types = _types(form)
    for name, field in zip(wanted, given.fields, strict=True):
        if not field.nullable:
            raise ConfigError(f"column {name} is NOT NULL in the schema: leave that out")
        right = types[name]
        if field.dataType != right:
            raise ConfigError(
                f"column {name} is {field.dataType.simpleString()} in the schema, but must "
                f"be {right.simpleString()}{_advice(name, field.dataType)}; {_known()}"
            )
    named = _named(options, form)
    if named is not None and named != wanted:
        raise ConfigError(
            f"option columns ({', '.join(named)}) differs from the schema "
            f"({', '.join(wanted)}): give one of the two"
        )


def column_names(schema: StructType) -> tuple[str, ...]:
    """Our names of the columns of a schema that was checked, in its order."""
    return tuple(_OWN[field.name.lower()] for field in schema.fields)


def as_given(batches: Iterator[RecordBatch], schema: StructType) -> Iterator[RecordBatch]:
    """Batches of these columns with the names that the schema has."""
    names = [field.name for field in schema.fields]
    if tuple(names) == column_names(schema):
        return batches
    return (batch.rename_columns(names) for batch in batches)


def _named(options: Options, form: str) -> tuple[str, ...] | None:
    """The columns that option `columns` names; None without it."""
    given: tuple[str, ...] | None = options["columns"]
    if given is None:
        return None
    if given == (EVERY,):
        return tuple(name for name in COLUMNS if name != "properties" or form != "none")
    if EVERY in given:
        raise ConfigError(f"option columns has {EVERY} beside names: it means all, give it alone")
    return _own_names(given, "option columns", form)


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


def _own_names(given: Sequence[str], where: str, properties: str) -> tuple[str, ...]:
    """Our names for those given, which may be in any case. ConfigError for one that is unknown, or
    there twice."""
    out: list[str] = []
    for word in given:
        name = _OWN.get(word.lower())
        if name is None:
            near = difflib.get_close_matches(word.lower(), _OWN, n=1)
            meant = f" (did you mean {_OWN[near[0]]}?)" if near else ""
            raise ConfigError(f"{where} names the unknown column {word!r}{meant}; {_known()}")
        if name in out:
            raise ConfigError(f"{where} names the column {name} twice")
        out.append(name)
    if "properties" in out and properties == "none":
        raise ConfigError(
            f"{where} names the column properties, but option properties (or includeHeaders) "
            "leaves it out: take map, json or raw"
        )
    return tuple(out)


def _advice(name: str, given: DataType) -> str:
    if name != "properties":
        return ""
    if given.simpleString() == "string":
        return " (or set option properties to json or raw)"
    return " (its values may be null)" if given.simpleString() == "map<string,string>" else ""


def _known() -> str:
    listed = ", ".join(f"{name} {word}" for name, word in COLUMNS.items())
    return f"the columns are: {listed}"
