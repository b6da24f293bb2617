"""What /proc tells about another process and about the machine (proc(5))."""

from __future__ import annotations

import os
import resource
from dataclasses import dataclass
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """User and kernel seconds of all threads of `pid` so far, in steps of a clock tick (10 ms)."""
    # The command name may hold blanks and brackets: count from the last bracket.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICK


@dataclass(frozen=True)
class Memory:
    """Memory of one process in MiB.

    private: Private_Clean + Private_Dirty without shared mappings: what the process would give
             back by ending.
    mapped:  pages of shared mappings that no other process maps, here the resident part of the
             broker's own store files. They are page cache, yet smaps_rollup counts them as
             private too: its sum is `private + mapped`.
    resident: Rss.
    """

    private: float
    mapped: float
    resident: float


def _sum_kib(lines: list[str], *names: str) -> int:
    keys = tuple(name + ":" for name in names)
    return sum(int(line.split()[1]) for line in lines if line.startswith(keys))


def memory(pid: int) -> Memory:
    """Needs the right to read the process's smaps: the same user, or root."""
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    private = _sum_kib(rollup, "Private_Clean", "Private_Dirty")
    shared_mappings = 0
    pages = 0
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        if line.startswith(("Private_Clean:", "Private_Dirty:")):
            pages += int(line.split()[1])
        elif line.startswith("VmFlags:"):  # the last line of a mapping
            if "sh" in line.split():
                shared_mappings += pages
            pages = 0
    return Memory(
        private=(private - shared_mappings) / 1024,
        mapped=shared_mappings / 1024,
        resident=_sum_kib(rollup, "Rss") / 1024,
    )


def written_bytes(pid: int) -> int:
    """What `pid` has made the kernel write to a disk, or will have: pages that became dirty."""
    return _io(pid, "write_bytes")


def read_bytes(pid: int) -> int:
    """What `pid` has made the kernel read from a disk."""
    return _io(pid, "read_bytes")


def _io(pid: int, wanted: str) -> int:
    for line in Path(f"/proc/{pid}/io").read_text().splitlines():
        name, _, value = line.partition(": ")
        if name == wanted:
            return int(value)
    raise OSError(f"/proc/{pid}/io: no {wanted}")


def available_bytes() -> int:
    """Memory that programs could have without swapping."""
    return _sum_kib(Path("/proc/meminfo").read_text().splitlines(), "MemAvailable") << 10


def allow_open_files(count: int) -> int:
    """Raises this process's limit of open files, and so its children's; returns what it is now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < count:
        wanted = count if hard == resource.RLIM_INFINITY else min(count, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def machine_seconds() -> float:
    """CPU seconds that all processors together have been busy so far, steal included."""
    user, nice, system, _idle, _iowait, irq, softirq, steal, *_ = (
        int(word) for word in Path("/proc/stat").read_text().split(maxsplit=11)[1:-1]
    )
    return (user + nice + system + irq + softirq + steal) / _TICK
