"""Where the limits of a process's control group stand, of version 1 and 2."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


def folders(own: Path, cgroups: Path, controller: str) -> Iterator[tuple[Path, bool]]:
    """The folder of a controller for the group that a process is in, and of those around it, each
    with whether it is of version 1. `own`: its /proc/PID/cgroup. In a container the path that the
    kernel names may not be mounted: then only the root has files."""
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if controllers and controller not in controllers.split(","):
            continue
        root = cgroups / controllers if controllers else cgroups
        folder = root / path.lstrip("/")
        for place in (folder, *folder.parents):
            if not place.is_relative_to(root):
                break
            yield place, bool(controllers)
