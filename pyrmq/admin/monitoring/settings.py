"""The file that says when alarms are raised and where they go. Every key that is unknown, and every
invalid value, is a ConfigError that names it."""

from __future__ import annotations

import fnmatch
import math
import re
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from pyrmq.admin.expected import Expectation, parse_expected
from pyrmq.admin.link import near
from pyrmq.admin.monitoring.alarms import number
from pyrmq.admin.monitoring.metrics import METRICS, Subject, Threshold
from pyrmq.admin.monitoring.sink_settings import LogSettings, SinkSettings, TomlTable, sink_settings
from pyrmq.config import toml_file
from pyrmq.errors import ClientError, ConfigError

MAX_BYTES = 1 << 20
MAX_OVERRIDES = 1_000
MAX_SINKS = 16


DEFAULTS: dict[str, Threshold] = {
    m.name: Threshold(m.raise_at, m.clear_at, m.rounds) for m in METRICS.values()
}


@dataclass(frozen=True, slots=True)
class Rounds:
    """When is asked, and for how long. Times are seconds."""

    delay: float = 20.0
    interval: float = 60.0
    timeout: float = 50.0
    part_timeout: float = 15.0
    at_once: int = 8
    forget: float = 86_400.0
    max_alarms: int = 10_000


ROUND_DOCS = {
    "delay": "until the first round",
    "interval": "from the beginning of a round to that of the next",
    "timeout": "for a round; what was not asked then comes first in the next",
    "part_timeout": "for one group, or the transactions of one broker",
    "at_once": "how many groups or servers are asked at the same time",
    "forget": "how long a broker is watched that name servers no longer know",
    "max_alarms": "most alarms that are kept at a time",
}


@dataclass(frozen=True, slots=True)
class Watched:
    """Which groups: those that a pattern of `groups` matches, and none of `not_groups`."""

    groups: tuple[str, ...] = ("*",)
    not_groups: tuple[str, ...] = ()
    expect: tuple[Expectation, ...] = ()
    """Brokers that should be there."""

    def wants(self, group: str) -> bool:
        return matches(self.groups, group) and not matches(self.not_groups, group)


@dataclass(frozen=True, slots=True)
class Override:
    """Thresholds for some groups, topics or servers: all kinds of names that are given match."""

    groups: tuple[str, ...]
    topics: tuple[str, ...]
    servers: tuple[str, ...]
    thresholds: Mapping[str, Mapping[str, Any]]

    def applies(self, subject: Subject) -> bool:
        for patterns, name in ((self.groups, subject.group), (self.topics, subject.topic)):
            if patterns and not (name and matches(patterns, name)):
                return False
        return not self.servers or bool(subject.server and _server(self.servers, subject.server))


def _server(patterns: Iterable[str], server: str) -> bool:
    """A server is meant by its address, by its name, or by both with a blank between them."""
    return any(matches(patterns, name) for name in {server, *server.split(" ")})


def matches(patterns: Iterable[str], name: str) -> bool:
    """Whether a name is one of the glob patterns'; case counts."""
    return any(_pattern(p).match(name) for p in patterns)


_PATTERNS: dict[str, re.Pattern[str]] = {}


def _pattern(text: str) -> re.Pattern[str]:
    found = _PATTERNS.get(text)
    if found is None:
        found = _PATTERNS[text] = re.compile(fnmatch.translate(text))
    return found


@dataclass(frozen=True, slots=True)
class Settings:
    """All of the file."""

    rounds: Rounds = Rounds()
    watched: Watched = Watched()
    thresholds: Mapping[str, Threshold] = field(default_factory=lambda: dict(DEFAULTS))
    overrides: tuple[Override, ...] = ()
    sinks: tuple[SinkSettings, ...] = (LogSettings(),)

    def threshold(self, subject: Subject) -> Threshold:
        """The threshold that counts for a figure: later overrides win."""
        found = self.thresholds[subject.metric]
        for override in self.overrides:
            changed = override.thresholds.get(subject.metric)
            if changed and override.applies(subject):
                found = replace(found, **changed)
        return found

    def watches(self, metric: str) -> bool:
        """Whether a figure is needed at all."""
        return self.thresholds[metric].enabled or any(
            o.thresholds.get(metric, {}).get("enabled") for o in self.overrides
        )


def read(path: str | Path) -> Settings:
    """Reads a file. ConfigError; OSError."""
    return toml_file.read(Path(path), f"{path}", parse, MAX_BYTES, "that is no file of thresholds")


def parse(text: str) -> Settings:
    """The settings that a text holds. ConfigError."""
    table = TomlTable("", toml_file.table(text))
    rounds = _rounds(table.table("rounds"))
    watched = _watched(table.table("watch"))
    thresholds = _thresholds(table.table("thresholds"))
    overrides = tuple(_override(t) for t in table.tables("overrides", MAX_OVERRIDES))
    sinks = tuple(sink_settings(t) for t in table.tables("sinks", MAX_SINKS))
    table.end()
    return Settings(rounds, watched, thresholds, overrides, sinks or (LogSettings(),))


def _rounds(table: TomlTable) -> Rounds:
    default = Rounds()
    seconds = {
        f.name: table.number(f.name, getattr(default, f.name), low, 31_536_000)
        for f, low in zip(fields(Rounds)[:4], (0, 1, 1, 0.1), strict=True)
    }
    at_once = table.whole("at_once", default.at_once, 1, 256)
    forget = table.number("forget", default.forget, 0, 31_536_000)
    most = table.whole("max_alarms", default.max_alarms, 1, 1_000_000)
    table.end()
    return Rounds(**seconds, at_once=at_once, forget=forget, max_alarms=most)


