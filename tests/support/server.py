"""A `pyrmq server` child process for tests: start, watch, stop, kill, restart.

    with ServerProcess(tmp_path / "store") as server:
        server.broker                    # ("127.0.0.1", 34568)
        server.kill()                    # SIGKILL
        server.restart()                 # same store, same ports

The command is this interpreter's ``-m pyrmq server``; ``PYRMQ_TEST_SERVER`` names another one,
split like a shell would (an installed wheel elsewhere, a wrapper).
Every wait has a deadline; what the server wrote to stderr is in every error raised here.
"""

from __future__ import annotations

import os
import re
import select
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support import forked, ports

Address = tuple[str, int]

_READY = re.compile(
    r"ready namesrv=(\S+):(\d+) broker=(\S+):(\d+) store=(.+?) pid=(\d+)(?: unregistered=\S+)?$"
)


class ServerFailed(Exception):
    """The server did not start, stop or live as it should; the text ends with its stderr."""


class ServerProcess:
    """One server at a time on one store; ``restart`` starts the next on the same store.

    store: directory, created by the server. conf: text of a broker.conf (RocketMQ's keys), passed
    with ``-c``. A port that is 0 is reserved for all runs (tests/support/ports.py). args: further
    command-line arguments. stderr of all runs goes to ``log`` (default: beside the store), which is
    appended to. own_group: Ctrl-C in a terminal does not reach the server.
    """

    def __init__(
        self,
        store: Path,
        *,
        flush: str = "ASYNC_FLUSH",
        conf: str = "",
        host: str = "127.0.0.1",
        namesrv_port: int = 0,
        broker_port: int = 0,
        args: tuple[str, ...] = (),
        env: dict[str, str] | None = None,
        log: Path | None = None,
        start_timeout: float = 60.0,
        own_group: bool = False,
    ) -> None:
        self.store = Path(store)
        self.flush = flush
        self.conf = conf
        self.host = host
        self.args = args
        self.env = env or {}
        self.log = log or self.store.with_name(self.store.name + ".stderr.log")
        self.start_timeout = start_timeout
        self.own_group = own_group
        self.namesrv: Address = (host, namesrv_port)
        self.broker: Address = (host, broker_port)
        self.stdout_rest = b""  # what the last run printed behind its ready line
        self._process: subprocess.Popen[bytes] | None = None
        self._reserved: list[int] = []

    def __enter__(self) -> Self:
        if self._process is None:
            self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if not self.running:
                self._close()
            elif kind is None:
                self.terminate()
            else:
                self.kill()
        finally:
            ports.give_back(*self._reserved)
            self._reserved.clear()

    # -- life ---------------------------------------------------------------------------------

    def start(self) -> Self:
        """Start and wait for the ready line."""
        self.spawn()
        try:
            self.wait_ready()
        except BaseException:
            self.kill()
            raise
        return self

    def spawn(self) -> None:
        """Start without waiting: for tests that kill during start-up."""
        if self.running:
            raise ServerFailed("already running")
        self._close()
        self.namesrv, self.broker = self._reserve(self.namesrv), self._reserve(self.broker)
        self.store.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self._process = forked.popen(
                self._command(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **self.env},
                process_group=0 if self.own_group else None,
            )

    def wait_ready(self) -> None:
        """Read stdout up to the ready line; take addresses from it."""
        stdout = self._popen.stdout
        assert stdout is not None
        deadline = time.monotonic() + self.start_timeout
        seen = b""
        while b"\n" not in seen:
            left = deadline - time.monotonic()
            if left <= 0:
                raise self._failure(f"no ready line within {self.start_timeout} s, got {seen!r}")
            if not select.select([stdout], [], [], left)[0]:
                continue
            piece = os.read(stdout.fileno(), 4096)
            if not piece:
                code = self._popen.wait(timeout=max(left, 1))
                raise self._failure(f"exit code {code} before the ready line, got {seen!r}")
            seen += piece
        first, self.stdout_rest = seen.split(b"\n", 1)
        line = first.decode()
        match = _READY.match(line)
        if match is None:
            raise self._failure(f"first line on stdout is {line!r}")
        self.namesrv = (match[1], int(match[2]))
        self.broker = (match[3], int(match[4]))

    def terminate(self, timeout: float = 60.0, signum: int = signal.SIGTERM) -> None:
        """Graceful stop; an exit code other than 0 or a stop that takes too long is an error."""
        self._popen.send_signal(signum)
        try:
            code = self._popen.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise self._failure(f"not stopped {timeout} s after signal {signum}") from None
        self._close()
        if code != 0:
            raise self._failure(f"exit code {code} after signal {signum}")

    def kill(self) -> None:
        """SIGKILL, then reap; fine on a process that has already gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(30)
            self._close()

    def restart(self, *, same_ports: bool = True) -> Self:
        """Start again on the same store; stops a running server gracefully first."""
        if self.running:
            self.terminate()
        if not same_ports:
            self.namesrv = (self.host, 0)
            self.broker = (self.host, 0)
        return self.start()

    # -- what the process looks like from outside -----------------------------------------------

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        return self._popen.pid

    def status_kib(self, field: str) -> int:
        """A memory figure of /proc/PID/status in KiB: RssAnon, VmRSS, VmHWM, ..."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        match = re.search(rf"^{field}:\s+(\d+) kB$", status, re.MULTILINE)
        if match is None:
            raise self._failure(f"/proc/{self.pid}/status has no {field}")
        return int(match[1])

    def open_files(self) -> int:
        """How many file descriptors the process holds."""
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def threads(self) -> int:
        """How many threads the process has."""
        return len(os.listdir(f"/proc/{self.pid}/task"))

    def stderr_text(self) -> str:
        """Everything all runs on this store wrote to stderr."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    # -- inside ---------------------------------------------------------------------------------

    @property
    def _popen(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise ServerFailed("not started")
        return self._process

    def _reserve(self, address: Address) -> Address:
        if address[1]:
            return address
        self._reserved.append(ports.free_port_triple())
        return address[0], self._reserved[-1]

    def _command(self) -> list[str]:
        configured = os.environ.get("PYRMQ_TEST_SERVER")
        command = shlex.split(configured) if configured else [sys.executable, "-m", "pyrmq"]
        if not configured:
            command.append("server")
        command += ["--store", str(self.store), "--host", self.host]
        command += ["--namesrv-port", str(self.namesrv[1])]
        command += ["--broker-port", str(self.broker[1]), "--flush", self.flush]
        if self.conf:
            path = self.store.with_name(self.store.name + ".broker.conf")
            path.write_text(self.conf)
            command += ["-c", str(path)]
        return [*command, *self.args]

    def _failure(self, what: str) -> ServerFailed:
        return ServerFailed(f"{what}\n--- end of {self.log} ---\n{self.stderr_text()[-4000:]}")

    def _close(self) -> None:
        stdout = self._process.stdout if self._process is not None else None
        if stdout is not None and not stdout.closed:
            os.set_blocking(stdout.fileno(), False)
            self.stdout_rest += stdout.read() or b""
            stdout.close()
