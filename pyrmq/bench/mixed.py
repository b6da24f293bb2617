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
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pyrmq.bench.loads import Role, consumer, producer
from pyrmq.bench.options import OptionError, Options
from pyrmq.bench.where import Places
from pyrmq.escape import escape
from pyrmq.model.names import check_consumer_group, check_topic

MOST_BYTES = 1 << 20
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

    @classmethod
    def read(cls, path: Path, default: str) -> Mixed:
        """`default`: the topic of a table that names none. OptionError says where it is wrong."""
        where = escape(str(path))
        if path.stat().st_size > MOST_BYTES:
            raise OptionError(f"{where}: more than {MOST_BYTES} bytes")
        try:
            value = tomllib.loads(path.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as e:
            raise OptionError(f"{where}: no TOML: {escape(str(e))}") from None
        if unknown := value.keys() - {"producer", "consumer"}:
            raise OptionError(
                f"{where}: {escape(sorted(unknown)[0])} is unknown: [[producer]] and [[consumer]]"
            )
        made = cls(
            _tables(value.get("producer", []), _PRODUCER, f"{where}: producer"),
            _tables(value.get("consumer", []), _CONSUMER, f"{where}: consumer"),
            default,
        )
        if not made.producers and not made.consumers:
            raise OptionError(f"{where}: it has neither a [[producer]] nor a [[consumer]]")
        return made

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
        name, many = table.get("topic", self.default), table.get("topics", 1)
        return [name] if many == 1 else [f"{name}-{n}" for n in range(many)]

    def roles(self, options: Options, places: Places) -> list[Role]:
        """With the command line's options where the file says nothing."""
        found = []
        for table in self.producers:
            own = _with(options, table)
            own.load = table.get("kind", "send")
            own.rate = table.get("rate", options.rate)
            own.tags = [(k, float(v)) for k, v in table.get("tags", {}).items()]
            own.properties = [(k, str(v)) for k, v in table.get("properties", {}).items()]
            own.size = str(table.get("size", options.size))
            found.append(producer(own, places, self._topics(table)))
        for table in self.consumers:
            own = _with(options, table)
            own.load = table.get("kind", "push")
            own.subscription = table.get("tags", "*")
            found.append(consumer(own, places, self._topics(table), table.get("connections", 1)))
        if options.verify and any(r["subscription"] != "*" for r in found if not r["payloads"]):
            raise OptionError("--verify does not go with consumers that select by tags or SQL")
        if options.verify and not self.consumers:
            raise OptionError("--verify needs a [[consumer]] for each topic")
        return found


_PLAIN = {"connections", "in_flight", "batch", "keys", "group", "compression", "flush_wait"}
_PLAIN |= {"sql", "max_msgs", "from_start"}


def _with(options: Options, table: dict[str, Any]) -> Options:
    own = replace(options, **{k: v for k, v in table.items() if k in _PLAIN})
    own.payload_files = [] if "size" in table else options.payload_files
    return own


def _tables(
    value: Any, known: dict[str, type | tuple[type, ...]], where: str
) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise OptionError(f"{where}: write it as [[…]], once for each")
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
        for name, weight in table.get("tags", {}).items() if known is _PRODUCER else ():
            if isinstance(weight, bool) or not isinstance(weight, int | float) or not weight > 0:
                raise OptionError(f"{where} {n}: the weight of tag {escape(name)} must be above 0")
        if "topic" in table:
            check_topic(table["topic"])
        if "group" in table:
            check_consumer_group(table["group"])
        if table.get("topics", 1) > 100_000:
            raise OptionError(f"{where} {n}: at most 100,000 topics")
    return value
