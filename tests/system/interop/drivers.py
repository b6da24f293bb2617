"""Runs a driver and reads what it reports.

A driver is a program around a foreign client: one sub-command, `name=value` words, one JSON object
a line on stdout. Lines have an `event` ("sent", "received", ...), the last one has `done`. Message
lines carry `body` (base64), `tags`, `keys`, `properties`, `msgId`, `offsetMsgId`, `queueId`,
`queueOffset`, where the sub-command can know them.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import json
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Self

from tests.support import forked

Line = dict[str, Any]

GRACE = 15.0
"""Seconds beyond its own time limit that a driver process gets before it is killed."""


class DriverFailed(AssertionError):
    """A driver did not do what it was asked for; the text has its last words."""


@dataclasses.dataclass(frozen=True)
class Report:
    """All lines of one run, in order of printing."""

    lines: tuple[Line, ...]

    @property
    def summary(self) -> Line:
        return self.lines[-1]

    def of(self, event: str) -> list[Line]:
        return [line for line in self.lines if line.get("event") == event]

    @property
    def sent(self) -> list[Line]:
        return self.of("sent")

    @property
    def received(self) -> list[Line]:
        return self.of("received")


@dataclasses.dataclass(frozen=True)
class Driver:
    """One foreign client: its name, the command of its driver, and the name server it talks to.

    `alive` is called when a run has failed and says whether the server under test is still there.
    """

    name: str
    command: tuple[str, ...]
    namesrv: str
    alive: Callable[[], str]

    def with_jvm_options(self, *options: str) -> Driver:
        first, *rest = self.command
        return dataclasses.replace(self, command=(first, *options, *rest))

    def run(self, command: str, timeout: int = 90, **words: object) -> Report:
        """Runs a sub-command to its end, at most `timeout` seconds, and expects success."""
        arguments = {"namesrv": self.namesrv, "timeout": timeout, **words}
        line = [*self.command, command, *(f"{name}={value}" for name, value in arguments.items())]
        try:
            result = forked.run(
                line,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=timeout + GRACE,
                check=False,
            )
        except subprocess.TimeoutExpired as late:
            what = f"killed after {timeout + GRACE} s"
            raise self._failed(command, what, late.stdout, late.stderr) from None
        lines = _parse(result.stdout)
        if result.returncode != 0 or not lines or lines[-1].get("done") is not True:
            what = f"exit code {result.returncode}"
            raise self._failed(command, what, result.stdout, result.stderr)
        return Report(tuple(lines))

    def start(self, command: str, timeout: int = 90, **words: object) -> Running:
        """Starts a sub-command that reads further words from stdin; it ends by itself in time."""
        arguments = {"namesrv": self.namesrv, "timeout": timeout, **words}
        line = [*self.command, command, *(f"{name}={value}" for name, value in arguments.items())]
        return Running(self, command, line, timeout)

    def _failed(
        self, command: str, what: str, out: bytes | None, err: bytes | None
    ) -> DriverFailed:
        said = "\n".join(line[:400] for line in _text(out).splitlines()[-8:])
        complained = "\n".join(_text(err).splitlines()[-40:])
        return DriverFailed(
            f"{self.name}: {command}: {what}; {self.alive()}\n"
            f"last lines of stdout:\n{said}\nlast lines of stderr:\n{complained}"
        )


class Running:
    """A driver process at work: its lines so far, more words for it, its end or its death.

    A context; leaving it kills a process that still runs.
    """

    def __init__(self, driver: Driver, command: str, line: Sequence[str], timeout: int) -> None:
        self._driver = driver
        self._command = command
        self._end = time.monotonic() + timeout + GRACE
        self._lines: list[Line] = []
        self._ended = False
        self._news = threading.Condition()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - until __exit__
        self._process = forked.popen(
            line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors
        )
        self._reader = threading.Thread(target=self._read, name=f"{driver.name} {command}")
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._errors.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for text in self._process.stdout:
            # A killed process may leave half a line.
            with self._news, contextlib.suppress(json.JSONDecodeError):
                self._lines.append(json.loads(text))
                self._news.notify_all()
        with self._news:
            self._ended = True
            self._news.notify_all()

    @property
    def report(self) -> Report:
        """The lines so far."""
        with self._news:
            return Report(tuple(self._lines))

    def wait_for(self, enough: Callable[[Report], bool], what: str) -> Report:
        """Until the lines are enough; DriverFailed if the process ends or is late before that."""
        with self._news:
            while not enough(report := Report(tuple(self._lines))):
                left = self._end - time.monotonic()
                if self._ended or left <= 0:
                    raise self._failed(f"{'ended' if self._ended else 'late'} before: {what}")
                self._news.wait(left)
            return report

    def check(self) -> None:
        """DriverFailed if the process has ended."""
        with self._news:
            ended = self._ended
        if ended:
            raise self._failed("ended by itself")

    def tell(self, text: str) -> None:
        """One more line on its stdin."""
        assert self._process.stdin is not None
        self._process.stdin.write(text.encode() + b"\n")
        self._process.stdin.flush()

    def finish(self) -> Report:
        """Ends its stdin and expects that it then ends well."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            code = self._process.wait(max(0.0, self._end - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise self._failed("did not end") from None
        self._reader.join()
        if code != 0 or not self._lines or self._lines[-1].get("done") is not True:
            raise self._failed(f"exit code {code}")
        return self.report

    def kill(self) -> None:
        """SIGKILL; fine on one that has gone."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()

    def _failed(self, what: str) -> DriverFailed:
        self._errors.seek(0)
        said = "\n".join(json.dumps(line) for line in self._lines[-8:])
        return self._driver._failed(self._command, what, said.encode(), self._errors.read())


def _text(data: bytes | None) -> str:
    return (data or b"").decode("utf-8", "replace")


def _parse(stdout: bytes) -> list[Line]:
    lines: list[Line] = []
    for text in stdout.decode("utf-8").splitlines():
        try:
            lines.append(json.loads(text))
        except json.JSONDecodeError:
            raise DriverFailed(f"not a line of JSON: {text[:400]}") from None
    return lines


def body(line: Line) -> bytes:
    """The body of a message line."""
    return base64.b64decode(line["body"])


def places(lines: Sequence[Line]) -> dict[tuple[int, int], Line]:
    """Message lines by (queueId, queueOffset); of several deliveries the first one."""
    found: dict[tuple[int, int], Line] = {}
    for line in lines:
        found.setdefault((line["queueId"], line["queueOffset"]), line)
    return found
