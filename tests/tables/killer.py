"""A writer that is killed at a chosen step: `python -m tests.tables.killer FOLDER STEP`.

Other programs that kill themselves use its parts.
"""

from __future__ import annotations

import inspect
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
STEPS = (
    "files of others deleted", "first file", "files written", "manifest written",
    "before the commit", "metadata written", "after the commit", "files deleted",
)  # fmt: skip


def before(owner: Any, name: str, call: int = 1) -> None:
    """Kills instead of this call, counted from 1."""
    _kill(owner, name, call, late=False)


def after(owner: Any, name: str, call: int = 1) -> None:
    """Kills behind this call, counted from 1."""
    _kill(owner, name, call, late=True)


def _kill(owner: Any, name: str, call: int, late: bool) -> None:
    left = call
    real: Callable[..., Any] = getattr(owner, name)
    static = isinstance(inspect.getattr_static(owner, name), staticmethod)

    def wrapped(*args: Any, **named: Any) -> Any:
        nonlocal left
        left -= 1
        if not left and not late:
            os.kill(os.getpid(), signal.SIGKILL)
        found = real(*args, **named)
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    setattr(owner, name, staticmethod(wrapped) if static else wrapped)


def run_killed(program: str, folder: Path, step: str) -> None:
    """Runs a module of these tests with the two arguments, and checks that it kills itself."""
    done = subprocess.run(
        [sys.executable, "-m", program, str(folder), step],
        cwd=ROOT,
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()


def main(folder: str, step: str) -> None:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table.update import snapshot

    from pyrmq.tables import commit, leftovers, parquet
    from tests.tables.making import World, write

    arm = {
        "files of others deleted": lambda: after(leftovers, "clean"),
        "first file": lambda: after(parquet.Writer, "_write_group"),
        "files written": lambda: after(parquet.Writer, "close"),
        "manifest written": lambda: before(snapshot, "write_manifest_list"),
        "before the commit": lambda: before(SqlCatalog, "commit_table"),
        "metadata written": lambda: after(SqlCatalog, "_write_metadata"),
        "after the commit": lambda: after(commit, "_attempt"),
        "files deleted": lambda: after(leftovers, "clean", 2),
    }
    assert set(arm) == set(STEPS)
    arm[step]()
    world = World(Path(folder))
    write(world, world.log())


if __name__ == "__main__":
    main(*sys.argv[1:])
