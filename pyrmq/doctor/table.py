"""The checks, in the order in which they are shown, and their result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from pyrmq.doctor import (
    clock,
    cluster,
    disks,
    kernel,
    limits,
    names,
    ports,
    secrets_and_keys,
    versions,
)
from pyrmq.doctor.facts import Facts
from pyrmq.doctor.finding import Finding, Level

Check = Callable[[Facts], Iterator[Finding]]

CHECKS: dict[str, Check] = {
    "ports": ports.free,
    "privileged ports": ports.privileged,
    "outgoing ports": ports.reserved,
    "folders": disks.readable,
    "disk space": disks.space,
    "inodes": disks.inodes,
    "file system": disks.file_system,
    "mount options": disks.mount_options,
    "open files": limits.open_files,
    "locked memory": limits.locked_memory,
    "memory": limits.memory,
    "CPU": limits.cpu,
    "tasks": limits.tasks,
    "mapped files": kernel.max_map_count,
    "unwritten pages": kernel.dirty_pages,
    "swap": kernel.swappiness,
    "overcommit": kernel.overcommit,
    "memory nodes": kernel.zone_reclaim,
    "huge pages": kernel.huge_pages,
    "new connections": kernel.somaxconn,
    "firewall table": kernel.connection_tracking,
    "kernel": kernel.version,
    "clock": clock.synchronised,
    "clocks of brokers": clock.beside_others,
    "names": names.resolved,
    "announced address": names.announced,
    "name servers": cluster.answering,
    "name servers agree": cluster.agreeing,
    "registration": cluster.own_name,
    "drain": cluster.open_to_clients,
    "brokers": cluster.reachable,
    "Python": versions.python,
    "engine": versions.engine,
    "packages": versions.packages,
    "import package": versions.import_package,
    "versions of brokers": versions.brokers,
    "versions of clients": versions.clients,
    "files with secrets": secrets_and_keys.modes,
    "certificates": secrets_and_keys.certificates,
}
"""By name. A check reads nothing: it turns facts into findings."""


@dataclass(frozen=True, slots=True)
class Row:
    """A finding of a check."""

    check: str
    level: str
    what: str
    why: str
    change: str


def examine(facts: Facts) -> list[Row]:
    """The findings of all checks."""
    return [
        Row(name, found.level.value, found.what, found.why, found.change)
        for name, check in CHECKS.items()
        for found in check(facts)
    ]


def verdict(rows: Iterable[Row]) -> Level:
    """The worst level of all; OK also with notes."""
    levels = {row.level for row in rows}
    for level in (Level.ERROR, Level.WARNING):
        if level.value in levels:
            return level
    return Level.OK
