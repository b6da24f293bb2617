"""The options of `format("rocketmq")`: one table, and the check of what a user gave.

Names and defaults are in the style of Spark's Kafka source and of rocketmq-spark.
Names are looked at without case, as Spark keeps them in lower case.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Any

from pyrmq.errors import ConfigError
from pyrmq.segments.offsets import EARLIEST, LATEST, QueueOffsets, parse_assign, parse_offsets
from pyrmq.segments.selection import names_offset, parse_tags
from spark_ext.broker import options as broker_options
from spark_ext.option import (
    BATCHES,
    FILES,
    READS,
    STREAMS,
    WRITES,
    Option,
    Query,
    boolean,
    choice,
    integer,
    json_object,
    names,
    size,
    text,
)


def _paths(value: str) -> tuple[str, ...]:
    """Spark hands over `load([a, b])` as a JSON list."""
    found = json_object(f'{{"paths": {value}}}')["paths"]
    if not isinstance(found, list) or not found or not all(isinstance(p, str) for p in found):
        raise ValueError('must be a JSON list of paths: ["/a", "/b"]')
    return tuple(text(path) for path in found)


def _pattern(value: str) -> str:
    try:
        re.compile(value)
    except re.error as error:
        raise ValueError(f"is not a regular expression: {error}") from None
    return text(value)


def _starting(value: str) -> str | QueueOffsets:
    return parse_offsets(value, "startingOffsets")


def _ending(value: str) -> str | QueueOffsets:
    return parse_offsets(value, "endingOffsets")


def _storage(value: str) -> dict[str, Any]:
    """Never quoted in messages: it may hold secrets."""
    try:
        return json_object(value)
    except ValueError:
        raise ValueError("must be a JSON object") from None


OPTIONS: tuple[Option, ...] = (
    Option(
        "path",
        text,
        FILES,
        None,
        "Store folder (it holds `commitlog/`), commit-log folder or segment file; local, or a URI "
        "of a file system that pyarrow or fsspec knows. What `load(p)` sets.",
    ),
    Option(
        "paths",
        _paths,
        FILES,
        None,
        "Several of them, as a JSON list: several stores are several brokers. What `load([..])` "
        "sets.",
    ),
    Option(
        "brokerName",
        names,
        FILES,
        None,
        "Broker names, one per store, with commas. Fills `brokerName` and is the key in offsets "
        "and checkpoints, so it must stay the same. Default: the name of the store's folder.",
    ),
    Option(
        "storageOptions",
        _storage,
        FILES,
        None,
        "JSON object with arguments for the file system of a remote `path` (fsspec's "
        "`storage_options`).",
    ),
    Option(
        "subscribe",
        names,
        READS,
        None,
        "Topics, with commas. At most one of subscribe, subscribePattern, assign and topic; none: "
        "all topics of users.",
    ),
    Option(
        "subscribePattern",
        _pattern,
        READS,
        None,
        "Regular expression that the whole topic name must match.",
    ),
    Option(
        "assign",
        parse_assign,
        READS,
        None,
        'Queues as JSON: `{"topic": {"broker": [0, 1]}}`.',
    ),
    Option(
        "topic",
        text,
        READS | WRITES,
        None,
        "Read: one topic, as `subscribe`. Write: the topic of all rows; wins over the column.",
    ),
    Option(
        "includeSystemTopics",
        boolean,
        READS,
        "false",
        "Whether the broker's own topics (delayed messages, halves, ops, traces, timers) belong "
        "to all topics and to patterns. A topic that is named is read in any case.",
    ),
    Option(
        "subExpression",
        parse_tags,
        READS,
        "*",
        "`*`, or tags joined by `||`. Selects before anything is decoded.",
    ),
    Option(
        "key",
        text,
        frozenset({Query.BATCH}),
        None,
        "Only messages with this key (one of `keys`, or the unique key), found through the "
        "store's index files where they are there.",
    ),
    Option(
        "startingOffsets",
        _starting,
        READS,
        "earliest",
        "`earliest`, `latest` (streams only), or JSON topic -> broker -> queue -> queue offset, "
        "with -2 for earliest and -1 for latest; queues not named start at earliest.",
        stream_default="latest",
    ),
    Option(
        "endingOffsets",
        _ending,
        BATCHES,
        "latest",
        "`latest`, or JSON as above, exclusive; -2 is not allowed.",
    ),
    Option(
        "startingTimestamp",
        integer(0),
        READS,
        None,
        "First store time, in ms. Wins over startingOffsets. Of a stream over files it says where "
        "it starts; what stands behind that is read whatever its time.",
    ),
    Option(
        "endingTimestamp",
        integer(0),
        BATCHES,
        None,
        "Store time, in ms, in front of which reading ends. Wins over endingOffsets.",
    ),
    Option(
        "startingOffsetsByTimestampStrategy",
        choice("error", "latest"),
        READS,
        "error",
        "When startingTimestamp is later than all there is: `error`, or go on from `latest`.",
    ),
    Option(
        "maxOffsetsPerTrigger",
        integer(1),
        STREAMS,
        None,
        "Most messages of a micro-batch, in log order. PySpark 4.2 and later.",
    ),
    Option(
        "maxBytesPerTrigger",
        size(1),
        frozenset({Query.STREAM}),
        "1g",
        "Most bytes of log of a micro-batch, but at least one message. PySpark 4.2 and later; "
        "there is no limit before.",
    ),
    Option(
        "splitBytes",
        size(64 << 10),
        FILES,
        "256m",
        "Bytes of log that one task reads.",
    ),
    Option(
        "minPartitions",
        integer(1, 100_000),
        READS,
        None,
        "Hint: makes splitBytes smaller, down to 16 MiB, until there are about so many tasks.",
    ),
    Option(
        "plan",
        choice("auto", "scan", "index", "file"),
        FILES,
        "auto",
        "`scan`: ranges of bytes; `index`: what the consume queues name; `file`: a task per "
        "segment. `auto`: index when the chosen queues hold less than 30 % of the bytes.",
    ),
    Option(
        "batchRows",
        integer(1, 1_000_000),
        READS,
        "10000",
        "Most rows of one Arrow batch.",
    ),
    Option(
        "batchBytes",
        size(1 << 10, 1 << 30),
        READS,
        "1m",
        "Bytes at which an Arrow batch is closed.",
    ),
    Option(
        "columns",
        names,
        READS,
        None,
        "Columns to build, with commas. `.schema(...)` does the same.",
    ),
    Option(
        "properties",
        choice("map", "json", "raw", "none"),
        READS,
        "map",
        "Form of the column `properties`: a map, a JSON object as text, the text as stored, or "
        "no such column.",
    ),
    Option(
        "includeHeaders",
        boolean,
        READS,
        None,
        "Kafka's name: true is properties=map, false is properties=none.",
    ),
    Option(
        "decompress",
        boolean,
        READS,
        "true",
        "Whether bodies that were compressed by the producer come decompressed.",
    ),
    Option(
        "verifyCrc",
        choice("none", "tail", "all"),
        FILES,
        "tail",
        "Bodies whose CRC is checked: none, that of the last record in front of the end, all.",
    ),
    Option(
        "failOnDataLoss",
        boolean,
        READS,
        "true",
        "When the place to start from is deleted already, or a segment is missing: an error, or "
        "(false) a warning, and reading goes on at the next that there is.",
    ),
    Option(
        "onCorruption",
        choice("fail", "skip"),
        FILES,
        "fail",
        "A damaged record is an error with file and offset, or is left out, counted and logged.",
    ),
    *broker_options.OPTIONS,
)

TABLE: dict[str, Option] = {option.name.lower(): option for option in OPTIONS}

_EXCLUSIVE = (
    ("path", "paths"),
    ("subscribe", "subscribePattern", "assign", "topic"),
    ("properties", "includeHeaders"),
)

_SPARKS_OWN: dict[Query | None, set[str]] = {
    Query.WRITE_STREAM: {"checkpointlocation", "queryname", "path"}
}
"""Keys that Spark itself puts among the options of a query."""


class Options:
    """Checked options of one query: values by name, defaults filled in. Picklable."""

    def __init__(self, given: Mapping[str, str], query: Query | None) -> None:
        """Raises ConfigError, whose text names the option and says what is right.

        query: None where Spark does not say yet what it will be (it asks for the schema first):
        names and values are checked, rules of one kind of query are not.
        """
        self.query = query
        self.values: dict[str, Any] = {}
        """By name, of all options that this query takes; None: not set and without a default."""
        self._given: frozenset[str] = frozenset()
        seen = set()
        for key, value in given.items():
            if key.lower() in _SPARKS_OWN.get(query, ()):
                continue
            option = TABLE.get(key.lower())
            if option is None:
                raise ConfigError(_unknown(key, query))
            if query is not None and query not in option.where:
                raise ConfigError(_misplaced(option, query))
            seen.add(option.name)
            self.values[option.name] = _parse(option, value)
        self._given = frozenset(seen)
        self._check_exclusive()
        for option in OPTIONS:
            default = option.default_for(query)
            if query in (None, *option.where) and option.name not in seen:
                self.values[option.name] = None if default is None else _parse(option, default)
        if query in BATCHES:
            starts = self.values["startingOffsets"]
            if starts == "latest" or names_offset(starts, LATEST):
                raise ConfigError(
                    "option startingOffsets cannot be latest (-1) in a batch read: nothing would "
                    "be read; give earliest or offsets"
                )
            ends = self.values["endingOffsets"]
            if ends == "earliest" or names_offset(ends, EARLIEST):
                raise ConfigError(
                    "option endingOffsets cannot be earliest (-2): give latest or offsets"
                )
        if self.values.get("includeHeaders") is not None:
            self.values["properties"] = "map" if self.values["includeHeaders"] else "none"

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def is_set(self, name: str) -> bool:
        """Whether the user gave it."""
        return name in self._given

    def _check_exclusive(self) -> None:
        for group in _EXCLUSIVE:
            both = [name for name in group if name in self._given]
            if len(both) > 1:
                raise ConfigError(
                    f"options {' and '.join(both)} exclude each other: give one of "
                    f"{', '.join(group)}"
                )


def _parse(option: Option, value: str) -> Any:
    try:
        return option.parse(value)
    except ValueError as error:
        raise ConfigError(f"option {option.name} {error}") from None


def _unknown(key: str, query: Query | None) -> str:
    """With the nearest name; first among those that this query takes."""
    usable = [o.name for o in OPTIONS if query in (None, *o.where)]
    for candidates in (usable, [o.name for o in OPTIONS]):
        lower = {name.lower(): name for name in candidates}
        near = difflib.get_close_matches(key.lower(), lower, n=1, cutoff=0.5)
        if near:
            return f"unknown option {key!r}: did you mean {lower[near[0]]}?"
    kind = query.value if query else "this format"
    return f"unknown option {key!r}; options of {kind}: {', '.join(sorted(usable))}"


def _misplaced(option: Option, query: Query) -> str:
    places = " and ".join(sorted(place.value for place in option.where))
    return f"option {option.name} does not belong to {query.value}; it is for {places}"
