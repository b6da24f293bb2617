"""What a peer is: something that can be started on this machine, loaded, and stopped.

A new one is a class with the methods of `Peer` and a line in `known.py`.
"""

from __future__ import annotations

import contextlib
import os
import random
import select
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from pyrmq.bench.result import BenchError
from pyrmq.escape import escape

FLUSH = ("ASYNC_FLUSH", "SYNC_FLUSH")
START_SECONDS = 90.0
STOP_SECONDS = 30.0
KEPT = 64 << 10
"""Bytes of what a server printed that are kept."""
_TICK = os.sysconf("SC_CLK_TCK")


class Unavailable(BenchError):
    """A peer is not on this machine; the text says what is missing and how to get it."""


@dataclass(frozen=True)
class Load:
    """What each peer gets. `mode`: send, batch, pull, latency. Sizes in bytes."""

    name: str
    mode: str
    connections: int
    in_flight: int
    size: int
    batch: int = 1
    """Messages of a request, with modes batch and pull."""
    flush: str = ""
    """"": that of the plan."""
    rate: float = 0.0
    """Messages/s, with mode latency."""
    topics: int = 1
    """Topics that are sent to in turns."""
    part_of: str = ""
    """The name of a load: the rate is also shown as a part of the same peer's rate there."""

    @property
    def text(self) -> str:
        what = {"batch": f"batches of {self.batch}, ", "pull": f"pulls of {self.batch}, "}
        text = f"{what.get(self.mode, '')}{self.connections} x {self.in_flight}, {self.size} B"
        if self.mode == "latency":
            text = f"send to receive at {self.rate:,.0f}/s, {self.size} B"
        if self.topics > 1:
            text += f", {self.topics:,} topics in turns"
        return f"{text}, SYNC_FLUSH" if self.flush == "SYNC_FLUSH" else text


@dataclass(frozen=True)
class Plan:
    """How to measure. `directory`: where stores are made, and so the disk measured."""

    flush: str = "ASYNC_FLUSH"
    seconds: float = 5.0
    warmup: float = 1.0
    prepare: float = 15.0
    """Seconds of each load before its first window, for a peer that compiles as it runs."""
    rounds: int = 3
    directory: Path | None = None
    heap: str = "2g"
    """Of each JVM that serves."""


@dataclass
class Serving:
    """A started peer. `address` is host:port, `pid` the process whose CPU counts."""

    address: str
    pid: int
    version: str
    command: list[str]
    settings: str = ""
    """What was set besides defaults, for the report."""
    filled: bool = False
    """Whether it has messages to pull."""
    spread: bool = False
    """Whether each queue of many topics has a message: the first one makes its files."""


@dataclass(frozen=True)
class Window:
    """One measurement. Times in microseconds; None: the peer's client does not tell."""

    peer: str
    load: str
    round: int
    rate: float
    messages: int
    seconds: float
    p50_us: float | None
    p99_us: float | None
    p999_us: float | None
    server_cpu_us: float | None
    """CPU of the server for each message."""
    errors: int
    client: str
    """Which load generator."""
    command: list[str]
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Measured:
    """What a peer's client said: a window without its place in the run."""

    rate: float
    messages: int
    seconds: float
    p50_us: float | None
    p99_us: float | None
    p999_us: float | None
    server_cpu_us: float | None
    errors: int
    client: str
    command: list[str]
    notes: list[str] = field(default_factory=list)


class Peer(Protocol):
    """One kind of broker."""

    key: str
    title: str
    compiles: bool
    """Whether it gets faster as it runs, as a JVM does: then it has `Plan.prepare`."""

    def require(self) -> None:
        """Unavailable if it cannot be started here. May fetch what is missing, once."""

    def serve(self, plan: Plan) -> AbstractContextManager[Serving]:
        """Starts it with a new store, which is gone afterwards. BenchError if it does not start."""

    def load(self, serving: Serving, load: Load, seconds: float, warmup: float) -> Measured:
        """One window. Unavailable if its client cannot do this load, BenchError if it failed."""


