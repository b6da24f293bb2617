"""The file of a mixed load: producers and consumers, as TOML.

[[producer]]
topic = "Orders"          # default: that of --topic
kind = "send"             # send, batch, oneway, transaction
connections = 2
in_flight = 16
rate = 5000               # messages/s; without it a closed loop
size = "200-2000"
tags = { created = 7, paid = 3 }
properties = { region = "eu" }

[[consumer]]
topic = "Orders"
connections = 1
group = "billing"
kind = "push"             # push, pull, pop
tags = "paid"             # or: sql = "region = 'eu'"
"""

from __future__ import annotations

import tomllib
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pyrmq.bench.bodies import MOST_ALL, sizes
from pyrmq.bench.loads import Role, consumer, producer
from pyrmq.bench.options import OptionError, Options, check_property, check_tag
from pyrmq.bench.where import Places
from pyrmq.escape import escape
from pyrmq.model.names import check_consumer_group, check_topic

MOST_BYTES = 1 << 20
MOST_TABLES = 1000
KINDS = ("send", "batch", "oneway", "transaction")
_PRODUCER: dict[str, type | tuple[type, ...]] = {
    "topic": str,
    "topics": int,
    "kind": str,
    "connections": int,
    "in_flight": int,
    "rate": (int, float),
    "size": (str, int),
    "batch": int,
    "tags": dict,
    "keys": int,
    "properties": dict,
    "group": str,
    "compression": str,
    "flush_wait": bool,
    "oneway_end": bool,
}
_CONSUMER: dict[str, type | tuple[type, ...]] = {
    "topic": str,
    "topics": int,
    "kind": str,
    "connections": int,
    "in_flight": int,
    "group": str,
    "tags": str,
    "sql": str,
    "max_msgs": int,
    "from_start": bool,
}


