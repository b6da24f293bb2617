"""CPU of clients for each message, with the broker in another process.

The yardstick is trio's: a task that waits and is woken (`switches`). What counts is the median of
windows of 1,000 messages; others on the machine make all of them slower, the yardstick too.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
import trio

from benches.client import loads
from benches.client.imports import import_seconds
from benches.client.loads import Measured
from benches.loopback.harness import server
from tests.system.interop import toolchain
from tests.system.interop.drivers import Driver

FULL = os.environ.get("PYRMQ_BENCH_FULL") == "1"
COUNT = 200_000 if FULL else 20_000
MEMORY = 10_000_000 if FULL else 100_000
ROUNDS = 3
PEER = Path(__file__).parent / "client" / "Peer.java"
PEER_WARM_UP = 20_000
"""As in Peer.java and bench.go: a virtual machine has to compile what it runs."""

pytestmark = pytest.mark.benchmark(group="client CPU a message, 128 B")


@pytest.fixture(scope="module")
def namesrv() -> Iterator[str]:
    """Of a server of its own."""
    with server() as broker:
        yield broker.namesrv


Report = Callable[..., None]


def in_turns(benchmark, report: Report, work: Callable[[], Measured], target: str) -> None:
    """Reports the median of some rounds, with the yardstick between them."""
    found: list[Measured] = []
    yard: list[Measured] = []

    def timed() -> None:
        found.append(work())
        yard.append(trio.run(loads.switches, 50_000))

    benchmark.pedantic(timed, rounds=ROUNDS)
    ours = sorted(found, key=lambda m: m.cpu_us)[ROUNDS // 2]
    switch = sorted(m.cpu_us for m in yard)[ROUNDS // 2]
    best = min(m.best_us for m in found)
    report(f"{ours.cpu_us:.1f} us of CPU, {best:.1f} in the best window", target)
    report(f"{ours.cpu_us / switch:.1f} times a task that waits and is woken ({switch:.1f} us)")


def test_send(namesrv: str, benchmark, report: Report) -> None:
    work = partial(trio.run, partial(loads.send, namesrv, "BenchSend", COUNT))
    in_turns(benchmark, report, work, "40 us")


def test_send_collected(namesrv: str, benchmark, report: Report) -> None:
    """With the accumulator."""
    load = partial(loads.send, namesrv, "BenchSend", COUNT, auto_batch=True)
    in_turns(benchmark, report, partial(trio.run, load), "3 us")


def test_send_soon(namesrv: str, benchmark, report: Report) -> None:
    """With no task that waits for each."""
    load = partial(loads.send_soon, namesrv, "BenchSend", COUNT)
    in_turns(benchmark, report, partial(trio.run, load), "3 us")


def test_consume(namesrv: str, benchmark, report: Report) -> None:
    trio.run(loads.fill, namesrv, "BenchFilled", COUNT + loads.WARM_UP)
    groups = iter(range(ROUNDS))

    def work() -> Measured:
        group = f"bench-client-{next(groups)}"
        return trio.run(loads.consume, namesrv, group, "BenchFilled", COUNT + loads.WARM_UP)

    in_turns(benchmark, report, work, "12 us")


@pytest.mark.parametrize("load", ["send", "send-collected", "consume"])
def test_java(load: str, namesrv: str, benchmark, report: Report) -> None:
    """The same with Apache's Java client."""
    try:
        driver = toolchain.java_driver(toolchain.NEWEST)
    except (toolchain.Missing, toolchain.BuildFailed) as e:
        pytest.skip(str(e))
    java = [word for word in driver[:-1] if word not in toolchain.SHORT_LIVED_JVM]
    if load == "consume":
        trio.run(loads.fill, namesrv, "BenchPeer", COUNT + PEER_WARM_UP)
    topic = "BenchPeer" if load == "consume" else "BenchSend"
    words = [*java, str(PEER), load, namesrv, topic, str(COUNT), "bench-client-java"]
    done = benchmark.pedantic(
        subprocess.run,
        args=(words,),
        kwargs={"capture_output": True, "text": True, "check": True, "timeout": loads.LIMIT},
        rounds=1,
    )
    report(f"{float(done.stdout):.1f} us of CPU", "")


@pytest.mark.parametrize("load", ["send", "consume"])
def test_go(load: str, namesrv: str, benchmark, report: Report) -> None:
    """The same with Apache's Go client. (It collects no sends.)"""
    try:
        command = toolchain.go_driver()
    except (toolchain.Missing, toolchain.BuildFailed) as e:
        pytest.skip(str(e))
    topic = "BenchPeerGo" if load == "consume" else "BenchSend"
    if load == "consume":
        trio.run(loads.fill, namesrv, topic, COUNT + PEER_WARM_UP)
    go = Driver("go", tuple(command), namesrv, lambda: "")
    words = {"topic": topic, "group": "bench-client-go", "count": COUNT}
    done = benchmark.pedantic(
        go.run, args=(f"bench-{load}", int(loads.LIMIT)), kwargs=words, rounds=1
    )
    report(f"{done.summary['cpuUs']:.1f} us of CPU", "")


def test_memory(namesrv: str, benchmark, report: Report) -> None:
    """What the process grows by while it sends and consumes."""
    load = partial(loads.send, namesrv, "BenchMemory", MEMORY, auto_batch=True)
    sent = benchmark.pedantic(trio.run, args=(load,), rounds=1)
    eaten = trio.run(loads.consume, namesrv, "bench-memory", "BenchMemory", MEMORY)
    for what, measured in (("sent", sent), ("consumed", eaten)):
        report(f"{measured.grown / 1024:.0f} KiB more after {measured.count:,} {what}", "flat")


@pytest.mark.parametrize(
    ("module", "target"),
    [
        ("pyrmq", "60 ms"),
        ("pyrmq.client", "150 ms"),
        ("pyrmq.client.producer.producer", ""),
        ("trio", ""),
    ],
)
def test_import(module: str, target: str, benchmark, report: Report) -> None:
    """trio is what all clients import."""
    cpu, wall = benchmark.pedantic(import_seconds, args=(module,), rounds=1)
    report(f"{wall * 1000:.0f} ms, {cpu * 1000:.0f} ms of CPU", target)
