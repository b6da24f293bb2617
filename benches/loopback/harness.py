"""Starts what a measurement needs: a server in a temporary store, and the load generator."""

from __future__ import annotations

import json
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LOADGEN = Path(__file__).resolve().parent.parent / "loadgen"
READY_SECONDS = 30.0
STOP_SECONDS = 20.0


class HarnessError(RuntimeError):
    """Something the benchmark needs did not start, or broke."""


@dataclass(frozen=True)
class Broker:
    """A broker to measure. `pid` is None when only its address is known."""

    host: str
    port: int
    pid: int | None
    started: float
    """`time.perf_counter()` just before the process was created; 0.0 for one already running."""
    namesrv: str = ""
    """Its name server, `host:port`, if that is known."""

    @property
    def addr(self) -> str:
        return f"{self.host}:{self.port}"


def await_ready(process: subprocess.Popen[str], log: Path) -> dict[str, str]:
    """The fields of the line `ready namesrv=... broker=... store=... pid=...`."""
    assert process.stdout is not None
    deadline = time.monotonic() + READY_SECONDS
    while (left := deadline - time.monotonic()) > 0:
        if not select.select([process.stdout], [], [], left)[0]:
            break
        line = process.stdout.readline()
        if not line:
            break
        if line.startswith("ready "):
            return dict(re.findall(r"(\w+)=(\S+)", line))
    tail = "\n".join(log.read_text(errors="replace").splitlines()[-20:])
    raise HarnessError(f"the server did not get ready (exit status {process.poll()}):\n{tail}")


def stop(process: subprocess.Popen[str]) -> None:
    """SIGTERM, and SIGKILL when that takes too long."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextmanager
def server(
    flush: str = "ASYNC_FLUSH",
    command: Sequence[str] = (sys.executable, "-m", "pyrmq", "server"),
    directory: Path | None = None,
) -> Iterator[Broker]:
    """A `pyrmq server` on free loopback ports with a new store, gone afterwards.

    `directory` is where the store is made (default: the system's temporary directory); the disk
    it lies on is the one measured.
    """
    home = Path(tempfile.mkdtemp(prefix="pyrmq-bench-", dir=directory))
    log = home / "server.log"
    words = [*command, "--store", str(home / "store"), "--host", "127.0.0.1"]
    words += ["--namesrv-port", "0", "--broker-port", "0", "--flush", flush]
    try:
        with log.open("w") as stderr:
            started = time.perf_counter()
            process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr, text=True
            )
        try:
            fields = await_ready(process, log)
            host, _, port = fields["broker"].rpartition(":")
            pid = int(fields.get("pid", process.pid))
            yield Broker(host, int(port), pid, started, fields.get("namesrv", ""))
        finally:
            stop(process)
            assert process.stdout is not None
            process.stdout.close()
    finally:
        shutil.rmtree(home, ignore_errors=True)


def build_loadgen() -> Path:
    """Builds the generator when it is not up to date; returns the binary."""
    if shutil.which("cargo") is None:
        raise HarnessError("cargo is missing: the load generator is a small Rust program")
    subprocess.run(["cargo", "build", "--release", "--quiet", "--locked"], cwd=LOADGEN, check=True)
    return LOADGEN / "target" / "release" / "loadgen"


def _words(mode: str, addr: str, options: Mapping[str, object]) -> list[str]:
    words = [mode, "--addr", addr]
    for name, value in options.items():
        words.append("--" + name.replace("_", "-"))
        if value is not True:  # else a switch
            words.append(str(value))
    return words


def generate(
    binary: Path, mode: str, broker: Broker, options: Mapping[str, object], limit: float = 120.0
) -> dict[str, Any]:
    """One run of the generator with `options` ("in_flight" is --in-flight): its line as a dict.

    The generator itself reads the broker's CPU time (`watched_cpu_seconds`, from /proc/PID/stat)
    at the moments its measured window opens and closes, so that neither the warm-up nor the start
    of a process is counted. A run in which the broker refused requests is returned with `refused`
    above 0; one that failed raises HarnessError.
    """
    words = [str(binary), *_words(mode, broker.addr, options)]
    if broker.pid is not None:
        words += ["--watch-pid", str(broker.pid)]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        raise HarnessError(f"no result within {limit:g} s: {' '.join(words)}") from None
    if done.returncode not in (0, 1) or not done.stdout:
        raise HarnessError(f"{' '.join(words)}\n{done.stderr.strip()}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result


@contextmanager
def idle_connections(
    binary: Path, broker: Broker, count: int, limit: float = 120.0
) -> Iterator[dict[str, Any]]:
    """Holds `count` open and silent connections during the block.

    The dict that is given is empty at first; after the block it holds the generator's result
    (`closed_by_broker`, `opening_seconds`).
    """
    words = _words("idle", broker.addr, {"connections": count, "seconds": limit})
    process = subprocess.Popen(
        [str(binary), *words, "--stdin"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin
    assert process.stdout
    assert process.stderr
    result: dict[str, Any] = {}
    try:
        ready = select.select([process.stderr], [], [], limit)[0]
        line = process.stderr.readline() if ready else ""
        if not line.startswith("open "):
            raise HarnessError(f"{count} idle connections could not be opened: {line.strip()}")
        yield result
        process.stdin.close()
        result.update(json.loads(process.stdout.readline()))
    finally:
        process.stdin.close()  # ends it, whatever happened above
        try:
            process.wait(5.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
        process.stderr.close()
