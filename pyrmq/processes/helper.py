"""Keeps one process running that helps a server, such as its console.

The server never waits for it, and serves on without it.
"""

from __future__ import annotations

import logging
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress

import trio

from pyrmq.errors import ConfigError
from pyrmq.escape import escape
from pyrmq.net.backoff import Backoff

log = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds before it is started again, the first time and at most."""
GOOD = 60.0
"""Seconds after which it has run well: the next pause is the first again."""
GRACE = 10.0
"""Seconds that it has to stop in."""
MAX_LINE = 64 << 10
"""Longest ready line, bytes."""
READY = "ready "

Command = Callable[[Mapping[str, str]], Sequence[str]]


class Helper:
    """`name`: in the log. `command` gives the words to start it with, from what its last ready line
    said. It has to hold on to `lifeline`, so that it ends with this process however that ends, and
    to print a ready line."""

    def __init__(
        self,
        name: str,
        command: Command,
        *,
        first: float = FIRST_PAUSE,
        longest: float = LONGEST_PAUSE,
        grace: float = GRACE,
    ) -> None:
        self._name = name
        self._command = command
        self._facts: dict[str, str] = {}
        self._backoff = Backoff(first, longest)
        self._grace = grace
        self.process: trio.Process | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[dict[str, str]]:
        """The process runs in it, and is started again when it ends. Gives what its first ready
        line says, without the pid. ConfigError if it ends before it has printed one."""
        try:
            async with trio.open_nursery() as nursery:
                yield await nursery.start(self._keep)
                nursery.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            if len(group.exceptions) == 1:
                raise group.exceptions[0] from None
            raise

    async def _keep(self, *, task_status: trio.TaskStatus[dict[str, str]]) -> None:
        started = False
        try:
            while True:
                begun = trio.current_time()
                end = await self._once(task_status, started)
                if end is None:
                    raise ConfigError(
                        f"the {self._name} cannot start: its own error stands above. Mend it, or "
                        f"start without it"
                    )
                started = True
                if trio.current_time() - begun >= GOOD:
                    self._backoff.reset()
                pause = self._backoff.next()
                log.error(
                    "the %s %s; it is started again in %.1f s. The server serves on",
                    escape(self._name),
                    escape(end),
                    pause,
                )
                await trio.sleep(pause)
        finally:
            with trio.CancelScope(shield=True):
                await self._stop()

    async def _once(
        self, task_status: trio.TaskStatus[dict[str, str]], started: bool
    ) -> str | None:
        """Runs the process until it ends; says how. None: it ended before it ever served."""
        try:
            process = self.process = await trio.lowlevel.open_process(
                list(self._command(self._facts)),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                process_group=0,
            )
        except OSError as e:
            return f"could not be run ({e})" if started else None
        assert process.stdout is not None
        seen, told = b"", started
        while chunk := await _read(process.stdout):
            *lines, seen = (seen + chunk).split(b"\n")
            for line in lines:
                facts = _facts(line.decode(errors="replace"))
                if facts is not None:
                    self._facts = facts
                    if not told:
                        task_status.started(facts)
                    told = True
            seen = seen[:MAX_LINE]
        code = await process.wait()
        return f"has ended (exit code {code})" if told else None

    async def _stop(self) -> None:
        process = self.process
        if process is None:
            return
        with suppress(ProcessLookupError):
            process.terminate()
        with trio.move_on_after(self._grace):
            await process.wait()
        if process.returncode is None:
            log.error(
                "the %s did not stop within %g s: it is killed", escape(self._name), self._grace
            )
            process.send_signal(signal.SIGKILL)
            await process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                await stream.aclose()


def _facts(line: str) -> dict[str, str] | None:
    """What a ready line says, without the pid; None for another line."""
    if not line.startswith(READY):
        return None
    pairs = (word.partition("=") for word in line.removeprefix(READY).split())
    return {name: value for name, _, value in pairs if name != "pid"}


async def _read(stream: trio.abc.ReceiveStream) -> bytes:
    try:
        return bytes(await stream.receive_some(4096))
    except trio.BrokenResourceError:
        return b""
