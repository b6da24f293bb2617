"""Runs one load and makes its result."""

from __future__ import annotations

import datetime
import math
import time
import zlib
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import trio

from pyrmq.bench.bodies import bodies
from pyrmq.bench.embedded import embedded
from pyrmq.bench.environment import environment
from pyrmq.bench.loads import Role, config, roles
from pyrmq.bench.mixed import Mixed
from pyrmq.bench.options import RECEIVING, OptionError, Options
from pyrmq.bench.result import (
    BenchError,
    Connections,
    Environment,
    ErrorCount,
    Generator,
    Interval,
    Latency,
    Result,
    ServerUsage,
    Verify,
)
from pyrmq.bench.where import find
from pyrmq.engine import BenchRun

LOOK = 0.05
"""Seconds from one look at the run to the next."""
BUSY = 0.85
"""Of a core: a thread of the generator that is busier was probably the limit."""
LATE_US = 5000.0
"""A timer that came later, p99, says that the generator did not get the CPU it needed."""
REACHED = 0.99
SAME_SIGNAL = 0.5
"""Seconds in which a second Ctrl-C is the first one again."""

Progress = Callable[[dict[str, Any]], None]
"""Called with each second's snapshot: see `BenchRun.snapshot`."""


def run(options: Options, progress: Progress | None = None) -> Result:
    """Starts what is to be started, finds the queues, loads them. KeyboardInterrupt while it
    measures ends the run: the result says so. OptionError, ConnectError, ResponseError or
    BenchError if it does not come to that."""
    options = replace(options, pids=list(options.pids))
    options.check()
    mixed = None
    content: dict[str, Any] = {}
    made: list[bytes] | None = None
    if options.file:
        mixed = Mixed.read(options.file, options.topic, options.topics)
        mixed.check(options)
        content["mixed"] = mixed.content()
    if options.payload_files or not options.reads_only:
        # What is wrong is told at once. A file is read once: it may be a pipe.
        made = bodies(options.size, options.payload_files)
        if options.payload_files:
            content["payload"] = [{"bytes": len(b), "crc32": zlib.crc32(b)} for b in made]
    with ExitStack() as stack:
        settings = options.settings() | content
        store: Path | None = None
        if options.embedded:
            server = stack.enter_context(embedded(options.flush))
            store = server.store
            options = replace(options, namesrv=server.namesrv, pids=[*options.pids, server.pid])
        topics = mixed.topics() if mixed else options.topic_names()
        at_end = options.load == "pop" and not options.from_start
        pops = [(options.group, topic) for topic in topics] if at_end else []
        places = trio.run(find, options, topics, mixed.popped(options) if mixed else pops)
        if mixed:
            found: list[Role] = mixed.roles(options, places, made)
        else:
            found = roles(options, places, made)
        where = environment(places.facts, store)
        started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        hosts = {master.ip: master.address for master in places.masters}
        report = _measure(config(options, found, hosts), progress)
    return _result(options, settings, started, report, where, found)


def _measure(native: dict[str, Any], progress: Progress | None) -> dict[str, Any]:
    try:
        one = BenchRun(native)
    except (ValueError, OverflowError) as e:
        raise OptionError(str(e)) from None
    seen = 0.0
    interrupted = -math.inf
    while True:
        try:
            while not one.ended():
                time.sleep(LOOK)
                snapshot = one.snapshot()
                if progress and snapshot["seconds"] > seen:
                    seen = snapshot["seconds"]
                    progress(snapshot)
            break
        except KeyboardInterrupt:
            # A terminal and a parent process may both send the same Ctrl-C.
            if time.monotonic() - interrupted > SAME_SIGNAL:
                one.stop()
                interrupted = time.monotonic()
    try:
        return one.finish()
    except ValueError as e:
        if interrupted > 0:
            raise KeyboardInterrupt from None
        raise BenchError(str(e)) from None


