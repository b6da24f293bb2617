"""A process ends in order when the one that started it has gone, however that was.

stdin is a pipe whose other end only the supervisor has. The kernel closes it with the supervisor,
also after a SIGKILL. (PR_SET_PDEATHSIG would not do: it follows the thread that started a process.)
"""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress

GRACE = 30.0
"""Seconds that the stop may take then, besides a drain."""


class Lifeline:
    """`grace`: seconds from SIGTERM to SIGKILL."""

    def __init__(self) -> None:
        self.grace = GRACE

    def watch(self) -> None:
        """Blocks until stdin has ended and the process with it."""
        with suppress(OSError):  # no stdin is its end as well
            while os.read(0, 64):
                pass
        os.kill(os.getpid(), signal.SIGTERM)
        threading.Event().wait(self.grace)
        os.kill(os.getpid(), signal.SIGKILL)


def hold() -> Lifeline:
    """From now on this process gets SIGTERM when stdin ends, later SIGKILL if it is still there."""
    line = Lifeline()
    threading.Thread(target=line.watch, name="lifeline", daemon=True).start()
    return line
