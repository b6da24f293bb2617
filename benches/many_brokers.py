"""Several brokers on one machine: rate and CPU a message of N processes, and what follows from it
for a machine with more cores.

    python -m benches.many_brokers [--brokers 1,2] [--rounds 3] [--seconds 5] [--cores 16]

A `pyrmq server --brokers N` for each N runs, all at the same time, each with a new store on the
same disk. In each round each has one window of `pyrmq bench send`; before it everything is written
to the disk. Few connections with many requests under way are the load that takes the generator
least, and so leaves the brokers most of a machine that both share. CPU is that of the broker
processes, all threads. With N = 1 the name server is in the same process; it has nothing to do
meanwhile.

The calculation behind it takes CPU a message of the largest N, the rate of copies in memory and the
rate of the disk, both measured here, and says which of them ends first on a machine with --cores.
Its assumptions are options; it prints them.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

import numpy as np

from pyrmq.bench.result import Result, read_result
from tests.support.command import PYRMQ, environment

READY = re.compile(r"(?P<name>[\w-]+): ready .* pid=(?P<pid>\d+)")
BLOCK = 4 << 20
COPIED = 256 << 20
"""Bytes of the buffers that are copied: no cache holds them."""
PER_RECORD = 220
"""Bytes of the log beside the body of a message of this load: head, topic and properties."""
PER_ENTRIES = 60
"""Bytes of its entries in queue and index."""


@dataclass(frozen=True)
class Machine:
    """What a machine can do, and what is assumed of it."""

    cores: int
    client_cores: int
    """Cores that the brokers do not get."""
    scaling: float
    """CPU a message there in parts of that here: 1.2 is a fifth more."""
    copies: int
    """How often the bytes of a message are moved in memory: from the network card, into the
    program, into the page cache, to the disk."""
    memory: float
    """Bytes/s that all cores together copy."""
    disk: float
    """Bytes/s that are flushed."""
    network: float
    """Bytes/s."""


@dataclass(frozen=True)
class Limit:
    what: str
    rate: float
    """Messages/s."""
    how: str


def limits(cpu_us: float, size: int, machine: Machine) -> list[Limit]:
    """What ends the rate of a machine, the lowest first. `cpu_us`: of the brokers for a message of
    `size` bytes."""
    m, stored = machine, size + PER_RECORD
    brokers = m.cores - m.client_cores
    found = [
        Limit(
            "CPU",
            brokers * 1e6 / (cpu_us * m.scaling),
            f"{brokers} cores / ({cpu_us:.2f} us x {m.scaling:g})",
        ),
        Limit(
            "memory",
            m.memory / (stored * m.copies),
            f"{m.memory / 1e9:.1f} GB/s / ({stored} bytes x {m.copies} copies)",
        ),
        Limit(
            "disk",
            m.disk / (stored + PER_ENTRIES),
            f"{m.disk / 1e9:.2f} GB/s / {stored + PER_ENTRIES} bytes",
        ),
        Limit("network", m.network / stored, f"{m.network / 1e9:.2f} GB/s / {stored} bytes"),
    ]
    return sorted(found, key=lambda limit: limit.rate)


def memory_rate(threads: int, seconds: float = 1.0) -> float:
    """Bytes/s that so many threads copy together, each between two buffers of its own."""

    def copy(_: int) -> float:
        source, target = np.ones(COPIED, np.uint8), np.ones(COPIED, np.uint8)
        start, copied = time.perf_counter(), 0
        while (spent := time.perf_counter() - start) < seconds or not copied:
            np.copyto(target, source)
            copied += COPIED
        return copied / spent

    with ThreadPoolExecutor(threads) as pool:
        return sum(pool.map(copy, range(threads)))


def disk_rate(folder: Path, total: int) -> float:
    """Bytes/s that are written and flushed with fdatasync, 64 MiB at a time."""
    block = os.urandom(BLOCK)
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        start = time.perf_counter()
        for at in range(0, total, BLOCK):
            os.pwrite(file.fileno(), block, at)
            if at // BLOCK % 16 == 15:
                os.fdatasync(file.fileno())
        os.fdatasync(file.fileno())
        return total / (time.perf_counter() - start)


@dataclass(frozen=True)
class Cluster:
    brokers: int
    namesrv: str
    pids: list[int]


@contextmanager
def cluster(folder: Path, brokers: int) -> Iterator[Cluster]:
    """A `pyrmq server --brokers N` that serves."""
    command = [*PYRMQ, "server", "--brokers", str(brokers), "--store", str(folder / "store")]
    command += ["--namesrv-port", "0", "--broker-port", "0", "--log-level", "error"]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, env=environment()
    ) as process:
        try:
            pids = []
            assert process.stdout is not None
            for line in process.stdout:
                if found := READY.match(line):
                    pids.append(int(found["pid"]))
                elif line.startswith("ready "):
                    facts = dict(word.partition("=")[::2] for word in line.split()[1:])
                    yield Cluster(brokers, facts["namesrv"], pids or [int(facts["pid"])])
                    return
            raise SystemExit(f"pyrmq server --brokers {brokers} does not start")
        finally:
            process.terminate()
            process.wait(60)


def window(folder: Path, to: Cluster, args: argparse.Namespace) -> Result:
    """One window of the load; everything that was written before it is on the disk."""
    os.sync()
    file = folder / "result.json"
    command = [*PYRMQ, "bench", "send", "-n", to.namesrv, "--json", str(file), "--no-progress"]
    command += ["-c", str(args.connections), "-i", str(args.in_flight), "-s", str(args.size)]
    command += ["-d", f"{args.seconds}s", "--warmup", f"{args.warmup}s", "--queues", "4"]
    command += [word for pid in to.pids for word in ("--pid", str(pid))]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment())
    return read_result(file)


def cpu_us(result: Result) -> float:
    """CPU of all brokers, for a message."""
    return sum(server.cpu_seconds for server in result.servers) * 1e6 / max(result.messages, 1)


def spread(values: Sequence[float], form: str) -> str:
    middle, least, most = median(values), min(values), max(values)
    return f"{middle:{form}}" + ("" if len(values) == 1 else f" ({least:{form}} to {most:{form}})")


def report(results: dict[int, list[Result]], size: int, machine: Machine) -> Iterator[str]:
    """Markdown."""
    yield "| Brokers | Messages/s | CPU of the brokers a message | Generator, of a core | Errors |"
    yield "|---|---|---|---|---|"
    for brokers, of in results.items():
        limit = ", **the limit**" if any(one.generator.limit for one in of) else ""
        yield (
            f"| {brokers} | {spread([one.rate for one in of], ',.0f')} "
            f"| {spread([cpu_us(one) for one in of], '.2f')} us "
            f"| {spread([one.generator.busy for one in of], '.2f')}{limit} "
            f"| {sum(error.count for one in of for error in one.errors)} |"
        )
    most = max(results)
    cost = median(cpu_us(one) for one in results[most])
    yield ""
    yield (
        f"On {machine.cores} cores, with the CPU a message of {most} brokers, messages of {size} "
        "bytes. The lowest line is the limit:"
    )
    yield ""
    yield "| What | Messages/s | From |"
    yield "|---|---|---|"
    for limit_of in limits(cost, size, machine):
        yield f"| {limit_of.what} | {limit_of.rate:,.0f} | {limit_of.how} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    add = parser.add_argument
    add("--brokers", default="1,2", help="numbers of brokers, with commas (1,2)")
    add("--rounds", type=int, default=3, help="windows of each (3)")
    add("--seconds", type=float, default=5, help="length of a window (5)")
    add("--warmup", type=float, default=2, help="load before it (2)")
    add("--connections", type=int, default=4, help="of the load (4)")
    add("--in-flight", type=int, default=128, help="requests under way on each (128)")
    add("--size", type=int, default=1024, help="bytes of a body (1024)")
    add("--dir", type=Path, help="a folder on the disk to measure")
    add("--disk-bytes", type=int, default=512 << 20, help="written to measure the disk (512 MiB)")
    add("--cores", type=int, default=16, help="of the machine of the calculation (16)")
    add("--client-cores", type=int, default=0, help="of these, not for brokers (0)")
    add("--scaling", type=float, default=1.0, help="CPU a message there, in parts of here (1)")
    add("--copies", type=int, default=4, help="of the bytes of a message in memory (4)")
    add("--memory-gbs", type=float, help="GB/s there (those of all cores here)")
    add("--disk-gbs", type=float, help="GB/s there (those of here)")
    add("--network-gbit", type=float, default=25, help="Gbit/s there (25)")
    args = parser.parse_args()
    numbers = [int(word) for word in args.brokers.split(",")]
    cores = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory(dir=args.dir) as name, ExitStack() as stack:
        folder = Path(name)
        memory = memory_rate(cores)
        disk = disk_rate(folder, args.disk_bytes)
        clusters = []
        for number in numbers:
            (folder / str(number)).mkdir()
            clusters.append(stack.enter_context(cluster(folder / str(number), number)))
        results: dict[int, list[Result]] = {number: [] for number in numbers}
        for turn in range(args.rounds):
            for to in clusters if turn % 2 == 0 else reversed(clusters):
                results[to.brokers].append(window(folder, to, args))
    machine = Machine(
        cores=args.cores,
        client_cores=args.client_cores,
        scaling=args.scaling,
        copies=args.copies,
        memory=memory if args.memory_gbs is None else args.memory_gbs * 1e9,
        disk=disk if args.disk_gbs is None else args.disk_gbs * 1e9,
        network=args.network_gbit * 1e9 / 8,
    )
    sys.stdout.write(
        f"{datetime.now(UTC):%Y-%m-%d}, {cores} cores; {args.rounds} windows of {args.seconds:g} s "
        f"in turns, {args.connections} x {args.in_flight}, {args.size} bytes. Memory copies "
        f"{memory / 1e9:.1f} GB/s with {cores} threads, the disk {disk / 1e9:.2f} GB/s.\n\n"
    )
    sys.stdout.writelines(f"{line}\n" for line in report(results, args.size, machine))


if __name__ == "__main__":
    main()
