"""The two tools: the original, in one JVM for most commands, and ours, in this process."""

from __future__ import annotations

import contextlib
import io
import os
import re
import select
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Protocol, Self

from pyrmq.cli.mqadmin.output import Output
from pyrmq.cli.mqadmin.run import find, main

from ..store import peer
from ..store.tool import Tool
from .case import Case
from .ran import Ran, without_log

PATIENCE = 60.0
STARTUP = "org.apache.rocketmq.tools.command.MQAdminStartup"
ENDLESS = 124
"""The exit code of one that was stopped: no failure."""


class Runs(Protocol):
    def __call__(self, case: Case, words: list[str], namesrv: str) -> Ran | None: ...


def words_of(case: Case, places: dict[str, str]) -> list[str]:
    line = case.line
    for name, value in places.items():
        line = line.replace(f"{{{name}}}", value)
    return shlex.split(line)


class Original:
    """RocketMQ's mqadmin; commands that end or never end have a JVM of their own. A context."""

    def __init__(self, home: Path) -> None:
        self._home, self._tool = home, Tool(home)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._tool.__exit__()

    def __call__(self, case: Case, words: list[str], namesrv: str) -> Ran | None:
        if case.unregistered:
            return None
        if not case.apart and not case.until:
            try:
                out, err = self._tool.command(namesrv, *words)
                return Ran(0, without_log(out), without_log(err))
            except peer.PeerFailed:  # it ended its process, or does not end
                self._tool.__exit__()
                self._tool = Tool(self._home)
        command = peer.java_command(self._home, STARTUP, *words, "-n", namesrv, heap="64m")
        return _process(command, case.until, self._home)


class Ours:
    """`pyrmq mqadmin`; one that it does not have yet is no failure."""

    def __init__(self, home: Path) -> None:
        self._home = home
        home.mkdir(parents=True, exist_ok=True)

    def __call__(self, case: Case, words: list[str], namesrv: str) -> Ran | None:
        if find(words[1] if words[0] == "help" else words[0]) is None:
            return None
        if case.until:
            command = [sys.executable, "-m", "pyrmq", "mqadmin", *words, "-n", namesrv]
            return _process(command, case.until, self._home)
        out, err = io.StringIO(), io.StringIO()
        more = [] if words[0] == "help" else ["-n", namesrv]
        with contextlib.chdir(self._home):
            code = main([*words, *more], Output(out, err))
        return Ran(code, out.getvalue(), err.getvalue())


def _process(command: list[str], until: str, home: Path) -> Ran:
    """Runs it to its end, or until it has printed that."""
    home.mkdir(parents=True, exist_ok=True)
    errors = home / "apart.err"
    root = Path(__file__).resolve().parents[4]
    environment = {**os.environ, "PYTHONPATH": str(root), "PYTHONUNBUFFERED": "1"}
    with errors.open("wb") as err:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=err,
            cwd=home,
            env=environment,
        )
    assert process.stdout is not None
    said, end, code = b"", time.monotonic() + PATIENCE, None
    while code is None:
        if time.monotonic() > end:
            process.kill()
            raise peer.PeerFailed(f"not done after {PATIENCE} s: {command[-6:]}: {said!r}")
        if select.select([process.stdout], [], [], 1)[0]:
            piece = os.read(process.stdout.fileno(), 65536)
            said += piece
            if not piece:
                code = process.wait(PATIENCE)
            elif until and re.search(until, said.decode(errors="replace"), re.MULTILINE):
                process.send_signal(signal.SIGKILL)
                process.wait(PATIENCE)
                code = ENDLESS
    process.stdout.close()
    return Ran(code, without_log(said.decode()), without_log(errors.read_text()))
