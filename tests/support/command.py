"""`pyrmq …` as processes: commands that end, and commands that serve until they are stopped."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support import forked

PYRMQ = [sys.executable, "-m", "pyrmq"]


def environment(**change: str) -> dict[str, str]:
    """This process's environment without a name server that a developer may have set."""
    kept = {k: v for k, v in os.environ.items() if k != "NAMESRV_ADDR"}
    return {**kept, "PYTHONUNBUFFERED": "1", **change}


def has_ipv6() -> bool:
    """Whether this machine has an IPv6 loopback."""
    try:
        with socket.socket(socket.AF_INET6) as sock:
            sock.bind(("::1", 0))
    except OSError:
        return False
    return True


def run(
    *args: str, stdin: bytes = b"", timeout: float = 60, **env: str
) -> subprocess.CompletedProcess[bytes]:
    """Runs `pyrmq ARGS` to its end."""
    return forked.run(
        [*PYRMQ, *args],
        input=stdin,
        capture_output=True,
        timeout=timeout,
        env=environment(**env),
        check=False,
    )


def assert_refused(result: subprocess.CompletedProcess[bytes], *words: str) -> None:
    """A command that failed says why in words, on stderr, without a traceback."""
    text = result.stderr.decode()
    assert result.returncode not in (0, -signal.SIGKILL), text
    assert "Traceback" not in text
    for word in words:
        assert word in text


class Serving:
    """`pyrmq ARGS` that prints a ready line: `facts` holds its words, `stop` ends it."""

    def __init__(self, log: Path, *args: str, timeout: float = 60, **env: str) -> None:
        self.log = log
        self.facts: dict[str, str] = {}
        with log.open("wb") as stderr:
            self.process = forked.popen(
                [*PYRMQ, *args],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=environment(**env),
            )
        try:
            line = self.line(timeout)
            assert line.startswith("ready "), f"first line {line!r}: {self.stderr()}"
        except BaseException:
            self._end()
            raise
        self.facts = dict(word.partition("=")[::2] for word in line.split()[1:])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def _end(self) -> None:
        self.process.kill()
        self.process.wait(60)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def line(self, timeout: float = 60) -> str:
        """The next line on stdout."""
        assert self.process.stdout is not None
        fd = self.process.stdout.fileno()
        end, seen = time.monotonic() + timeout, b""
        while not seen.endswith(b"\n"):
            left = end - time.monotonic()
            assert left > 0, f"no line within {timeout:g} s, got {seen!r}: {self.stderr()}"
            if select.select([fd], [], [], left)[0]:
                byte = os.read(fd, 1)
                assert byte, f"ended after {seen!r}: {self.stderr()}"
                seen += byte
        return seen.decode().rstrip("\n")

    def address(self, name: str) -> tuple[str, int]:
        host, _, port = self.facts[name].rpartition(":")
        return host, int(port)

    def stderr(self) -> str:
        return self.log.read_text(errors="replace")

    def stop(self, signum: int = signal.SIGTERM, timeout: float = 60) -> int:
        """Sends a signal; the exit code."""
        self.process.send_signal(signum)
        return self.process.wait(timeout)
