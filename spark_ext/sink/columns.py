"""The columns of rows that are written, and the check of a frame's schema against them."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from pyrmq.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

COLUMNS: dict[str, tuple[str, ...]] = {
    "body": ("binary", "string"),
    "topic": ("string",),
    "tags": ("string",),
    "keys": ("string",),
    "properties": ("map<string,string>",),
    "shardingKey": ("string",),
    "brokerName": ("string",),
    "queueId": ("int", "bigint"),
    "delayTimeLevel": ("int", "bigint"),
    "flag": ("int", "bigint"),
}
"""All of them with the types that are taken; the engine's list is native/src/arrow/send_rows.rs."""


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
        if kind not in COLUMNS[name]:
            wanted = " or ".join(COLUMNS[name])
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
    each = ", ".join(f"{name} ({' or '.join(types)})" for name, types in COLUMNS.items())
    return f"columns of a message are {each}"
