"""The result of a run, and its JSON: schema `pyrmq-bench/1`.

Rates are per second, latencies µs, sizes bytes, times s unless a field says otherwise. A reader
takes no other schema, refuses a value of another type with its place, and ignores keys that it does
not know: a later release may add keys to this schema, never change one.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import types
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from pyrmq.errors import PyrmqError
from pyrmq.escape import escape

SCHEMA = "pyrmq-bench/1"
MOST_BYTES = 256 << 20
"""A longer file is refused before it is read."""

T = TypeVar("T")


class BenchError(PyrmqError):
    """A benchmark cannot run, or its result cannot be read."""


class ResultFormatError(BenchError):
    """A file is no result of this schema."""


@dataclass(frozen=True, slots=True)
class Latency:
    """Latencies of one kind: µs. All 0 when `count` is 0."""

    count: int
    measured_from: str
    """`due`: the time a message was intended to be sent (open loop); `sent`: when it was handed to
    the socket (closed loop: a slow answer holds back the next request and so hides latency)."""
    min: float
    mean: float
    p50: float
    p90: float
    p99: float
    p999: float
    p9999: float
    max: float
    curve: list[list[float]] = field(default_factory=list)
    """[percentile 0 to 100, µs], rising: for plots."""


@dataclass(frozen=True, slots=True)
class ErrorCount:
    """Errors of one kind, the warm-up included."""

    kind: str
    """`code` (the broker answered with an error), `connection-lost`, `timeout`, `connect-failed`,
    `protocol` (an answer that is none)."""
    code: int | None
    """RocketMQ's response code, with kind `code`; None of `further codes`."""
    name: str
    """The code's name, as SYSTEM_BUSY; else the kind in words."""
    count: int
    """Requests that ended so (with `connect-failed`: attempts)."""
    first: str
    """What the first one said."""


@dataclass(frozen=True, slots=True)
class Verify:
    """What became of each message, over the whole run with its warm-up (`--verify`)."""

    sent: int
    """Messages written to a socket."""
    acknowledged: int
    refused: int
    """The broker answered with an error."""
    unknown: int
    """No answer: the connection was lost, or it took too long; one-way: all. Stored or not."""
    received: int
    """Different messages that came back. 0 where nothing was received (`consumed` is false)."""
    twice: int
    """Deliveries beyond the first."""
    lost: int
    """Acknowledged (one-way: sent), and never received."""
    unknown_received: int
    """Of `unknown`: those that came back."""
    refused_received: int
    """Refused, and yet they came back."""
    out_of_order: int
    """Received behind a message that the same producer sent to the same queue later."""
    foreign: int
    """Received messages that are not of this run."""
    consumed: bool
    """Whether the run read back what it sent; else `received` to `foreign` say nothing."""


@dataclass(frozen=True, slots=True)
class Generator:
    """The load generator's own use of the machine in the measured window."""

    threads: int
    cpu_seconds: float
    busy: float
    """0 to 1: the CPU share of its busiest thread. Near 1 it was the limit."""
    late_us: float
    """Open loop: p99 of how late requests were written, after their due time."""
    limit: bool
    """Whether it was probably the limit: then the rate says little about the server."""


@dataclass(frozen=True, slots=True)
class ServerUsage:
    """What a process given with `--pid` used in the measured window."""

    pid: int
    name: str
    cpu_seconds: float
    cpu_us_per_message: float | None
    rss_bytes: int
    """Resident memory at the end of the window (or when last seen)."""
    max_rss_bytes: int
    """The largest of the looks, one a second."""
    read_bytes: int | None
    """From storage; None where /proc/PID/io may not be read."""
    written_bytes: int | None
    ended: bool
    """It ended before the window did: the figures are those of the last look."""


@dataclass(frozen=True, slots=True)
class Connections:
    """Connections of the load; those that only ask for routes are not counted."""

    wanted: int
    lost: int
    reconnected: int


