"""The server under test as a process of its own.

`pyrmq server` unless the environment variable PYRMQ_INTEROP_NAMESRV names a name server that
already runs, such as one of Apache RocketMQ: that is how the drivers and the assertions themselves
are checked against the reference.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import subprocess
import sys
import time
from pathlib import Path

from tests.support import forked

READY = re.compile(r"^ready namesrv=(?P<namesrv>\S+) broker=(?P<broker>\S+) ")
READY_TIMEOUT = 60.0
"""Seconds until the line that says the server is ready; far beyond what it needs."""
STOP_TIMEOUT = 30.0


class Server:
    """A running name server with one broker; `namesrv` is its address as clients want it."""

    def __init__(self, namesrv: str, broker: str | None = None) -> None:
        self.namesrv = namesrv
        self.broker = broker

    def state(self) -> str:
        """For messages of failed tests."""
        return f"server at {self.namesrv} was started elsewhere"

    def alive(self) -> bool:
        return True

    def stop(self) -> None:
        pass


class OwnServer(Server):
    """`pyrmq server` on free loopback ports with its store below `folder`."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / "server.log"
        command = [sys.executable, "-m", "pyrmq", "server", "--store", str(folder / "store")]
        command += ["--host", "127.0.0.1", "--namesrv-port", "0", "--broker-port", "0"]
        with open(self._log, "wb") as log:
            self._process = forked.popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log
            )
        try:
            ready = READY.match(self._first_line())
            if ready is None:
                raise RuntimeError(f"pyrmq server did not get ready; {self.state()}")
        except BaseException:
            self._process.kill()
            self._process.communicate()
            raise
        super().__init__(ready["namesrv"], ready["broker"])

    def _first_line(self) -> str:
        """The first line of stdout; what there is of it when the process ends or time is up."""
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        end = time.monotonic() + READY_TIMEOUT
        text = b""
        while b"\n" not in text and (rest := end - time.monotonic()) > 0:
            if not select.select([descriptor], [], [], rest)[0]:
                break
            chunk = os.read(descriptor, 4096)
            if not chunk:
                # End of output is the end of the process, or will be in a moment.
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(5)
                break
            text += chunk
        return text.decode("utf-8", "replace")

    def state(self) -> str:
        code = self._process.poll()
        tail = "\n".join(self._log.read_text(errors="replace").splitlines()[-40:])
        now = "runs" if code is None else f"has ended with exit code {code}"
        return f"the server {now}; its log ends with:\n{tail}\n"

    def alive(self) -> bool:
        return self._process.poll() is None

    def stop(self) -> None:
        """Stops it as an operator would; it has to end well and in time."""
        self._process.terminate()
        try:
            code = self._process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise RuntimeError(
                f"pyrmq server did not stop within {STOP_TIMEOUT:.0f} s of SIGTERM; {self.state()}"
            ) from None
        finally:
            if self._process.stdout is not None:
                self._process.stdout.close()
        if code != 0:
            raise RuntimeError(f"pyrmq server did not end well; {self.state()}")


def start(folder: Path) -> Server:
    """The server of this run, ready for clients."""
    elsewhere = os.environ.get("PYRMQ_INTEROP_NAMESRV")
    return Server(elsewhere) if elsewhere else OwnServer(folder)