def _result(
    options: Options,
    settings: dict[str, Any],
    started: str,
    report: dict[str, Any],
    where: Environment,
    found: list[Role],
) -> Result:
    received = options.load in RECEIVING
    messages, requests, size = report["consumed" if received else "produced"]
    if options.load == "pop" and report["ended"] == "error" and not messages:
        raise BenchError(report["why"])
    seconds = report["seconds"]
    rates = [role["rate"] for role in found if role["rate"]]
    target = sum(rates) if rates else None
    per = max(seconds, 1e-9)
    produced = report["produced"][0] / per
    reached = None if target is None else produced >= target * REACHED
    latency = {
        kind: Latency(measured_from=_from(kind, target), **row)
        for kind, row in report["latency"].items()
    }
    main = next((k for k in ("end_to_end", "late", "request") if k in latency), "request")
    generator = Generator(
        threads=options.threads,
        cpu_seconds=report["cpu_seconds"],
        busy=min(report["busy"], 1.0),
        late_us=report["late_us"],
        limit=report["busy"] >= BUSY or report["late_us"] > LATE_US,
    )
    wanted, lost, reconnected = report["connections"]
    servers = [
        ServerUsage(cpu_us_per_message=s["cpu_seconds"] / messages * 1e6 if messages else None, **s)
        for s in report["servers"]
    ]
    made = Result(
        load=options.load,
        loop="closed" if target is None else "open",
        settings=settings,
        command=options.command,
        started=started,
        ended="interrupted" if report["cut"] else report["ended"],
        why=report["why"],
        seconds=seconds,
        messages=messages,
        requests=requests,
        bytes=size,
        rate=messages / per,
        request_rate=requests / per,
        byte_rate=size / per,
        target_rate=target,
        rate_reached=reached,
        latency=latency,
        errors=[ErrorCount(**row) for row in report["errors"]],
        verify=Verify(**report["verify"]) if report["verify"] else None,
        generator=generator,
        servers=servers,
        connections=Connections(wanted, lost, reconnected),
        intervals=[_interval(row, received, main) for row in report["intervals"]],
        warnings=[],
        environment=where,
    )
    made.warnings.extend(_warnings(made, report, produced))
    made.warnings.extend(_uneven(found, wanted))
    return made


def _from(kind: str, target: float | None) -> str:
    return "sent" if kind in ("commit", "ack") or target is None else "due"


def _interval(row: dict[str, Any], received: bool, main: str) -> Interval:
    p50, p99, most = row["latency"].get(main, (0.0, 0.0, 0.0))
    return Interval(
        at=row["at"],
        seconds=row["seconds"],
        messages=row["consumed" if received else "produced"],
        errors=row["errors"],
        p50=p50,
        p99=p99,
        max=most,
        measured=row["measured"],
        backlog=row["behind"] + row["unreceived"],
    )


def _uneven(found: list[Role], opened: int) -> list[str]:
    """What connections cannot do as they were asked for."""
    said = []
    asked = 0
    for role in found:
        brokers = len({target[2] for target in role["targets"]})
        asked += max(role["connections"], brokers)
        rest = role["connections"] % brokers
        if role["payloads"] and role["rate"] is None and role["connections"] > brokers and rest:
            said.append(
                f"{role['connections']} connections are not the same number on each of {brokers} "
                "brokers: in a closed loop some brokers get more than others. Use a multiple."
            )
    if opened < asked:
        said.append(
            f"Only {opened} of {asked} connections were used: a queue is received on one, and "
            "there are not more queues."
        )
    return said


def _warnings(made: Result, report: dict[str, Any], produced: float) -> list[str]:
    found = []
    if made.generator.busy >= BUSY:
        found.append(
            f"The load generator used {made.generator.busy:.0%} of a core in its busiest thread: "
            "it was probably the limit. Use more --threads, or another machine."
        )
    if made.generator.late_us > LATE_US:
        found.append(
            f"The load generator woke up late (p99 {made.generator.late_us / 1000:.1f} ms): it did "
            "not get the CPU it needed, and the latencies contain that."
        )
    if made.rate_reached is False and made.target_rate is not None:
        found.append(
            f"The rate of {made.target_rate:,.0f} messages/s was not reached: it was "
            f"{produced:,.0f}. {report['behind']:,} requests were due and not sent at the end."
        )
    elif report["behind"] > max(1, made.requests * (1 - REACHED) / 10):
        found.append(
            f"{report['behind']:,} requests were due and not sent when the window closed: their "
            "latencies count as the time until then."
        )
    unopened = any(error.kind == "connect-failed" for error in made.errors)
    if made.verify and made.verify.lost and unopened:
        found.append(
            "Connections could not be opened: messages that count as lost may be stored, and could "
            "not be read back."
        )
    for server in made.servers:
        if server.ended:
            found.append(
                f"Process {server.pid} ({server.name}) ended during the run: its figures are those "
                "of the last look."
            )
    if report["unreceived"]:
        found.append(
            f"{report['unreceived']:,} messages were acknowledged and not received: they are not "
            "in the latencies."
        )
    if report["early"]:
        found.append(
            f"{report['early']:,} messages came before their delay had passed: they count as 0."
        )
    if report["cut"]:
        found.append(
            "Nobody waited for what was still on its way: messages that count as lost or without "
            "an answer may be stored."
        )
    elif made.ended == "interrupted":
        found.append("The run was interrupted: the result is that of the time until then.")
    if made.ended == "error":
        found.append(f"The run ended early: {made.why}")
    if not made.messages:
        found.append("Not one message was counted in the measured window.")
    return found