@dataclass(frozen=True, slots=True)
class Interval:
    """One second of the run (the last may be shorter), the warm-up included."""

    at: float
    """Its end, s since the run began."""
    seconds: float
    messages: int
    errors: int
    p50: float
    p99: float
    max: float
    measured: bool
    """Whether it lies in the measured window; the warm-up does not."""
    backlog: int = 0
    """Requests that are due and not yet sent (open loop), and messages that are acknowledged
    and not yet received (latency)."""


@dataclass(frozen=True, slots=True)
class Environment:
    """Where it ran. "" or 0: not known."""

    pyrmq: str
    python: str
    kernel: str
    machine: str
    """As x86_64."""
    cpu: str
    cores: int
    """Those that this process may use."""
    memory_bytes: int
    disk: str
    """File system and device of `disk_path`."""
    disk_path: str
    """The store's folder where it is known (`--embedded`), else "": the disk is unknown."""
    load_average: float
    """Of one minute, when the run began: others that use the machine."""
    broker_version: str
    flush: str
    """flushDiskType of the broker."""
    broker_role: str
    virtual: str
    """What kind of container or hypervisor, as far as it shows."""


@dataclass(frozen=True, slots=True)
class Result:
    """One run of one load."""

    load: str
    """send, batch, oneway, pull, push, latency, pop, transaction, delay, timer or mixed."""
    loop: str
    """`open`: at a rate; `closed`: each connection sends as answers come."""
    settings: dict[str, Any]
    """Every option by its long name with underscores, defaults included: connections, in_flight,
    size, rate (messages/s, None: closed loop), threads, topics, queues, duration, count, …; `mixed`
    is the content of its file, `payload` the length and CRC-32 of each body of a file."""
    command: list[str]
    started: str
    """ISO 8601, UTC."""
    ended: str
    """`duration`, `count`, `interrupted`, `error`."""
    why: str
    """What the error was; "" otherwise."""
    seconds: float
    """Length of the measured window: the rates and latencies below are of it alone."""
    messages: int
    """Acknowledged (oneway: sent; pull, push, pop, latency: received; transaction: commits,
    with --oneway-end those sent)."""
    requests: int
    bytes: int
    """Bodies of `messages`."""
    rate: float
    """messages / seconds."""
    request_rate: float
    byte_rate: float
    target_rate: float | None
    """The rate asked for; None in a closed loop."""
    rate_reached: bool | None
    """Whether `rate` came to 99 % of it."""
    latency: dict[str, Latency]
    """By kind, `request` first where there is one: `request` (to its answer), `end_to_end` (to the
    consumer), `commit` (END_TRANSACTION to its answer, if it has one), `late` (delay and timer:
    behind the time due), `ack` (pop: ACK_MESSAGE to its answer), `refused` (a request to an answer
    with an error; the others have successes only)."""
    errors: list[ErrorCount]
    verify: Verify | None
    generator: Generator
    servers: list[ServerUsage]
    connections: Connections
    intervals: list[Interval]
    warnings: list[str]
    """Sentences for people: what makes these figures less than they seem."""
    environment: Environment
    schema: str = SCHEMA

    @property
    def main_latency(self) -> Latency | None:
        """The one that a report shows first: end to end where there is one, else of requests."""
        for kind in ("end_to_end", "late", "request"):
            if kind in self.latency:
                return self.latency[kind]
        return None

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def write_result(path: str | Path, result: Result) -> None:
    text = json.dumps(result.to_json(), indent=1, allow_nan=False)
    write_file(Path(path), f"{text}\n")


def read_json(path: Path) -> object:
    """ResultFormatError if a file is no JSON or too long, OSError if it cannot be read. NaN and
    Infinity are no JSON."""
    where = escape(str(path))
    if path.stat().st_size > MOST_BYTES:
        raise ResultFormatError(f"{where}: more than {MOST_BYTES} bytes")
    try:
        value: object = json.loads(path.read_text(encoding="utf-8"), parse_constant=_no_number)
    except (ValueError, RecursionError) as e:
        raise ResultFormatError(f"{where}: no JSON: {escape(str(e))}") from None
    return value


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no number of JSON")


