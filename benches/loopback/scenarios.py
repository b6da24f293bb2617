"""Everything that is measured, by name: the loads of loads.py in turns, and what stands here.

Targets are those the project set for itself; they are printed beside the figures.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from .cold import NAME as COLD
from .cold import cold_consumer
from .context import BODY, Context
from .harness import Broker
from .idle import idle_connections
from .loads import LOADS
from .proc import Memory, allow_open_files, memory
from .result import Result, Unavailable, us_per
from .turns import in_turns
from .wire import send_frame, send_once
from .written import NAME as WRITTEN
from .written import written

IDLE_CONNECTIONS = 10_000
START_ROUNDS = 5
SETTLE_SECONDS = 2.0


def _transactions(name: str, flush: str, connections: int, in_flight: int) -> Callable[..., Result]:
    # As clients do, END_TRANSACTION is one-way; in the synchronous mode its answer is waited for,
    # as one would to know that the commit is on disk.
    answered = flush == "SYNC_FLUSH"
    special: dict[str, object] = {} if answered else {"oneway_end": True}

    def run(context: Context) -> Result:
        load = f"{connections} x {in_flight}, 1 KiB, {flush}"
        found = Result(name, load + (", END_TRANSACTION answered" if answered else ""))
        if context.running is not None:
            found.note = "as the running broker is configured"
        shape = {"connections": connections, "in_flight": in_flight}
        with context.broker(flush) as broker:
            plain = context.load("send", broker, **shape, topic="LoopbackPlain")
            result = context.load(
                "transaction", broker, **shape, **special, topic="LoopbackTran", verify=True
            )
        found.raw += [plain, result]
        found.add("transactions ended", result["rate"], "/s")
        found.add("of the plain sends", result["rate"] / plain["rate"], "x")
        found.add("p50 of the half", result["p50_us"], "us")
        found.add("p99 of the half", result["p99_us"], "us")
        found.add("p50 of the end", result.get("end_p50_us"), "us")
        found.add("p99 of the end", result.get("end_p99_us"), "us")
        found.add("broker CPU", us_per(result, "watched_cpu_seconds", "messages"), "us/transaction")
        found.add("broker CPU, plain send", us_per(plain, "watched_cpu_seconds", "messages"), "us")
        found.add("generator CPU", us_per(result, "own_cpu_seconds", "messages"), "us/transaction")
        found.add("committed, not delivered", result["missing"], "transactions", "0")
        found.add("delivered again", result["repeated"], "transactions", "0")
        return found

    return run


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
        with idle_connections(broker, count) as idle:
            time.sleep(SETTLE_SECONDS)
            after = _memory_of(broker)
            beside = context.load("send", broker, **options)
            closed = idle.closed()
    found.add("memory for them", after.private - before.private, "MiB", "< 100")
    found.add("private memory before", before.private, "MiB")
    found.add("private memory after", after.private, "MiB")
    found.add("closed by the broker", closed, "connections", "0")
    found.add_loads([alone], suffix=", alone")
    found.add_loads([beside], target="as alone", suffix=", beside them")
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
    **{load.name: in_turns(load) for load in LOADS},
    WRITTEN: written,
    COLD: cold_consumer,
    "transactions-8x16": _transactions("transactions-8x16", "ASYNC_FLUSH", 8, 16),
    "transactions-sync-8x16": _transactions("transactions-sync-8x16", "SYNC_FLUSH", 8, 16),
    f"idle-{IDLE_CONNECTIONS}": _idle_connections,
    "idle-memory": _idle_memory,
    "start-up": _start_up,
}