@dataclass(slots=True)
class Mixed:
    producers: list[dict[str, Any]] = field(default_factory=list)
    consumers: list[dict[str, Any]] = field(default_factory=list)
    default: str = "PyrmqBench"
    many: int = 1
    where: str = ""
    """The file's name, for errors."""

    @classmethod
    def read(cls, path: Path, default: str, many: int = 1) -> Mixed:
        """`default`: the topic of a table that names none; `many`: how many topics one stands for
        that does not say it. OptionError says where it is wrong."""
        where = escape(str(path))
        if path.stat().st_size > MOST_BYTES:
            raise OptionError(f"{where}: more than {MOST_BYTES} bytes")
        try:
            value = tomllib.loads(path.read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as e:
            raise OptionError(f"{where}: no TOML: {escape(str(e))}") from None
        if unknown := value.keys() - {"producer", "consumer"}:
            raise OptionError(
                f"{where}: {escape(sorted(unknown)[0])} is unknown: [[producer]] and [[consumer]]"
            )
        made = cls(
            _tables(value.get("producer", []), _PRODUCER, f"{where}: producer"),
            _tables(value.get("consumer", []), _CONSUMER, f"{where}: consumer"),
            default,
            many,
            where,
        )
        if not made.producers and not made.consumers:
            raise OptionError(f"{where}: it has neither a [[producer]] nor a [[consumer]]")
        return made

    def content(self) -> dict[str, Any]:
        """All that the file says, as JSON has it."""
        producers = [dict(table) for table in self.producers]
        for table in producers:
            if "properties" in table:
                table["properties"] = {k: str(v) for k, v in table["properties"].items()}
        return {"producer": producers, "consumer": [dict(table) for table in self.consumers]}

    def topics(self) -> list[str]:
        found: dict[str, None] = {}
        for table in (*self.producers, *self.consumers):
            found.update(dict.fromkeys(self._topics(table)))
        return list(found)

    def popped(self, options: Options) -> list[tuple[str, str]]:
        """Group and topic of each consumer that pops."""
        return [
            (table.get("group", options.group), topic)
            for table in self.consumers
            if table.get("kind") == "pop"
            for topic in self._topics(table)
        ]

    def _topics(self, table: dict[str, Any]) -> list[str]:
        name, many = table.get("topic", self.default), table.get("topics", self.many)
        return [name] if many == 1 else [f"{name}-{n}" for n in range(many)]

    def check(self, options: Options) -> None:
        """OptionError if a table, with the command line's options, is out of bounds, or --verify
        could not tell what became of a message."""
        for name, tables in (("producer", self.producers), ("consumer", self.consumers)):
            for n, table in enumerate(tables, 1):
                place = f"{self.where}: {name} {n}"
                try:
                    own = self._producer(options, table) if name == "producer" else None
                    (own or self._consumer(options, table)).check_numbers()
                    if own is not None and not own.payload_files:
                        sizes(own.size)
                except OptionError as e:
                    raise OptionError(f"{place}: {e}") from None
                if table.get("tags") and table.get("sql"):
                    raise OptionError(f"{place}: give tags or sql, not both")
        if options.embedded and not self.producers:
            raise OptionError(
                f"{self.where}: --embedded begins without messages: add a [[producer]]"
            )
        if options.verify:
            self._check_verify()

    def _check_verify(self) -> None:
        received = Counter(topic for table in self.consumers for topic in self._topics(table))
        for topic in dict.fromkeys(t for table in self.producers for t in self._topics(table)):
            if received[topic] != 1:
                raise OptionError(
                    f"{self.where}: --verify needs one [[consumer]] of topic {escape(topic)}, "
                    f"which receives each message once; there are {received[topic]}"
                )
        for n, table in enumerate(self.consumers, 1):
            if table.get("sql") or table.get("tags", "*") != "*":
                raise OptionError(
                    f"{self.where}: consumer {n}: --verify does not go with tags or sql, which "
                    "leave messages out"
                )
            if table.get("kind", "push") == "pull":
                raise OptionError(
                    f"{self.where}: consumer {n}: --verify needs kind push or pop; pull reads all "
                    "again and again"
                )

    def _producer(self, options: Options, table: dict[str, Any]) -> Options:
        own = _with(options, table)
        own.load = table.get("kind", "send")
        own.rate = table.get("rate", options.rate)
        if "tags" in table:
            own.tags = [(k, float(v)) for k, v in table["tags"].items()]
        if "properties" in table:
            own.properties = [(k, str(v)) for k, v in table["properties"].items()]
        own.size = str(table.get("size", options.size))
        return own

    def _consumer(self, options: Options, table: dict[str, Any]) -> Options:
        own = _with(options, table)
        own.load = table.get("kind", "push")
        own.connections = table.get("connections", 1)
        own.subscription = table.get("tags", "*")
        return own

    def roles(
        self, options: Options, places: Places, files: list[bytes] | None = None
    ) -> list[Role]:
        """With the command line's options where the file says nothing. OptionError if their bodies
        are more than is kept. `files`: see `producer`."""
        found = []
        kept = 0
        for table in self.producers:
            own = self._producer(options, table)
            found.append(producer(own, places, self._topics(table), files))
            kept += sum(map(len, found[-1]["payloads"]))
            if kept > MOST_ALL:
                raise OptionError(f"{self.where}: bodies of more than {MOST_ALL >> 20} MiB in all")
        for table in self.consumers:
            own = self._consumer(options, table)
            found.append(consumer(own, places, self._topics(table), own.connections))
        return found


_PLAIN = {"connections", "in_flight", "batch", "keys", "group", "compression", "flush_wait"}
_PLAIN |= {"sql", "max_msgs", "from_start", "oneway_end"}


def _with(options: Options, table: dict[str, Any]) -> Options:
    own = replace(options, **{k: v for k, v in table.items() if k in _PLAIN})
    own.topics = table.get("topics", options.topics)
    own.payload_files = [] if "size" in table else options.payload_files
    return own


def _tables(
    value: Any, known: dict[str, type | tuple[type, ...]], where: str
) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise OptionError(f"{where}: write it as [[…]], once for each")
    if len(value) > MOST_TABLES:
        raise OptionError(f"{where}: {len(value)} tables: {MOST_TABLES} at most")
    for n, table in enumerate(value, 1):
        for key, one in table.items():
            place = f"{where} {n}: {escape(key)}"
            if key not in known:
                raise OptionError(f"{place} is unknown: {', '.join(known)}")
            kind = known[key]
            if not isinstance(one, kind) or (isinstance(one, bool) and kind is not bool):
                raise OptionError(f"{place}: {type(one).__name__} is the wrong type")
            if isinstance(one, int | float) and not isinstance(one, bool) and not one > 0:
                raise OptionError(f"{place} must be above 0")
        kinds = KINDS if known is _PRODUCER else ("push", "pull", "pop")
        if table.get("kind", kinds[0]) not in kinds:
            raise OptionError(f"{where} {n}: kind is one of {', '.join(kinds)}")
        if table.get("compression", "none") not in ("none", "zlib"):
            raise OptionError(f"{where} {n}: compression is none or zlib")
        for key, other in (("in_flight", "push"), ("from_start", "pull")):
            if known is _CONSUMER and key in table and table.get("kind", "push") == other:
                raise OptionError(f"{where} {n}: {key} is not for kind {other}")
        if "oneway_end" in table and table.get("kind", "send") != "transaction":
            raise OptionError(f"{where} {n}: oneway_end is for kind transaction")
        if known is _PRODUCER:
            _check_texts(table, f"{where} {n}")
        if "topic" in table:
            check_topic(table["topic"])
        if "group" in table:
            check_consumer_group(table["group"])
    return value


def _check_texts(table: dict[str, Any], place: str) -> None:
    try:
        for name, weight in table.get("tags", {}).items():
            if isinstance(weight, bool) or not isinstance(weight, int | float) or not weight > 0:
                raise OptionError(f"the weight of tag {escape(name)} must be above 0")
            check_tag(name, weight)
        for name, text in table.get("properties", {}).items():
            if isinstance(text, dict | list):
                raise OptionError(f"property {escape(name)}: a text or a number expected")
            check_property(name, str(text))
    except OptionError as e:
        raise OptionError(f"{place}: {e}") from None