def write_file(path: Path, text: str) -> None:
    """Whole or not at all: what was there before stays where it cannot be written. OSError."""
    if path.exists() and not path.is_file():  # a pipe, or /dev/stdout
        path.write_text(text, encoding="utf-8")
        return
    # Beside the file itself, and not beside a link to it.
    real = path.resolve()
    part = real.with_name(f".{real.name[:200]}.{os.getpid()}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(real)
    finally:
        part.unlink(missing_ok=True)


def read_result(path: str | Path) -> Result:
    """ResultFormatError if it is no result of this schema, OSError if it cannot be read."""
    return parse_result(read_json(Path(path)), str(path))


def parse_result(value: Any, where: str = "result") -> Result:
    """ResultFormatError if it is no result of this schema; its text begins with `where`."""
    where = escape(where)
    check_schema(value, SCHEMA, where)
    return parse(Result, value, where)


def check_schema(value: Any, schema: str, where: str) -> None:
    """ResultFormatError unless a JSON value names this schema."""
    found = value.get("schema") if isinstance(value, Mapping) else None
    if found == schema:
        return
    said = "none" if found is None else escape(str(found)[:80])
    family = str(found).rpartition("/")[0]
    if family == schema.rpartition("/")[0]:
        advice = "write it again with this release"
    else:
        advice = f"{_MADE_BY.get(family, '')}; {_TAKES[schema.rpartition('/')[0]]}".lstrip("; ")
    raise ResultFormatError(
        f"{where}: its schema is {said}; this pyrmq reads {schema} here: {advice}"
    )


_MADE_BY = {
    "pyrmq-bench": "it is a file of `pyrmq bench LOAD --json`",
    "pyrmq-bench-runs": "it has several runs of one load",
    "pyrmq-bench-sweep": "it is a file of `pyrmq bench sweep --json`",
    "pyrmq-bench-peers": "it is a file of `pyrmq bench peers --json`",
}
_TAKES = {
    "pyrmq-bench": "give a file of `pyrmq bench LOAD --json`, or a folder of them. To compare two "
    "brokers at a rate of a sweep, run the load at this --rate on both, with --json",
    "pyrmq-bench-runs": "give a file of several runs",
    "pyrmq-bench-peers": "give a file of `pyrmq bench peers --json`",
}


def parse(kind: type[T], value: Any, where: str) -> T:
    """A dataclass of fields as above from a JSON value. ResultFormatError names the place."""
    made: T = _read(kind, value, where)
    return made


def _read(kind: Any, value: Any, where: str) -> Any:
    origin = get_origin(kind)
    if kind is Any:
        return value
    if origin in (types.UnionType, Union):
        if value is None and type(None) in get_args(kind):
            return None
        return _read(next(k for k in get_args(kind) if k is not type(None)), value, where)
    if dataclasses.is_dataclass(kind):
        return _read_class(kind, value, where)
    if origin is list:
        (inner,) = get_args(kind)
        return [_read(inner, v, f"{where}[{i}]") for i, v in enumerate(_want(list, value, where))]
    if origin is dict:
        inner = get_args(kind)[1]
        items = _want(dict, value, where).items()
        return {k: _read(inner, v, f"{where}.{escape(k)}") for k, v in items}
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value) if abs(value) < 1 << 1000 else math.inf
    if isinstance(value, float) and not math.isfinite(value):
        raise ResultFormatError(f"{where}: a finite number expected")
    return _want(kind, value, where)


def _want(kind: Any, value: Any, where: str) -> Any:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        said = "nothing" if value is None else type(value).__name__
        raise ResultFormatError(f"{where}: {kind.__name__} expected, not {said}")
    return value


def _read_class(kind: Any, value: Any, where: str) -> Any:
    value = _want(dict, value, where)
    hints = get_type_hints(kind)
    made = {}
    for one in dataclasses.fields(kind):
        if one.name in value:
            made[one.name] = _read(hints[one.name], value[one.name], f"{where}.{one.name}")
        elif one.default is dataclasses.MISSING and one.default_factory is dataclasses.MISSING:
            raise ResultFormatError(f"{where}.{one.name} is missing")
    return kind(**made)
