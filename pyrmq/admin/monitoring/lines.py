"""Lines about rounds and sinks: to the log, or to who takes them, without waiting for it."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable

import trio

from pyrmq.escape import escape

log = logging.getLogger("pyrmq.admin.monitoring")
PREFIX = "[MONITOR] "
NOTIFY = "[MONITOR]  [NOTIFY] "
"""How lines of RocketMQ's monitor begin. [DefaultMonitorListener]"""
QUEUE = 1_000
"""Lines that wait at most; further ones are dropped, and counted."""
Write = Callable[[str], None]


def to_stdout(line: str) -> None:
    sys.stdout.write(f"{escape(line)}\n")
    sys.stdout.flush()


def to_stderr(line: str) -> None:
    sys.stderr.write(f"{escape(line)}\n")
    sys.stderr.flush()


class Lines:
    """Takes lines and never waits. `write` gets them in a thread, while `run` runs: a reader that
    is slow does not stop the rounds. None: the log gets them at once."""

    def __init__(self, write: Write | None = None) -> None:
        self.dropped = 0
        self._write = write
        self._send, self._receive = trio.open_memory_channel[str](QUEUE)

    def tell(self, text: str, *, bad: bool = False) -> None:
        """A line, which is a warning of the log if it is `bad`."""
        line = PREFIX + text
        if self._write is None:
            log.log(logging.WARNING if bad else logging.INFO, "%s", escape(line))
            return
        try:
            self._send.send_nowait(line)
        except trio.WouldBlock:
            self.dropped += 1

    def close(self) -> None:
        """Ends `run`, once everything is written."""
        self._send.close()

    async def run(self) -> None:
        """OSError if nobody can read the lines."""
        if self._write is None:
            return
        async for line in self._receive:
            await trio.to_thread.run_sync(self._write, line, abandon_on_cancel=True)
