"""Progress of what takes long, on stderr: one line that changes."""

from __future__ import annotations

import sys
import time
from typing import TextIO

from pyrmq.escape import escape


class ProgressLine:
    """Shows how much is done, first after a second. On a terminal it is one line that changes; with
    `logs` it is a line now and then elsewhere, without it nothing."""

    FIRST, TERMINAL, LOG = 1.0, 0.2, 10.0

    def __init__(self, *, logs: bool = False, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._terminal = self._stream.isatty()
        self._silent = not self._terminal and not logs
        self._shown = False
        self._next = time.monotonic() + self.FIRST

    def __call__(self, what: str, done: int, total: int) -> None:
        """`total` 0: nobody knows."""
        now = time.monotonic()
        if self._silent or now < self._next:
            return
        self._next = now + (self.TERMINAL if self._terminal else self.LOG)
        text = f"{escape(what)}: {done}"
        if total:
            text += f" of {total} ({100 * done // total} %)"
        if self._terminal:
            self._stream.write(f"\r\x1b[K{text}")
            self._shown = True
        else:
            self._stream.write(f"{text}\n")
        self._stream.flush()

    def clear(self) -> None:
        """Takes the line away, before something else is printed."""
        if self._shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._shown = False