@contextmanager
def process(
    words: Sequence[str],
    ready: str | int,
    log: Path,
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    to_stderr: bool = False,
) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A server: started, waited for until it prints `ready` (a text) or listens there (a port),
    stopped by SIGTERM. With the text that it printed so far. `to_stderr`: it prints that there."""
    with log.open("ab") as file:
        out, err = (file, subprocess.PIPE) if to_stderr else (subprocess.PIPE, file)
        if isinstance(ready, int):
            out = err = file
        try:
            server = subprocess.Popen(
                list(words),
                stdin=subprocess.DEVNULL,
                env={**os.environ, **(environment or {})},
                cwd=cwd,
                stdout=out,
                stderr=err,
            )
        except OSError as e:
            raise BenchError(f"{escape(words[0])} cannot be started: {e}") from None
    stream = server.stdout or server.stderr
    try:
        if isinstance(ready, int):
            _await_port(server, ready, log)
            yield server, ""
        else:
            assert stream is not None
            yield server, _await(server, stream.fileno(), ready, log)
    finally:
        # What it prints meanwhile is read by nobody: close the pipe only when it has ended.
        try:
            _stop(server)
        finally:
            if stream is not None:
                stream.close()


def _stop(server: subprocess.Popen[bytes]) -> None:
    """Returns when it has ended. A second Ctrl-C kills it: it would write into a folder that is
    removed."""
    try:
        if server.poll() is None:
            server.send_signal(signal.SIGTERM)
        server.wait(STOP_SECONDS)
    except (subprocess.TimeoutExpired, KeyboardInterrupt) as e:
        server.kill()
        server.wait()
        if isinstance(e, KeyboardInterrupt):
            raise


def _await(server: subprocess.Popen[bytes], fd: int, ready: str, log: Path) -> str:
    end, text = time.monotonic() + START_SECONDS, b""
    while ready.encode() not in text or not text.endswith(b"\n"):
        left = end - time.monotonic()
        readable = left > 0 and select.select([fd], [], [], left)[0]
        piece = os.read(fd, 4096) if readable else b""
        if not piece:
            late = f"did not print {ready!r} within {START_SECONDS:g} s"
            raise _not_started(server, late if left <= 0 else "ended", text, log)
        text = (text + piece)[-KEPT:]
    return text.decode(errors="replace")


def _await_port(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    end = time.monotonic() + START_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 5.0).close()
            return
        except OSError:
            if server.poll() is not None:
                raise _not_started(server, "ended", b"", log) from None
            if time.monotonic() > end:
                why = f"did not listen on port {port} within {START_SECONDS:g} s"
                raise _not_started(server, why, b"", log) from None
            time.sleep(0.1)


def _not_started(server: subprocess.Popen[bytes], why: str, text: bytes, log: Path) -> BenchError:
    words = server.args if isinstance(server.args, list) else [str(server.args)]
    tail = (text + log.read_bytes())[-600:].decode(errors="replace").strip()
    return BenchError(f"{escape(str(words[0]))} {why}: {escape(tail) or 'it said nothing'}")


def free_ports(*offsets: int) -> int:
    """A loopback port below those given to clients, with the ports at these distances free too."""
    for _ in range(200):
        port = random.randrange(20_000, 32_000)
        with contextlib.ExitStack() as stack:
            try:
                for near in (0, *offsets):
                    stack.enter_context(socket.socket()).bind(("127.0.0.1", port + near))
            except OSError:
                continue
            return port
    raise BenchError("no free ports on 127.0.0.1 between 20000 and 32000")


def cpu_seconds(pid: int) -> float | None:
    """User and kernel seconds of all threads of a process so far; None if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / _TICK


def cpu_per_message(before: float | None, after: float | None, messages: int) -> float | None:
    """Microseconds for each message."""
    if before is None or after is None or messages <= 0:
        return None
    return (after - before) / messages * 1e6


def finished(
    words: Sequence[str],
    seconds: float,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Runs a command in `folder`; both its streams are `stdout`. OSError, or TimeoutExpired if it
    takes longer."""
    return subprocess.run(
        list(words),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=seconds,
        env={**os.environ, **(environment or {})},
        check=False,
    )


def output_of(
    words: Sequence[str], seconds: float, environment: Mapping[str, str] | None = None
) -> str:
    """What a client printed, both streams. BenchError if it failed or took longer."""
    try:
        done = finished(words, seconds, environment)
    except subprocess.TimeoutExpired:
        raise BenchError(f"{escape(words[0])} was not done within {seconds:g} s") from None
    except OSError as e:
        raise BenchError(f"{escape(words[0])} cannot be started: {e}") from None
    if done.returncode != 0:
        said = escape(done.stdout.strip()[-300:])
        raise BenchError(f"{escape(words[0])} failed ({done.returncode}): {said}")
    return done.stdout
