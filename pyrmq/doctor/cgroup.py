"""Reads limits of the control group of a process: memory, tasks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from pyrmq.processes.cgroup import folders

NO_LIMIT = 1 << 60
"""Version 1 writes a number above it for none."""


def memory_limit(own: Path, cgroups: Path) -> int | None:
    """The smallest memory limit that holds for a process; None without one."""
    return min(_values(own, cgroups, "memory", "memory.max", "memory.limit_in_bytes"), default=None)


def task_limit(own: Path, cgroups: Path) -> int | None:
    """The smallest limit of threads and processes."""
    return min(_values(own, cgroups, "pids", "pids.max", "pids.max"), default=None)


def _values(own: Path, cgroups: Path, controller: str, v2: str, v1: str) -> Iterator[int]:
    """The values of a limit in the process's group and those around it."""
    for folder, is_v1 in folders(own, cgroups, controller):
        with suppress(OSError, ValueError):
            value = int((folder / (v1 if is_v1 else v2)).read_text())
            if value < NO_LIMIT:
                yield value
