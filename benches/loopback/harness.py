"""Starts what a measurement needs: a server in a temporary store."""

from __future__ import annotations

import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

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
