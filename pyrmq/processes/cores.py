"""How many cores this process may use, by its affinity and by the quota of its cgroup."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from pyrmq.processes import cgroup

CGROUPS = Path("/sys/fs/cgroup")
OWN = Path("/proc/self/cgroup")


def usable_cores(own: Path = OWN, cgroups: Path = CGROUPS) -> int:
    """Whole cores, at least 1. A quota of 2.5 cores counts as 2."""
    quotas = list(_quotas(own, cgroups))
    return max(1, min([len(os.sched_getaffinity(0)), *map(int, quotas)]))


def cpu_quota(own: Path = OWN, cgroups: Path = CGROUPS) -> float | None:
    """The smallest CPU quota that holds for a process, in cores; None without one."""
    return min(_quotas(own, cgroups), default=None)


def _quotas(own: Path, cgroups: Path) -> Iterator[float]:
    """The quotas of the cgroup of this process and of those around it, in cores."""
    for folder, v1 in cgroup.folders(own, cgroups, "cpu"):
        with suppress(OSError, ValueError, ZeroDivisionError):
            yield _quota(folder, v1=v1)


def _quota(folder: Path, *, v1: bool) -> float:
    """ValueError where there is none."""
    if v1:
        quota = (folder / "cpu.cfs_quota_us").read_text()
        period = (folder / "cpu.cfs_period_us").read_text()
    else:
        quota, period = (folder / "cpu.max").read_text().split()
    cores = float(quota) / float(period)
    if cores <= 0:  # v1 says -1 for none
        raise ValueError(quota)
    return cores
