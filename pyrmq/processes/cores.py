"""How many cores this process may use, by its affinity and by the quota of its cgroup."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

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
    """The quotas of the cgroup of this process and of those around it, in cores. In a container
    the path that the kernel names may not be mounted: then only the root is looked at."""
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if controllers and "cpu" not in controllers.split(","):
            continue
        root = cgroups / controllers if controllers else cgroups
        folder = root / path.lstrip("/")
        for place in (folder, *folder.parents):
            if not place.is_relative_to(root):
                break
            with suppress(OSError, ValueError, ZeroDivisionError):
                yield _quota(place, v1=bool(controllers))


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
