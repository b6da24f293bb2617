"""A check that does not come back: the workers' parent must notice and go on."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

from tests.system.faults.bases import Base


def run(
    case: str, bases: dict[str, Base], root: Path, again: bool, read_log: Callable[[], str]
) -> dict[str, int]:
    """For the worker: `case` says how to end."""
    if case == "signal":
        signal.signal(signal.SIGSEGV, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGSEGV)
    if case == "exit":
        os._exit(3)
    if case == "error":
        raise ValueError("told")
    return {"fine": 1}