def _watched(table: TomlTable) -> Watched:
    groups, not_groups = table.texts("groups", ("*",)), table.texts("not_groups", ())
    try:
        expect = parse_expected(table.texts("expect", ()))
    except ConfigError as e:
        raise ConfigError(f"{table.at('expect')}: {e}") from None
    table.end()
    return Watched(groups, not_groups, tuple(expect))


def _thresholds(table: TomlTable) -> dict[str, Threshold]:
    found = dict(DEFAULTS)
    for name in table.names():
        metric = _metric(name, table)
        found[metric] = replace(found[metric], **_threshold(table.table(name)))
    table.end()
    return found


def _metric(name: str, table: TomlTable) -> str:
    if name not in METRICS:
        raise ConfigError(f"{table.at(name)}: there is no such figure{near(name, METRICS)}")
    return name


def _threshold(table: TomlTable) -> dict[str, Any]:
    """The settings of a threshold, by the names of its fields."""
    found: dict[str, Any] = {}
    if table.has("raise") != table.has("clear"):
        raise ConfigError(f"{table.name}: say both of raise and clear, or none of them")
    if table.has("raise"):
        found["raise_at"] = table.number("raise", 0, 0, math.inf)
        found["clear_at"] = table.number("clear", 0, 0, math.inf)
        if found["clear_at"] >= found["raise_at"]:
            raise ConfigError(f"{table.name}: clear has to be lower than raise")
    for name in ("rounds", "clear_rounds"):
        if table.has(name):
            found[name] = table.whole(name, 1, 1, 100_000)
    if table.has("repeat"):
        found["repeat"] = table.number("repeat", 0, 0, 31_536_000)
    if table.has("enabled"):
        found["enabled"] = table.truth("enabled", True)
    table.end()
    return found


def _override(table: TomlTable) -> Override:
    groups, topics, servers = (table.texts(n, ()) for n in ("groups", "topics", "servers"))
    if not (groups or topics or servers):
        raise ConfigError(f"{table.name}: say groups, topics or servers that it is for")
    thresholds = {}
    for name in table.names():
        if name in ("groups", "topics", "servers"):
            continue
        if name not in METRICS:
            known = [*METRICS, "groups", "topics", "servers"]
            raise ConfigError(f"{table.at(name)}: unknown{near(name, known)}")
        thresholds[name] = _threshold(table.table(name))
    table.end()
    if not thresholds:
        raise ConfigError(f"{table.name}: it changes no threshold")
    return Override(groups, topics, servers, thresholds)


_SINKS = """
# Where alarms go: each [[sinks]] is one place. Without any there is the log.
[[sinks]]
type = "log"                      # lines of text

# [[sinks]]
# type = "json"                   # a line of JSON for each event, on stdout

# [[sinks]]
# type = "command"                # a program, which gets the event as JSON on stdin
# command = ["/usr/local/bin/notify", "--from", "rocketmq"]
# timeout = 10                    # seconds, then it is killed
# retries = 0

# [[sinks]]
# type = "webhook"                # POST of the event as JSON
# url = "https://example.org/alarms"
# headers = { Authorization = "Bearer TOKEN" }
# timeout = 10
# retries = 3
"""
_OVERRIDES = """
# Other thresholds for some groups, topics or servers; later ones win.
# [[overrides]]
# groups = ["order-*"]
# topics = ["orders"]
# lag = { raise = 100, clear = 10, rounds = 1 }
# [[overrides]]
# servers = ["broker-a*"]         # by name or by host:port
# server_down = { rounds = 5 }
"""


def example() -> str:
    """What says nothing else than the defaults, until a line is changed."""
    lines = [
        "# What `pyrmq admin monitor run --config` reads. All that stands here are the defaults.",
        "",
        "[rounds]                          # times are seconds",
    ]
    for f in fields(Rounds):
        value = number(getattr(Rounds(), f.name))
        lines.append(_line(f"{f.name} = {value}", ROUND_DOCS[f.name]))
    lines += [
        "",
        "[watch]                           # patterns of groups: * ? [a-z]",
        'groups = ["*"]',
        "not_groups = []",
        "expect = []                       # brokers that should be there: broker-a, cluster/name,",
        "                                  # broker-b:2 (a master and a slave)",
        "",
        *_folded(
            "An alarm is raised once a figure is at `raise` or above for `rounds` rounds in a row, "
            "and over once it is at `clear` or below for `clear_rounds` in a row. One that goes on "
            "is told again after `repeat` seconds (0: never). enabled = false: it does not count."
        ),
    ]
    for metric in METRICS.values():
        usual = Threshold(metric.raise_at, metric.clear_at, metric.rounds)
        lines += [
            "",
            f"[thresholds.{metric.name}]",
            *_folded(f"Of each {metric.per}: {metric.doc}"),
        ]
        lines += [
            _line(f"raise = {number(usual.raise_at)}", metric.unit),
            f"clear = {number(usual.clear_at)}",
            f"rounds = {usual.rounds}",
            f"clear_rounds = {usual.clear_rounds}",
            f"repeat = {number(usual.repeat)}",
            "enabled = true",
        ]
    return "\n".join(lines) + "\n" + _OVERRIDES + _SINKS


def _line(setting: str, doc: str) -> str:
    return f"{setting:<33} # {doc}"


def _folded(text: str, width: int = 96) -> list[str]:
    return [f"# {line}" for line in textwrap.wrap(text, width)]


def write_example(path: str) -> None:
    """Writes it to a file that is not there yet. ClientError if it is; OSError."""
    try:
        with Path(path).open("x", encoding="utf-8") as file:
            file.write(example())
    except FileExistsError:
        raise ClientError(f"{path} is there already: name another file, or remove it") from None
