"""A writer that is killed at a chosen step: `python -m tests.tables.killer FOLDER STEP`."""

from __future__ import annotations

import inspect
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

STEPS = (
    "files of others deleted", "first file", "files written", "manifest written",
    "before the commit", "metadata written", "after the commit", "files deleted",
)  # fmt: skip


def kill(*args: Any, **named: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def before(owner: Any, name: str) -> None:
    setattr(owner, name, kill)


def after(owner: Any, name: str, calls: int = 1) -> None:
    """Kills behind so many calls."""
    left = [calls]
    real: Callable[..., Any] = getattr(owner, name)
    static = isinstance(inspect.getattr_static(owner, name), staticmethod)

    def wrapped(*args: Any, **named: Any) -> Any:
        found = real(*args, **named)
        left[0] -= 1
        if left[0]:
            return found
        return kill()

    setattr(owner, name, staticmethod(wrapped) if static else wrapped)


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
