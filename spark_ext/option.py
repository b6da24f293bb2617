"""One option of the data source: its name, its rule, its default, where it is allowed.

The table of options (`spark_ext.option_table`) is made of these. Parsers
take the text that Spark hands over and raise ValueError, whose text continues "option NAME".
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

MAX_JSON = 4 << 20
"""Most characters of an option that holds JSON."""


class Query(Enum):
    """The kind of query that options are checked for; messages use the value."""

    BATCH = "a batch read of segments"
    STREAM = "a streaming read of segments"
    BROKER_BATCH = "a batch read through a broker"
    BROKER_STREAM = "a streaming read through a broker"
    WRITE = "a batch write"
    WRITE_STREAM = "a streaming write"


FILES = frozenset({Query.BATCH, Query.STREAM})
BROKER = frozenset({Query.BROKER_BATCH, Query.BROKER_STREAM})
READS = FILES | BROKER
BATCHES = frozenset({Query.BATCH, Query.BROKER_BATCH})
STREAMS = frozenset({Query.STREAM, Query.BROKER_STREAM})
WRITES = frozenset({Query.WRITE, Query.WRITE_STREAM})


@dataclass(frozen=True)
class Option:
    """One row of the table. `default` is the text that a user would give; None: not set."""

    name: str
    parse: Callable[[str], Any]
    where: frozenset[Query]
    default: str | None
    doc: str
    """One sentence or two for docs/spark.md and for messages, in Markdown."""
    stream_default: str | None = None
    """Default in streaming queries where it is another one."""
    parameter: str | None = None
    """The parameter of `pyrmq.segments` that the option sets."""
    required: frozenset[Query] = frozenset()
    """Kinds of query that need the option."""
    group: str | None = None
    """Of the options of one group a query takes one."""
    selects: bool = False
    """Whether the option selects messages: it leaves some out, or adds topics."""
    pyspark: tuple[int, int] | None = None
    """The first version of PySpark that can serve the option; None: every supported one."""

    def default_for(self, query: Query | None) -> str | None:
        streaming = query in STREAMS or query is Query.WRITE_STREAM
        return self.stream_default if streaming and self.stream_default else self.default


def text(value: str) -> str:
    """Any text that is not empty."""
    if not value.strip():
        raise ValueError("is empty")
    return value.strip()


def boolean(value: str) -> bool:
    """`true` or `false`, in any case."""
    word = value.strip().lower()
    if word not in ("true", "false"):
        raise ValueError(f"must be true or false, not {value!r}")
    return word == "true"


def integer(low: int, high: int = 2**63 - 1) -> Callable[[str], int]:
    """A parser of whole numbers in [low, high]."""

    def parse(value: str) -> int:
        if not re.fullmatch(r"[+-]?[0-9]{1,19}", value.strip()):
            raise ValueError(f"must be a whole number, not {value!r}")
        number = int(value)
        if not low <= number <= high:
            above = "" if high == 2**63 - 1 else f" to {high}"
            raise ValueError(f"must be {low}{above or ' or more'}, not {number}")
        return number

    return parse


def size(low: int, high: int = 2**50) -> Callable[[str], int]:
    """A parser of sizes in bytes, with k, m or g behind the number (1024 each)."""

    def parse(value: str) -> int:
        found = re.fullmatch(r"([0-9]{1,19})\s*([kmgt]?)(i?b)?", value.strip().lower())
        if found is None:
            raise ValueError(f"must be a size such as 67108864, 64m or 1g, not {value!r}")
        number = int(found[1]) << {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}[found[2]]
        if not low <= number <= high:
            raise ValueError(f"must be {low} to {high} bytes, not {number}")
        return number

    return parse


def choice(*words: str) -> Callable[[str], str]:
    """A parser of one of some words, in any case."""

    def parse(value: str) -> str:
        word = value.strip().lower()
        if word not in words:
            raise ValueError(f"must be {', '.join(words[:-1])} or {words[-1]}, not {value!r}")
        return word

    return parse


def names(value: str) -> tuple[str, ...]:
    """Names separated by commas, none empty, none twice."""
    out = tuple(part.strip() for part in value.split(","))
    if not all(out):
        raise ValueError(f"must be names with commas between them, not {value!r}")
    twice = sorted({name for name in out if out.count(name) > 1})
    if twice:
        raise ValueError(f"names {twice[0]} twice")
    return out


def json_object(value: str) -> dict[str, Any]:
    """A JSON object without duplicate keys."""
    if len(value) > MAX_JSON:
        raise ValueError(f"has {len(value)} characters, the most is {MAX_JSON}")
    try:
        found = json.loads(value, object_pairs_hook=_no_key_twice)
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise ValueError(
            f"is not valid JSON: {error.msg} at character {error.pos}, near "
            f"{value[max(0, error.pos - 12) : error.pos + 12]!r}"
        ) from None
    if not isinstance(found, dict):
        raise ValueError('must be a JSON object, in braces: {"name": ...}')
    return found


def _no_key_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, value in pairs:
        if key in out:
            raise ValueError(f"has the key {key!r} twice")
        out[key] = value
    return out


def paths(value: str) -> tuple[str, ...]:
    """Spark passes `load([a, b])` as a JSON list."""
    found = json_object(f'{{"paths": {value}}}')["paths"]
    if not isinstance(found, list) or not found or not all(isinstance(p, str) for p in found):
        raise ValueError('must be a JSON list of paths: ["/a", "/b"]')
    return tuple(text(path) for path in found)


def pattern(value: str) -> str:
    try:
        re.compile(value)
    except re.error as error:
        raise ValueError(f"is not a regular expression: {error}") from None
    return text(value)


def storage(value: str) -> dict[str, Any]:
    """Errors never quote it, because it may contain secrets."""
    try:
        return json_object(value)
    except ValueError:
        raise ValueError("must be a JSON object") from None
