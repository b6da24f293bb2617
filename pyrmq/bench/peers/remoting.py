"""Loads a peer that speaks RocketMQ's remoting with `pyrmq bench`, whoever made it."""

from __future__ import annotations

from pyrmq.bench import child
from pyrmq.bench.peers.peer import Load, Measured, Serving
from pyrmq.bench.result import BenchError, Result

TOPIC = "BenchPeers"
FILL = 200_000
"""Messages that pulls read, again and again."""
QUEUES = 4
"""Of each of many topics."""


def arguments(serving: Serving, load: Load, seconds: float, warmup: float) -> list[str]:
    """Options of `pyrmq bench MODE`."""
    words = ["--address", serving.address, "--pid", str(serving.pid), "--topic", _topic(load)]
    words += ["--connections", str(load.connections), "--in-flight", str(load.in_flight)]
    words += ["--duration", f"{seconds:g}s", "--warmup", f"{warmup:g}s"]
    if load.mode != "pull":
        words += ["--size", str(load.size)]
    if load.mode == "batch":
        words += ["--batch", str(load.batch)]
    if load.mode == "pull":
        words += ["--max-msgs", str(load.batch)]
    if load.rate:
        words += ["--rate", f"{load.rate:g}"]
    if load.topics > 1:
        words += ["--topics", str(load.topics)]
    return words


def _topic(load: Load) -> str:
    return f"{TOPIC}{'Many' if load.topics > 1 else load.mode.capitalize()}"


def fill(serving: Serving, load: Load) -> None:
    """Stores what pulls read. BenchError."""
    words = ["--address", serving.address, "--topic", _topic(load), "--size", str(load.size)]
    child.run("batch", [*words, "--connections", "1", "--count", str(FILL)], quiet=True)
    serving.filled = True


def spread(serving: Serving, load: Load) -> None:
    """Sends a message to each queue of all topics. BenchError."""
    words = ["--address", serving.address, "--topic", _topic(load), "--size", str(load.size)]
    words += ["--topics", str(load.topics), "--queues", str(QUEUES)]
    words += ["--connections", "1", "--in-flight", "64", "--count", str(load.topics * QUEUES)]
    child.run("send", words, quiet=True)
    serving.spread = True


def measure(serving: Serving, load: Load, seconds: float, warmup: float) -> Measured:
    """BenchError if not one message got through."""
    if load.mode == "pull" and not serving.filled:
        fill(serving, load)
    if load.topics > 1 and not serving.spread:
        spread(serving, load)
    words = arguments(serving, load, seconds, warmup)
    result = child.run(load.mode, words, quiet=True)
    return measured(result, ["pyrmq", "bench", load.mode, *words])


def measured(result: Result, command: list[str]) -> Measured:
    if not result.messages:
        why = result.why or next((error.first for error in result.errors), "no answer")
        raise BenchError(f"not one message got through: {why}")
    latency = result.main_latency
    server = result.servers[0].cpu_us_per_message if result.servers else None
    return Measured(
        rate=result.rate,
        messages=result.messages,
        seconds=result.seconds,
        p50_us=latency.p50 if latency else None,
        p99_us=latency.p99 if latency else None,
        p999_us=latency.p999 if latency else None,
        server_cpu_us=server,
        errors=sum(error.count for error in result.errors),
        client="pyrmq bench",
        command=command,
        notes=list(result.warnings),
    )
