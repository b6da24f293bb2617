"""NATS JetStream, loaded by its own client, `nats bench`.

A window of it is a number of messages, as the client knows no duration: what it did in the window
before says how many. Its in-flight bound is the batch of asynchronous publishes.
"""

from __future__ import annotations

import csv
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyrmq.bench.peers.jvm import cache
from pyrmq.bench.peers.ours import folder
from pyrmq.bench.peers.peer import (
    Load,
    Measured,
    Plan,
    Serving,
    Unavailable,
    cpu_per_message,
    cpu_seconds,
    free_ports,
    output_of,
    process,
)
from pyrmq.bench.result import BenchError
from pyrmq.escape import escape

FIRST = 20_000
"""Messages of a first try, which tells the rate."""
MOST = 5_000_000
SERVER, CLIENT = (
    "github.com/nats-io/nats-server/v2@v2.14.9",
    "github.com/nats-io/natscli/nats@v0.4.0",
)
ADVICE = (
    "get it with --install (needs Go), or install the programs of these Go modules yourself, "
    f"{CLIENT} and {SERVER}, and give the client with --nats PATH; the server is looked for beside "
    "it and on PATH"
)
INSTALL_SECONDS = 900.0
_RATE = re.compile(r"(?:aggregated )?stats: ([\d,]+) msgs/sec")


class Nats:
    """client: the program `nats`; default: the one that --install built, or the one on PATH.
    install: builds client and server with Go, and keeps them."""

    key, title, compiles = "nats", "NATS JetStream", False

    def __init__(self, client: Path | None = None, install: bool = False) -> None:
        kept, found = self._kept / "nats", shutil.which("nats")
        self._client = client or (Path(found) if found and not kept.is_file() else kept)
        self._install = install and client is None
        self._rates: dict[str, float] = {}

    @property
    def _kept(self) -> Path:
        return cache() / f"nats-{SERVER.rpartition('@')[2]}"

    def _server(self) -> Path:
        beside = self._client.parent / "nats-server"
        found = str(beside) if beside.is_file() else shutil.which("nats-server")
        if found is None:
            raise Unavailable(f"nats-server is missing: {ADVICE}")
        return Path(found)

    def require(self) -> None:
        if not self._client.is_file() and self._install:
            self._build()
        if not self._client.is_file():
            raise Unavailable(f"its client `nats` is missing: {ADVICE}")
        self._server()

    def _build(self) -> None:
        go = shutil.which("go")
        if go is None:
            raise Unavailable("go is missing, which builds it: install Go, then run this again")
        self._kept.mkdir(parents=True, exist_ok=True)
        words = [go, "install"]
        for module in (SERVER, CLIENT):
            output_of([*words, module], INSTALL_SECONDS, {"GOBIN": str(self._kept)})
        self._client = self._kept / "nats"

    @contextmanager
    def serve(self, plan: Plan) -> Iterator[Serving]:
        with folder("nats", plan) as home:
            port = free_ports()
            sync = "always" if plan.flush == "SYNC_FLUSH" else "2m"
            conf = home / "nats.conf"
            conf.write_text(
                f"listen: 127.0.0.1:{port}\n"
                f'jetstream {{ store_dir: "{home}/store", max_file: 128GB, '
                f"sync_interval: {sync} }}\n"
            )
            self._rates = {}
            words = [str(self._server()), "-c", str(conf)]
            said = subprocess.run(
                [words[0], "--version"], capture_output=True, text=True, timeout=30, check=False
            )
            version = said.stdout.strip().rpartition("v")[2]
            with process(words, "Server is ready", home / "log", to_stderr=True) as (server, _):
                yield Serving(
                    f"127.0.0.1:{port}",
                    server.pid,
                    version,
                    ["nats-server", *words[1:]],
                    f"jetstream, file storage, sync_interval={sync}",
                )

    def load(self, serving: Serving, load: Load, seconds: float, warmup: float) -> Measured:
        if load.mode not in ("send", "batch") or load.topics > 1:
            raise Unavailable("it is only loaded with what publishes, to one subject")
        if load.name not in self._rates:
            self._rates[load.name] = self._run(serving, load, FIRST).rate
        if warmup > 0:
            self._rates[load.name] = self._run(serving, load, self._count(load, warmup)).rate
        found = self._run(serving, load, self._count(load, seconds))
        self._rates[load.name] = found.rate
        return found

    def _count(self, load: Load, seconds: float) -> int:
        each = max(1, round(self._rates[load.name] * seconds / load.connections))
        return min(each, MOST) * load.connections

    def _run(self, serving: Serving, load: Load, count: int) -> Measured:
        with tempfile.TemporaryDirectory(prefix="pyrmq-bench-") as place:
            file = Path(place) / "out.csv"
            # A batch of ours is one request; there the client's whole window is sent at once too.
            mode, batch = "async", load.in_flight * max(1, load.batch)
            words = [str(self._client), "--server", f"nats://{serving.address}", "--no-context"]
            words += ["bench", "js", "pub", mode, "bench.subject", "--create", "--purge"]
            words += ["--msgs", str(count), "--size", f"{load.size}B", "--batch", str(batch)]
            words += [
                "--clients",
                str(load.connections),
                "--maxbytes",
                "64GB",
                "--no-progress",
            ]
            before = cpu_seconds(serving.pid)
            text = output_of([*words, "--csv", str(file)], 600.0)
            after = cpu_seconds(serving.pid)
            cpu = before, after
            found = read_output(text, file.read_text(), count, ["nats", *words[1:]], cpu)
            if load.mode == "batch":
                found.notes.append("no batch requests: as many messages are published one by one")
            return found


def read_output(
    text: str,
    table: str,
    count: int,
    command: list[str],
    cpu: tuple[float | None, float | None] = (None, None),
) -> Measured:
    """What `nats bench` printed and its CSV, as a window. BenchError if it has no figures."""
    match = _RATE.search(text)
    rows = list(csv.DictReader(table.replace("#RunID", "RunID", 1).splitlines()))
    if match is None or not rows:
        raise BenchError(f"nats bench printed no figures: {escape(text[-500:])}")
    rate = float(match[1].replace(",", ""))
    if rate <= 0:
        raise BenchError("nats bench had a rate of 0")

    def worst(name: str) -> float | None:
        try:
            return max(float(row[f"{name}LatencyMicroSecs"]) for row in rows)
        except (KeyError, TypeError, ValueError):
            return None

    many = len(rows) > 1
    return Measured(
        rate=rate,
        messages=count,
        seconds=count / rate,
        p50_us=worst("P50"),
        p99_us=worst("P99"),
        p999_us=worst("P99.9"),
        server_cpu_us=cpu_per_message(*cpu, count),
        errors=0,
        client="nats bench",
        command=command,
        notes=["percentiles are those of the client that was slowest"] * many,
    )
