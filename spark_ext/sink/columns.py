"""The columns of rows that are written, and the check of a frame's schema against them."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyrmq.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


@dataclass(frozen=True)
class Column:
    """One column of rows that are written. `types`: those of Spark's DDL that are taken."""

    types: tuple[str, ...]
    doc: str
    """For docs/spark.md, in Markdown."""


COLUMNS: dict[str, Column] = {
    "body": Column(
        ("binary", "string"), "the message; the only required column, never null or empty"
    ),
    "topic": Column(
        ("string",),
        "topic of the row; option `topic` has precedence; without the option every row needs it",
    ),
    "tags": Column(("string",), "one tag"),
    "keys": Column(("string",), "keys, separated by blanks"),
    "properties": Column(
        ("map<string,string>",),
        "user properties; pairs with a null or empty value are dropped",
    ),
    "shardingKey": Column(
        ("string",),
        "rows with the same key go to one queue, in order (see below); stored as `__SHARDINGKEY`",
    ),
    "brokerName": Column(("string",), "the target broker; has precedence over the sharding key"),
    "queueId": Column(("int", "bigint"), "the target queue; has precedence over the sharding key"),
    "delayTimeLevel": Column(
        ("int", "bigint"),
        "delay level, 1 to 18 (`messageDelayLevel` of the broker); null or 0: none",
    ),
    "flag": Column(("int", "bigint"), "flag of the message; default 0"),
}
"""All of them; the engine's list is native/src/arrow/send_rows.rs."""


def check(schema: StructType, topic: str | None) -> None:
    """ConfigError unless rows of this schema can be messages. `topic`: the option."""
    by_fold = {name.lower(): name for name in COLUMNS}
    seen: set[str] = set()
    for field in schema.fields:
        name = by_fold.get(field.name.lower())
        if name is None:
            raise ConfigError(f"column {field.name!r} cannot be written{_near(field.name)}")
        if name in seen:
            raise ConfigError(f"there are two columns {name}")
        seen.add(name)
        kind = field.dataType.simpleString()
        if kind not in COLUMNS[name].types:
            wanted = " or ".join(COLUMNS[name].types)
            raise ConfigError(f"column {field.name} is {kind}, it has to be {wanted}: cast it")
    if "body" not in seen:
        raise ConfigError(f"there is no column body, which every message needs; {_known()}")
    if topic is None and "topic" not in seen:
        raise ConfigError("messages need a topic: set option topic, or add a column topic")


def _near(name: str) -> str:
    by_fold = {known.lower(): known for known in COLUMNS}
    near = difflib.get_close_matches(name.lower(), by_fold, 1, 0.5)
    hint = f": did you mean {by_fold[near[0]]}? " if near else ": leave it out, or rename it; "
    return hint + _known()


def _known() -> str:
    each = ", ".join(f"{name} ({' or '.join(c.types)})" for name, c in COLUMNS.items())
    return f"columns of a message are {each}"
