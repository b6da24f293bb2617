"""Servers side by side and sends to two of them in turns: for benchmarks of what something costs.

The ratio of a pair says what is left of the rate; CPU a message is steadier on a busy machine.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyrmq.bench.options import Options
from pyrmq.bench.result import Result
from pyrmq.bench.run import run
from pyrmq.net.client.credentials import Credentials
from pyrmq.net.client.tls import Tls

LOADS = {"8x128": (8, 128), "1x64": (1, 64), "64x1": (64, 1)}
"""Connections, and sends of each that wait for their answers."""


@dataclass(frozen=True, slots=True)
class Server:
    address: str
    pid: int
    user: Credentials | None = None
    tls: Tls | None = None


@contextmanager
def served(
    keys: Mapping[str, str],
    prepare: Callable[[Path], None] = lambda store: None,
    *,
    user: Credentials | None = None,
    tls: Tls | None = None,
    arguments: Sequence[str] = ("--log-level", "error"),
    python: str = sys.executable,
    checkout: Path | None = None,
) -> Iterator[Server]:
    """A server with these keys in its file, of this program or that of another `checkout`;
    `prepare` fills its store's folder before."""
    with tempfile.TemporaryDirectory(prefix="pyrmq-bench-") as folder:
        store = Path(folder, "store")
        store.mkdir()
        prepare(store)
        conf = f"{folder}/broker.conf"
        with open(conf, "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            for key, value in keys.items():
                file.write(f"{key}={value}\n")
        command = [python, "-m", "pyrmq", "server", "--host", "127.0.0.1", "-c", conf]
        command += ["--namesrv-port", "0", "--broker-port", "0", "--store", str(store), *arguments]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, start_new_session=True, cwd=checkout
        )
        assert process.stdout is not None
        try:
            line = process.stdout.readline().decode()
            facts = dict(word.split("=", 1) for word in line.split() if "=" in word)
            yield Server(facts["broker"], int(facts["pid"]), user, tls)
        finally:
            process.terminate()
            process.wait()
            process.stdout.close()


def measure(load: str, at: Server, user: Credentials | None, seconds: float) -> Result:
    """Sends for so many seconds, after a quarter of them. Raises SystemExit if sends fail."""
    connections, in_flight = LOADS[load]
    found = run(
        Options(
            "send",
            address=at.address,
            connections=connections,
            in_flight=in_flight,
            duration=seconds,
            warmup=seconds / 4,
            pids=[at.pid],
            credentials=user,
            tls=at.tls,
        )
    )
    if found.errors:
        raise SystemExit(f"sends failed: {found.errors[0]}")
    return found


HEAD = "without/s    with/s  ratio of pairs       CPU us of the server, ratio"


def compare(
    load: str,
    without: Server,
    with_it: Server,
    rounds: int,
    seconds: float,
    users: tuple[Credentials | None, Credentials | None],
) -> str:
    """A line of figures under HEAD: medians, and the least and the most of the ratios. `users`
    sign the sends to each."""
    rates, cpus = [], []
    for turn in range(rounds):
        pair = [(without, users[0]), (with_it, users[1])]
        found = [
            measure(load, at, user, seconds) for at, user in (pair if turn % 2 else pair[::-1])
        ]
        a, b = found if turn % 2 else found[::-1]
        rates.append((a.rate, b.rate))
        cpus.append([one.servers[0].cpu_us_per_message or 0 for one in (a, b)])
    rate = [statistics.median(one) for one in zip(*rates, strict=True)]
    cpu = [statistics.median(one) for one in zip(*cpus, strict=True)]
    ratios = [b / a for a, b in rates]
    cpu_ratios = [b / a for a, b in cpus if a]
    return (
        f"{rate[0]:9,.0f} {rate[1]:9,.0f}  {statistics.median(ratios):4.2f} "
        f"({min(ratios):4.2f} to {max(ratios):4.2f})  {cpu[0]:5.2f} {cpu[1]:5.2f}  "
        f"{statistics.median(cpu_ratios):4.2f} ({min(cpu_ratios):4.2f} to {max(cpu_ratios):4.2f})"
    )
