"""Runs a driver and reads what it tells.

A driver is a program around a foreign client: one sub-command, `name=value` words, one JSON object
a line on stdout. Lines have an `event` ("sent", "received", ...), the last one has `done`. Message
lines carry `body` (base64), `tags`, `keys`, `properties`, `msgId`, `offsetMsgId`, `queueId`,
`queueOffset`, where the sub-command can know them.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import subprocess
from collections.abc import Callable, Sequence
from typing import Any

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
            result = subprocess.run(
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

    def _failed(
        self, command: str, what: str, out: bytes | None, err: bytes | None
    ) -> DriverFailed:
        said = "\n".join(line[:400] for line in _text(out).splitlines()[-8:])
        complained = "\n".join(_text(err).splitlines()[-40:])
        return DriverFailed(
            f"{self.name}: {command}: {what}; {self.alive()}\n"
            f"last lines of stdout:\n{said}\nlast lines of stderr:\n{complained}"
        )


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
