"""The loads that are measured, and the target of each figure.

Targets are those the project set for itself; they are printed beside the figures and judged by
whoever reads them.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .harness import Broker, generate, idle_connections, server
from .proc import Memory, allow_open_files, memory
from .wire import send_frame, send_once
from .yardstick import fdatasync_rate

BODY = 1024
IDLE_CONNECTIONS = 10_000
START_ROUNDS = 5
SETTLE_SECONDS = 2.0


class Unavailable(Exception):
    """The scenario cannot be measured this way, as the start-up time of a running broker."""


@dataclass(frozen=True)
class Figure:
    """One measured value; `target` is text such as "<= 3" in the same unit."""

    name: str
    value: float
    unit: str
    target: str = ""


@dataclass
class Result:
    """What a scenario found: figures for the table, raw results of the generator for the file."""

    scenario: str
    load: str
    figures: list[Figure] = field(default_factory=list)
    raw: list[dict[str, Any]] = field(default_factory=list)
    note: str = ""

    def add(self, name: str, value: float | None, unit: str, target: str = "") -> None:
        if value is not None:
            self.figures.append(Figure(name, value, unit, target))

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Context:
    """How to measure. `running` is a broker that is there already, of any make."""

    binary: Path
    seconds: float = 3.0
    warmup: float = 1.0
    max_messages: int = 1_000_000
    directory: Path | None = None
    running: Broker | None = None

    @contextmanager
    def broker(self, flush: str = "ASYNC_FLUSH") -> Iterator[Broker]:
        """The running broker, or a new server on a new store."""
        if self.running is not None:
            yield self.running
            return
        with server(flush=flush, directory=self.directory) as broker:
            yield broker

    def load(self, mode: str, broker: Broker, **options: object) -> dict[str, Any]:
        """A measured run of the generator; bounded in time and in what it leaves on the disk."""
        base: dict[str, object] = {"seconds": self.seconds, "warmup": self.warmup, "body": BODY}
        if mode != "pull":
            base["count"] = self.max_messages
        return generate(self.binary, mode, broker, base | options)


def _us_per(result: dict[str, Any], cpu: str, unit: str) -> float | None:
    """CPU microseconds per `messages` or `requests`; None when it was not measured."""
    seconds, count = result[cpu], result[unit]
    return seconds / count * 1e6 if seconds is not None and count else None


def _add_load(
    found: Result, result: dict[str, Any], per: str, target: str, suffix: str = ""
) -> None:
    """The figures every load has. `per`: what CPU time is counted by, `messages` or `requests`."""
    one = per.removesuffix("s")
    found.raw.append(result)
    found.add("rate" + suffix, result["rate"], "messages/s")
    found.add("p50" + suffix, result["p50_us"], "us")
    found.add("p99" + suffix, result["p99_us"], "us")
    broker_cpu = _us_per(result, "watched_cpu_seconds", per)
    found.add("broker CPU" + suffix, broker_cpu, f"us/{one}", target)
    found.add("generator CPU" + suffix, _us_per(result, "own_cpu_seconds", per), f"us/{one}")
    if result["refused"]:
        found.add("refused" + suffix, result["refused"], "requests")
        found.note = f"refused: {result['first_refusal']}"


def _send(name: str, connections: int, in_flight: int, target: str) -> Callable[[Context], Result]:
    def run(context: Context) -> Result:
        found = Result(name, f"{connections} x {in_flight}, 1 KiB, ASYNC_FLUSH")
        with context.broker() as broker:
            options = {"connections": connections, "in_flight": in_flight, "topic": "LoopbackSend"}
            _add_load(found, context.load("send", broker, **options), "messages", target)
        return found

    return run


def _batch(context: Context) -> Result:
    found = Result("batch-1x4x32", "1 x 4, batches of 32 x 1 KiB, ASYNC_FLUSH")
    with context.broker() as broker:
        options = {"in_flight": 4, "batch": 32, "topic": "LoopbackBatch"}
        _add_load(found, context.load("send-batch", broker, **options), "messages", "")
    return found


def _transactions(name: str, flush: str, connections: int, in_flight: int) -> Callable[..., Result]:
    # As clients do, END_TRANSACTION is one-way; in the synchronous mode its answer is waited for,
    # as one would to know that the commit is on disk.
    two_way = {"two_way": True} if flush == "SYNC_FLUSH" else {}

    def run(context: Context) -> Result:
        load = f"{connections} x {in_flight}, 1 KiB, {flush}"
        found = Result(name, load + (", END_TRANSACTION answered" if two_way else ""))
        if context.running is not None:
            found.note = "as the running broker is configured"
        shape = {"connections": connections, "in_flight": in_flight}
        with context.broker(flush) as broker:
            plain = context.load("send", broker, **shape, topic="LoopbackPlain")
            result = context.load("transaction", broker, **shape, **two_way, topic="LoopbackTran")
        found.raw += [plain, result]
        found.add("transactions delivered", result["delivered_rate"], "/s")
        found.add("of the plain sends", result["delivered_rate"] / plain["rate"], "x")
        found.add("p50 of the half", result["p50_us"], "us")
        found.add("p99 of the half", result["p99_us"], "us")
        found.add("p50 of the end", result.get("end_p50_us"), "us")
        found.add("p99 of the end", result.get("end_p99_us"), "us")
        found.add(
            "broker CPU", _us_per(result, "watched_cpu_seconds", "delivered"), "us/transaction"
        )
        found.add("broker CPU, plain send", _us_per(plain, "watched_cpu_seconds", "messages"), "us")
        found.add(
            "generator CPU", _us_per(result, "own_cpu_seconds", "delivered"), "us/transaction"
        )
        found.add("committed, not delivered", result["missing"], "transactions", "0")
        found.add("delivered again", result["repeated"], "transactions", "0")
        return found

    return run


def _sync(context: Context) -> Result:
    found = Result("sync-1x64", "1 x 64, 1 KiB, SYNC_FLUSH")
    if context.running is not None:
        found.note = "as the running broker is configured"
    with context.broker("SYNC_FLUSH") as broker:
        one_by_one = fdatasync_rate(context.directory, min(2.0, context.seconds))
        result = context.load("send", broker, in_flight=64, topic="LoopbackSync")
        _add_load(found, result, "messages", "")
    found.add("yardstick: write + fdatasync", one_by_one, "messages/s")
    found.add("times the yardstick", result["rate"] / one_by_one, "x", ">= 5")
    return found


def _pull(context: Context) -> Result:
    found = Result("pull-32", "32 x 1 KiB a request, 1 request under way per connection")
    with context.broker() as broker:
        context.load(
            "send-batch",
            broker,
            count=min(100_000, context.max_messages),
            seconds=30,
            warmup=0,
            in_flight=4,
            topic="LoopbackPull",
        )
        time.sleep(0.5)  # the queues may lag behind the log
        for connections in (1, 4):
            result = context.load(
                "pull", broker, connections=connections, max_msgs=32, topic="LoopbackPull"
            )
            _add_load(found, result, "requests", "<= 30", f", {connections} conn.")
    return found


def _memory_of(broker: Broker) -> Memory:
    if broker.pid is None:
        raise Unavailable("needs the broker's process id")
    return memory(broker.pid)


def _idle_connections(context: Context) -> Result:
    count = IDLE_CONNECTIONS
    found = Result(f"idle-{count}", f"{count} silent connections beside 1 x 64")
    allowed = allow_open_files(2 * count)  # inherited by the server
    if allowed < count + 200:
        raise Unavailable(f"only {allowed} open files are allowed (ulimit -n)")
    with context.broker() as broker:
        options = {"in_flight": 64, "topic": "LoopbackIdle"}
        alone = context.load("send", broker, **options)
        before = _memory_of(broker)
        with idle_connections(context.binary, broker, count) as closed:
            time.sleep(SETTLE_SECONDS)
            after = _memory_of(broker)
            beside = context.load("send", broker, **options)
    found.raw.append(closed)
    found.add("memory for them", after.private - before.private, "MiB", "< 100")
    found.add("private memory before", before.private, "MiB")
    found.add("private memory after", after.private, "MiB")
    found.add("closed by the broker", closed["closed_by_broker"], "connections")
    _add_load(found, alone, "messages", "", ", alone")
    _add_load(found, beside, "messages", "as alone", ", beside them")
    return found


def _idle_memory(context: Context) -> Result:
    found = Result("idle-memory", "a server that nobody talks to")
    with context.broker() as broker:
        if context.running is None:
            time.sleep(SETTLE_SECONDS)
        else:
            found.note = "after whatever the running broker did before"
        now = _memory_of(broker)
    found.add("private memory", now.private, "MiB", "< 80")
    found.add("resident pages of store files", now.mapped, "MiB")
    found.add("resident memory", now.resident, "MiB")
    return found


def _start_up(context: Context) -> Result:
    if context.running is not None:
        raise Unavailable("the broker is running already")
    found = Result(
        "start-up", f"process start to first acknowledged send, {START_ROUNDS} new stores"
    )
    frame = send_frame("LoopbackStart", b"x" * BODY)
    times = []
    for _ in range(START_ROUNDS):
        with context.broker() as broker:
            send_once((broker.host, broker.port), frame)
            times.append(time.perf_counter() - broker.started)
    found.raw.append({"seconds": times})
    found.add("median", statistics.median(times), "s", "<= 0.7")
    found.add("slowest", max(times), "s")
    return found


SCENARIOS: dict[str, Callable[[Context], Result]] = {
    "send-1x64": _send("send-1x64", 1, 64, "<= 3"),
    "send-8x128": _send("send-8x128", 8, 128, "<= 1.5"),
    "send-64x1": _send("send-64x1", 64, 1, "<= 12"),
    "send-1x1": _send("send-1x1", 1, 1, ""),
    "batch-1x4x32": _batch,
    "sync-1x64": _sync,
    "pull-32": _pull,
    "transactions-8x16": _transactions("transactions-8x16", "ASYNC_FLUSH", 8, 16),
    "transactions-sync-8x16": _transactions("transactions-sync-8x16", "SYNC_FLUSH", 8, 16),
    f"idle-{IDLE_CONNECTIONS}": _idle_connections,
    "idle-memory": _idle_memory,
    "start-up": _start_up,
}
