"""Checks of limits: open files, locked memory, memory, CPU and tasks of the control group."""

from __future__ import annotations

from collections.abc import Iterator

from pyrmq.doctor.facts import Facts
from pyrmq.doctor.finding import Finding, error, note, ok, warning
from pyrmq.net.server.listen import FEW_DESCRIPTORS

MIB = 1 << 20
LEAST_MEMORY = 256 * MIB
"""Below that a broker may be killed while it starts."""
LITTLE_MEMORY = 1024 * MIB
FEW_TASKS = 64


def open_files(facts: Facts) -> Iterator[Finding]:
    """Each connection needs a descriptor. A server raises the soft limit to the hard one itself."""
    most = facts.machine.limits.open_files
    if most is None:
        yield ok("open files are not limited")
    elif most < FEW_DESCRIPTORS:
        yield warning(
            f"{most} open files at most",
            "each connection and each file of the store needs one; connections beyond are refused",
            "LimitNOFILE=655350 of the unit, `ulimit -n 655350`, or ulimits of the container",
        )
    else:
        yield ok(f"{most} open files")


def locked_memory(facts: Facts) -> Iterator[Finding]:
    """Only warmMapedFileEnable locks memory."""
    values, most = facts.server.values, facts.machine.limits.locked_memory
    if values.get("warmMapedFileEnable") != "true":
        return
    size = values.get("mappedFileSizeCommitLog", "")
    needed = 2 * int(size) if size.isdecimal() else 2 << 30
    if most is not None and most < needed:
        yield warning(
            f"{most // MIB} MiB may be locked in memory, {needed // MIB} MiB are needed",
            "warmMapedFileEnable has no effect",
            "LimitMEMLOCK=infinity in the systemd unit, or warmMapedFileEnable=false",
        )
    else:
        yield ok(f"the {needed // MIB} MiB of two log files may be locked in memory")


def memory(facts: Facts) -> Iterator[Finding]:
    """Memory of the control group or the machine; files that are cached count to it."""
    limit, whole = facts.machine.limits.memory, facts.machine.memory
    found = [n for n in (limit, whole) if n is not None]
    if not found:
        yield note("the memory of this machine is not known")
        return
    have = min(found)
    where = f"{have // MIB} MiB of memory" + (" (control group)" if have == limit else "")
    if not facts.server.is_broker or have >= LITTLE_MEMORY:
        yield ok(where)
    elif have < LEAST_MEMORY:
        yield error(
            where,
            "the broker may be killed while it serves",
            "give it 1 GiB or more: MemoryMax= of the unit, or the limit of the container",
        )
    else:
        yield warning(
            where,
            "little is left to cache messages: consumers that are behind read from the disk",
            "give it 1 GiB or more: MemoryMax= of the unit, or the limit of the container",
        )


def cpu(facts: Facts) -> Iterator[Finding]:
    """CPU of the control group."""
    cpus = facts.machine.limits.cpus
    if cpus is None:
        yield ok("CPU is not limited by a control group")
    elif facts.server.is_broker and cpus < 1:
        yield warning(
            f"{cpus:g} CPUs at most",
            "the kernel stops the broker for up to 100 ms whenever the quota is used up",
            "CPUQuota=200% of the unit, or the limit of the container: 1 or more, better 2",
        )
    else:
        yield ok(f"{cpus:g} CPUs at most")


def tasks(facts: Facts) -> Iterator[Finding]:
    """Threads and processes of the control group."""
    most = facts.machine.limits.tasks
    if most is not None and most < FEW_TASKS:
        yield warning(
            f"{most} threads and processes at most",
            "a broker has some dozens of threads; without a free one reads of the disk fail",
            f"TasksMax=512 of the unit, or pids of the container: {FEW_TASKS} or more",
        )
