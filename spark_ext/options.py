"""The options of one query, checked against the table.

Names of options that Kafka's source and RocketMQ's clients have are told which of ours is meant.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Any

from pyrmq.errors import ConfigError
from pyrmq.segments.offsets import EARLIEST, LATEST
from pyrmq.segments.selection import names_offset
from spark_ext.option import BATCHES, STREAMS, Option, Query
from spark_ext.option_names import option_names
from spark_ext.option_table import GROUPS, OPTIONS, TABLE

_NAME_SERVERS = "nameServer (name servers, host:9876;host:9876)"
_NO_GROUP = (
    "reads have no group: they commit no offsets, and Spark's checkpoint keeps the position; "
    "leave it out"
)

_MEANT: dict[str, str] = {
    "kafkabootstrapservers": f"{_NAME_SERVERS}, not brokers",
    "bootstrapservers": f"{_NAME_SERVERS}, not brokers",
    "brokers": f"{_NAME_SERVERS}, not brokers",
    "namesrvaddr": _NAME_SERVERS,
    "namesrv": _NAME_SERVERS,
    "namesrvaddress": _NAME_SERVERS,
    "namesrvaddrs": _NAME_SERVERS,
    "nameserveraddr": _NAME_SERVERS,
    "nameserveraddress": _NAME_SERVERS,
    "nameserveraddresses": _NAME_SERVERS,
    "rocketmqnameserver": _NAME_SERVERS,
    "rocketmqnamesrvaddr": _NAME_SERVERS,
    "rocketmqconfignamesrvaddr": _NAME_SERVERS,
    "endpoints": _NAME_SERVERS,
    "topics": "subscribe",
    "topicpattern": "subscribePattern",
    "topicspattern": "subscribePattern",
    "tag": "subExpression",
    "tags": "subExpression",
    "filterexpression": "subExpression",
    "queues": "assign",
    "consumefromwhere": "startingOffsets (earliest or latest) or startingTimestamp",
    "autooffsetreset": "startingOffsets (earliest or latest)",
    "kafkaautooffsetreset": "startingOffsets (earliest or latest)",
    "consumetimestamp": "startingTimestamp",
    "starttime": "startingTimestamp",
    "endtime": "endingTimestamp",
    "starttimestamp": "startingTimestamp",
    "endtimestamp": "endingTimestamp",
    "offsets": "startingOffsets",
    "maxpollrecords": "pullBatchSize, or maxOffsetsPerTrigger for a stream",
    "kafkamaxpollrecords": "pullBatchSize, or maxOffsetsPerTrigger for a stream",
    "kafkaconsumerpolltimeoutms": "pullTimeoutMs",
    "consumerpulltimeoutmillis": "pullTimeoutMs",
    "maxfilespertrigger": "maxOffsetsPerTrigger or maxBytesPerTrigger",
    "timeout": "pullTimeoutMs for reads, sendMsgTimeout for writes",
}
"""By name without case and separators."""

_SAID: dict[str, str] = {
    **dict.fromkeys(
        ("group", "groupid", "groupidprefix", "kafkagroupid", "consumergroup", "groupname"),
        _NO_GROUP,
    ),
    "checkpointlocation": "it belongs to writeStream, not to the source: "
    ".writeStream.option('checkpointLocation', ...)",
    "maxrecordsperbatch": "batchRows bounds Arrow batches, maxOffsetsPerTrigger micro-batches",
}


def plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def hint(name: str, usable: Iterable[str], every: Iterable[str]) -> str | None:
    """What to say of a name that is no option: which one is meant, by the names that others have
    for it or by the nearest one, first of those that are `usable`. None: nothing is near."""
    key = plain(name)
    if key in _SAID:
        return _SAID[key]
    if key in _MEANT:
        return f"did you mean {_MEANT[key]}?"
    if key.startswith("kafka"):
        return "options of Kafka's client are not known here"
    for candidates in (usable, every):
        near = difflib.get_close_matches(key, by_plain := _by_plain(candidates), n=1, cutoff=0.6)
        if near:
            return f"did you mean {by_plain[near[0]]}?"
    return None


def _by_plain(names: Iterable[str]) -> dict[str, str]:
    return {plain(name): name for name in names}


_SPARKS_OWN: dict[Query | None, set[str]] = {
    Query.WRITE_STREAM: {"checkpointlocation", "queryname", "path"}
}
"""Keys that Spark itself puts among the options of a query."""


_ALIASES = {"location": "path"}
"""Other names: what tables of SQL call their path."""


class Options:
    """Checked options of one query: values by name, defaults filled in. Picklable."""

    def __init__(self, given: Mapping[str, str], query: Query | None) -> None:
        """Raises ConfigError, whose text names the option and the allowed values.

        query: None while Spark does not say what the query will be (it asks for the schema first).
        Then names and values are checked, but not the rules of one kind of query.
        """
        self.query = query
        self.values: dict[str, Any] = {}
        """By name, of all options that this query takes; None: not set and without a default."""
        self._given: frozenset[str] = frozenset()
        check_cases(given)
        seen: set[str] = set()
        for key, value in given.items():
            if key.lower() in _SPARKS_OWN.get(query, ()):
                continue
            option = TABLE.get(_plain(key))
            if option is None:
                raise ConfigError(_unknown(key, query))
            if query is not None and query not in option.where:
                raise ConfigError(_misplaced(option, query))
            seen.add(option.name)
            self.values[option.name] = _parse(option, value)
        self._given = frozenset(seen)
        self._check_exclusive()
        for option in OPTIONS:
            if query in option.required and option.name not in seen:
                raise ConfigError(f"{_kind(query)} needs option {option.name}: {option.doc}")
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
        self._check_pace()
        if self.values.get("includeHeaders") is not None:
            self.values["properties"] = "map" if self.values["includeHeaders"] else "none"

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def of_all(self) -> dict[str, Any]:
        """Values of all options; one that this query does not take has its default."""
        return DEFAULTS | self.values

    def is_set(self, name: str) -> bool:
        """Whether the user gave the option."""
        return name in self._given

    def needs_pyspark(self, version: tuple[int, int]) -> None:
        """Raises ConfigError for a given option that this version of PySpark cannot support."""
        for name in sorted(self._given):
            needed = TABLE[name.lower()].pyspark
            if needed is not None and version < needed:
                raise ConfigError(
                    f"option {name} needs PySpark {needed[0]}.{needed[1]} or later: this one does "
                    "not say where a micro-batch starts; leave it out, or use a newer PySpark"
                )

    def _check_pace(self) -> None:
        least, most = (
            self.values.get(f"{side}OffsetsPerTrigger") if self.query in STREAMS else None
            for side in ("min", "max")
        )
        if least is not None and most is not None and least > most:
            raise ConfigError(
                f"option minOffsetsPerTrigger is {least}, but maxOffsetsPerTrigger {most}: a "
                "micro-batch cannot have both"
            )
        if self.is_set("maxTriggerDelay") and least is None and self.query is not None:
            raise ConfigError(
                "option maxTriggerDelay bounds how long minOffsetsPerTrigger waits: give that too"
            )

    def _check_exclusive(self) -> None:
        for group in GROUPS.values():
            both = [name for name in group if name in self._given]
            if len(both) > 1:
                raise ConfigError(
                    f"options {' and '.join(both)} exclude each other: give one of "
                    f"{', '.join(group)}"
                )


def check_cases(given: Mapping[str, str]) -> None:
    """ConfigError for an option that is there twice, in different case or as `location`, and with
    other values. Spark itself keeps the last one of them, so only what comes past it can be
    checked."""
    seen: dict[str, str] = {}
    for key in given:
        first = seen.setdefault(_plain(key), key)
        if given[first] != given[key]:
            raise ConfigError(
                f"option {first} is given twice, once as {key} and with another value: both names "
                "mean the same; leave one out"
            )


def _plain(key: str) -> str:
    """The name by which TABLE has an option."""
    return _ALIASES.get(key.lower(), key.lower())


def _parse(option: Option, value: str) -> Any:
    try:
        with option_names():
            return option.parse(value)
    except ValueError as error:
        raise ConfigError(f"option {option.name} {error}") from None


def _unknown(key: str, query: Query | None) -> str:
    """With the nearest name; first among those that this query takes."""
    usable = [o.name for o in OPTIONS if query in (None, *o.where)]
    found = hint(key, usable, [o.name for o in OPTIONS])
    if found is not None:
        return f"unknown option {key!r}: {found}"
    return f"unknown option {key!r}; options of {_kind(query)}: {', '.join(sorted(usable))}"


def _kind(query: Query | None) -> str:
    return query.value if query else "this format"


def _misplaced(option: Option, query: Query) -> str:
    places = " and ".join(sorted(place.value for place in option.where))
    return f"option {option.name} does not belong to {query.value}; it is for {places}"


DEFAULTS: dict[str, Any] = {
    option.name: None if option.default is None else _parse(option, option.default)
    for option in OPTIONS
}
"""Values of options that are not set, of batch queries."""
