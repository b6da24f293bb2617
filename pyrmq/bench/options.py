"""What a load does: its options, checked."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from pyrmq.bench.result import BenchError
from pyrmq.escape import escape
from pyrmq.model.names import check_consumer_group, check_topic
from pyrmq.net.client.credentials import Credentials
from pyrmq.net.client.tls import Tls

LOADS = {
    "send": "One message a request, each answered.",
    "batch": "Many messages a request.",
    "oneway": "One message a request, without an answer.",
    "pull": "Read what is stored, from the first message on, again and again.",
    "push": "Receive what others send, by pulls that wait at the broker.",
    "latency": "Send at a rate and receive: how long from the time due until it is received.",
    "pop": "Send at a rate and pop: how long until it is received, and until ACK is answered.",
    "transaction": "A half, and END_TRANSACTION that commits it.",
    "delay": "Send with a delay level and receive: how late messages come.",
    "timer": "Send timer messages and receive: how late messages come.",
    "mixed": "Producers and consumers that a file describes.",
}
"""Loads and what they do."""

RECEIVING = {"pull", "push", "latency", "pop"}
"""Loads whose `messages` are those received."""
READ_ONLY = {"pull", "push"}
"""Loads that send nothing: the topics exist already."""
LEAST_RATE, MOST_RATE = 0.001, 1e9
MOST_COUNT = (1 << 62) - 1
MOST_PID = (1 << 22) - 1
"""PID_MAX_LIMIT of Linux is one more."""
AT_A_RATE = {"latency", "delay", "timer", "pop"}
FIRST_RATE = 1000.0
"""Messages a second of `AT_A_RATE` where no rate is given."""
GROUP = "pyrmq-bench"
"""The group where none is given. Nobody needs its progress."""
MOST_OF_A_POP = 32
DELAY_LEVELS = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
"""messageDelayLevel, as brokers have it without a configuration."""
_NAMES = {"pids": "pid", "payload_files": "payload_file"}
"""Settings that are named as their option."""
_OWN_PROPERTIES = {
    "UNIQ_KEY": "the load sets it, to know each message again",
    "WAIT": "use --flush-wait or --no-flush-wait",
    "TAGS": "use --tags",
    "KEYS": "use --keys",
    "DELAY": "use the load delay",
    "TIMER_DELIVER_MS": "use TIMER_DELAY_MS, or the load timer to receive them too",
    "TRAN_MSG": "use the load transaction",
    "PGROUP": "use the load transaction, with --group",
}
_UNITS = {"": 1.0, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_SIZES = {"": 1, "k": 1 << 10, "m": 1 << 20}


class OptionError(BenchError):
    """An option is invalid, or two of them do not fit."""


def parse_time(text: str) -> float:
    """Seconds: `10`, `500ms`, `1.5s`, `2m`, `1h`. OptionError."""
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)(ms|s|m|h|)", text.strip())
    if match is None:
        raise OptionError(f"{escape(text[:40])!r} is no time: write it as 10s, 500ms or 2m")
    return float(match[1]) * _UNITS[match[2]]


def parse_bytes(text: str) -> int:
    """Bytes: `1024`, `64k`, `1m`. OptionError."""
    match = re.fullmatch(r"(\d{1,9})([kKmM]?)", text.strip())
    if match is None:
        raise OptionError(f"{escape(text[:40])!r} is no size: write it as 1024, 64k or 1m")
    return int(match[1]) * _SIZES[match[2].lower()]


def check_tag(name: str, weight: float) -> None:
    """OptionError."""
    if not name or not 0 < weight < 1e9 or re.search(r"[|\x00-\x1f]", name):
        raise OptionError(
            f"{escape(name[:80])!r} with weight {escape(weight)} is no tag: a name without | and "
            "control characters, and a weight above 0 and below 1,000,000,000"
        )


def check_property(name: str, value: str) -> None:
    """OptionError."""
    shown = escape(f"{name}={value}"[:80])
    if not name or not value or re.search(r"[\x01\x02]", name + value):
        raise OptionError(f"property {shown!r}: write NAME=VALUE, without \\x01 and \\x02")
    if name in _OWN_PROPERTIES:
        raise OptionError(f"property {shown!r}: {_OWN_PROPERTIES[name]}")


def parse_tags(text: str) -> list[tuple[str, float]]:
    """`A,B` or with weights `A=7,B=3`. OptionError."""
    found = []
    for part in text.split(","):
        name, equals, weight = part.strip().partition("=")
        try:
            number = float(weight) if equals else 1.0
        except ValueError:
            number = 0.0
        try:
            check_tag(name, number)
        except OptionError:
            raise OptionError(
                f"{escape(text[:80])!r} is no list of tags: write it as TagA,TagB or TagA=7,TagB=3"
            ) from None
        found.append((name, number))
    return found


@dataclass(slots=True)
class Options:
    """One load. Times are seconds, sizes bytes. `check` before anything else uses it."""

    load: str
    namesrv: str = ""
    """Name servers, `host:port;host:port`."""
    address: str = ""
    """A broker's `host:port`, instead of name servers."""
    embedded: bool = False
    """pyrmq's own broker, started for this run on a temporary folder."""
    flush: str = "ASYNC_FLUSH"
    """flushDiskType of the embedded broker."""
    cluster: str = ""
    """Which one, where the name server knows several."""
    topic: str = "PyrmqBench"
    topics: int = 1
    """More than one: NAME-0, NAME-1, and so on."""
    queues: int = 4
    """Queues on each broker of a topic that is made."""
    group: str = GROUP
    connections: int = 4
    consumers: int = 1
    """Connections that receive, where the load sends and receives."""
    in_flight: int = 16
    threads: int = 1
    rate: float | None = None
    """Messages a second of all connections; None: a closed loop."""
    duration: float | None = None
    count: int | None = None
    warmup: float = 0.0
    size: str = "1024"
    payload_files: list[Path] = field(default_factory=list)
    compression: str = "none"
    flush_wait: bool = True
    batch: int = 32
    oneway_end: bool = False
    """END_TRANSACTION is sent one-way, as RocketMQ's clients do; else its answer is waited for."""
    max_msgs: int = 32
    invisible_time: float = 60.0
    """How long a popped message that is not acknowledged stays away."""
    tags: list[tuple[str, float]] = field(default_factory=list)
    keys: int = 0
    properties: list[tuple[str, str]] = field(default_factory=list)
    subscription: str = "*"
    """Tags that a consumer wants, `A || B`."""
    sql: str = ""
    """An SQL92 expression instead."""
    from_start: bool = False
    delay_level: int = 1
    timer_delay: float = 5.0
    """Seconds until a timer message is due."""
    file: Path | None = None
    """Of `mixed`."""
    serialize: str = "json"
    timeout: float = 3.0
    settle: float = 10.0
    on_error: str = "go-on"
    verify: bool = False
    pids: list[int] = field(default_factory=list)
    hdr: Path | None = None
    credentials: Credentials | None = None
    """Who signs all requests."""
    tls: Tls | None = None
    """How all connections are encrypted; None: they are plain."""
    command: list[str] = field(default_factory=list)
    """The command line, for the result."""

    def check(self) -> None:
        """OptionError, or InvalidParameterError of a name. Sets the defaults that depend on the
        load."""
        if self.load not in LOADS:
            raise OptionError(f"no load {escape(self.load)}: one of {', '.join(LOADS)}")
        self._check_where()
        if self.topics > 1:
            check_topic(f"{self.topic}-{self.topics - 1}")
        check_topic(self.topic)
        check_consumer_group(self.group)
        self.check_numbers()
        for name, weight in self.tags:
            check_tag(name, weight)
        for name, value in self.properties:
            check_property(name, value)
        if self.duration is None and self.count is None:
            self.duration = 10.0
        if self.load in AT_A_RATE and self.rate is None and not self.reads_only:
            self.rate = FIRST_RATE
        if self.reads_only and self.rate is not None:
            raise OptionError(f"--rate is for loads that send; {self._reader} takes what there is")
        if self.verify and self.reads_only:
            raise OptionError("--verify needs to know what was sent: use it with a load that sends")
        if (self.load == "mixed") != (self.file is not None):
            raise OptionError("mixed needs a file that describes it, and no other load takes one")
        if self.oneway_end and self.load not in ("transaction", "mixed"):
            raise OptionError(
                f"--oneway-end is for transactions; {self.load} sends no END_TRANSACTION"
            )
        if self.sql and self.subscription != "*":
            raise OptionError("give --subscription or --sql, not both")

    @property
    def reads_only(self) -> bool:
        """Whether it sends nothing: the topics exist already."""
        return self.load in READ_ONLY or (self.load == "pop" and self.from_start)

    @property
    def _reader(self) -> str:
        return "pop --from-start" if self.load == "pop" else self.load

    def check_numbers(self) -> None:
        """OptionError if one is out of its bounds."""
        _within("topics", self.topics, 1, 100_000)
        _within("queues", self.queues, 1, 65_536)
        _within("connections", self.connections, 1, 60_000)
        _within("consumers", self.consumers, 1, 60_000)
        _within("in-flight", self.in_flight, 1, 65_536)
        _within("threads", self.threads, 1, 256)
        _within("batch", self.batch, 1, 32_767)
        _within("max-msgs", self.max_msgs, 1, MOST_OF_A_POP if self.load == "pop" else 1024)
        if not 0.1 <= self.invisible_time <= 43_200:
            raise OptionError("--invisible-time must be 100ms to 12h")
        _within("keys", self.keys, 0, 9_999_999_999)
        _within("delay-level", self.delay_level, 1, 18)
        if not 0.001 <= self.timer_delay <= 366 * 86_400:
            raise OptionError("--timer-delay must be 1ms to 8784h")
        if self.rate is not None and not LEAST_RATE <= self.rate <= MOST_RATE:
            raise OptionError(
                f"--rate must be {LEAST_RATE:g} to {MOST_RATE:,.0f}, not {self.rate:g}"
            )
        if self.count is not None:
            _within("count", self.count, 1, MOST_COUNT)
        for pid in self.pids:
            _within("pid", pid, 1, MOST_PID)
        if not math.isfinite(self.warmup + self.timeout + self.settle + (self.duration or 0.0)):
            raise OptionError("a time must be a number")

    def _check_where(self) -> None:
        given = [bool(self.namesrv), bool(self.address), self.embedded]
        if sum(given) > 1:
            raise OptionError("give one of --namesrv, --address and --embedded")
        if not any(given):
            raise OptionError("say what to measure: --namesrv, --address or --embedded")
        if self.embedded and self.reads_only:
            raise OptionError(
                f"--embedded begins without messages, so {self._reader} finds none: start "
                "`pyrmq server`, and send to it first"
            )
        if self.embedded and self.tls is not None and not self.tls.insecure:
            raise OptionError(
                "--embedded makes a certificate that nobody can verify: use --tls-insecure with "
                "it, or start `pyrmq server` with a certificate of yours and name it with --namesrv"
            )
        if self.flush != "ASYNC_FLUSH" and not self.embedded:
            raise OptionError("--flush is for --embedded; another broker has its own flushDiskType")
        if self.cluster and not self.namesrv:
            raise OptionError("--cluster is for --namesrv")

    def topic_names(self) -> list[str]:
        if self.topics == 1:
            return [self.topic]
        return [f"{self.topic}-{n}" for n in range(self.topics)]

    def settings(self) -> dict[str, Any]:
        """For the result: every option by its name."""
        out: dict[str, Any] = {}
        for one in fields(self):
            value = getattr(self, one.name)
            if one.name in ("load", "command", "hdr"):
                continue
            if isinstance(value, Credentials):
                out["access_key"] = value.access_key
            if one.name == "credentials":
                continue
            if one.name == "tls":
                value = value is not None
            if isinstance(value, Path):
                value = str(value)
            if one.name == "payload_files":
                value = [str(path) for path in value]
            if one.name in ("tags", "properties"):
                value = dict(value)
            out[_NAMES.get(one.name, one.name)] = value
        return out


def _within(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise OptionError(f"--{name} must be {low} to {high}, not {value}")
