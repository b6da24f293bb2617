"""Checks of settings of the kernel, only those that matter to this engine."""

from __future__ import annotations

from collections.abc import Iterator

from pyrmq.doctor.facts import Facts
from pyrmq.doctor.finding import Finding, error, note, ok, warning

BACKLOG = 1024
"""Connections that wait to be accepted, as servers ask for."""
DEFAULT_MAPS = 65_530
MUCH_SWAPPINESS = 10
LEAST_DIRTY = 64 << 20
MOST_DIRTY_RATIO = 60
NEARLY_FULL = 0.8


def _set(name: str, value: object) -> str:
    return f"sysctl -w {name}={value}; echo '{name}={value}' > /etc/sysctl.d/90-pyrmq.conf"


def max_map_count(facts: Facts) -> Iterator[Finding]:
    """A broker maps at most three quarters of vm.max_map_count files of queues."""
    most, queues = facts.sysctl("vm.max_map_count"), facts.machine.queues
    if most is None or not facts.server.is_broker:
        return
    mapped = most // 4 * 3
    if queues is not None and queues > mapped:
        yield warning(
            f"vm.max_map_count={most}, and the store has {queues} queues or more",
            f"{mapped} files are mapped at a time; queues in use are mapped again and again",
            _set("vm.max_map_count", max(655_360, 2 * queues)),
        )
    elif most < DEFAULT_MAPS:
        yield warning(
            f"vm.max_map_count={most}",
            f"the broker maps at most {mapped} files",
            _set("vm.max_map_count", 655_360),
        )
    else:
        yield ok(f"vm.max_map_count={most}: {mapped} files of queues can be mapped")


def dirty_pages(facts: Facts) -> Iterator[Finding]:
    """A write waits for the disk if too many pages are not written yet."""
    ratio, size = facts.sysctl("vm.dirty_ratio"), facts.sysctl("vm.dirty_bytes")
    if not facts.server.is_broker or ratio is None or facts.machine.memory is None:
        return
    limit = size or facts.machine.memory * ratio // 100
    name = "vm.dirty_bytes" if size else "vm.dirty_ratio"
    if limit < LEAST_DIRTY:
        yield warning(
            f"{name}={size or ratio}: {limit >> 20} MiB may be unwritten",
            "sends wait for the disk whenever some program has written that much",
            _set("vm.dirty_ratio", 20),
        )
    elif not size and ratio > MOST_DIRTY_RATIO:
        yield warning(
            f"vm.dirty_ratio={ratio}: {limit >> 20} MiB may be unwritten",
            "when they are written at last, flushes and sends wait for long",
            _set("vm.dirty_ratio", 20),
        )
    else:
        yield ok(f"{name}={size or ratio}: {limit >> 20} MiB may be unwritten")


def swappiness(facts: Facts) -> Iterator[Finding]:
    """With swap, the kernel may move the server's memory to the disk."""
    value, swap = facts.sysctl("vm.swappiness"), facts.machine.swap
    if value is None or swap is None:
        return
    if not swap:
        yield ok("there is no swap")
    elif value > MUCH_SWAPPINESS:
        yield warning(
            f"vm.swappiness={value}, with {swap >> 20} MiB of swap",
            "the kernel moves memory of the server to the disk to cache messages; all clients wait "
            "when it is needed again",
            _set("vm.swappiness", 1),
        )
    else:
        yield ok(f"vm.swappiness={value}")


def overcommit(facts: Facts) -> Iterator[Finding]:
    """With 2 the kernel refuses memory that nobody uses."""
    value = facts.sysctl("vm.overcommit_memory")
    if value == 2:
        yield warning(
            "vm.overcommit_memory=2",
            "stacks of threads and child processes are refused although memory is free",
            _set("vm.overcommit_memory", 0),
        )
    elif value is not None:
        yield ok(f"vm.overcommit_memory={value}")


def zone_reclaim(facts: Facts) -> Iterator[Finding]:
    """On machines with several memory nodes."""
    value = facts.sysctl("vm.zone_reclaim_mode")
    if facts.server.is_broker and value:
        yield warning(
            f"vm.zone_reclaim_mode={value}",
            "cached messages are dropped although other nodes have free memory",
            _set("vm.zone_reclaim_mode", 0),
        )


def huge_pages(facts: Facts) -> Iterator[Finding]:
    """The store maps files, which do not use transparent huge pages. The heap may wait for them."""
    enabled, defrag = (facts.machine.huge_pages.get(k, "") for k in ("enabled", "defrag"))
    if not enabled:
        return
    if enabled == "always" and defrag == "always":
        yield warning(
            "transparent huge pages: enabled=always, defrag=always",
            "a thread that needs memory may wait while the kernel moves pages together",
            "echo madvise > /sys/kernel/mm/transparent_hugepage/defrag",
        )
    else:
        yield ok(f"transparent huge pages: enabled={enabled}, defrag={defrag or 'unknown'}")


def somaxconn(facts: Facts) -> Iterator[Finding]:
    """How many connections wait to be accepted when many clients come back at once."""
    value = facts.sysctl("net.core.somaxconn")
    if value is not None and value < BACKLOG:
        yield warning(
            f"net.core.somaxconn={value}",
            "when all clients connect again, after a restart, some are not answered for seconds",
            _set("net.core.somaxconn", 4096),
        )
    elif value is not None:
        yield ok(f"net.core.somaxconn={value}")
    if facts.sysctl("net.ipv4.tcp_abort_on_overflow") == 1:
        yield warning(
            "net.ipv4.tcp_abort_on_overflow=1",
            "connections beyond that queue are reset instead of tried again",
            _set("net.ipv4.tcp_abort_on_overflow", 0),
        )
    syn = facts.sysctl("net.ipv4.tcp_max_syn_backlog")
    if facts.sysctl("net.ipv4.tcp_syncookies") == 0 and syn is not None and syn < BACKLOG:
        yield warning(
            f"net.ipv4.tcp_syncookies=0, net.ipv4.tcp_max_syn_backlog={syn}",
            "of many clients that connect at once only so many are answered",
            _set("net.ipv4.tcp_syncookies", 1),
        )


def connection_tracking(facts: Facts) -> Iterator[Finding]:
    """A full table of the firewall drops packets of new connections."""
    have = facts.sysctl("net.netfilter.nf_conntrack_count")
    most = facts.sysctl("net.netfilter.nf_conntrack_max")
    if have is None or not most:
        return
    if have > NEARLY_FULL * most:
        yield error(
            f"the firewall tracks {have} of at most {most} connections",
            "when the table is full, new connections are dropped without a word",
            _set("net.netfilter.nf_conntrack_max", 4 * most),
        )
    else:
        yield ok(f"the firewall tracks {have} of at most {most} connections")


def version(facts: Facts) -> Iterator[Finding]:
    """Before 5.14 the engine cannot protect itself from pages that the disk does not read."""
    found = _version(facts.machine.kernel)
    if found is None:
        yield note(f"the version of the kernel is not known: {facts.machine.kernel or 'nothing'}")
    elif found < (5, 14):
        make = warning if facts.server.is_broker else note
        yield make(
            f"Linux {facts.machine.kernel}",
            "before 5.14 a bad sector, or a file that is cut off, ends the broker with a SIGBUS",
            "install a kernel of 5.14 or later",
        )
    else:
        yield ok(f"Linux {facts.machine.kernel}")


def _version(text: str) -> tuple[int, int] | None:
    parts = text.split(".")[:2]
    if len(parts) < 2:
        return None
    major, minor = parts[0], parts[1].partition("-")[0]
    if not (major.isdecimal() and minor.isdecimal()):
        return None
    return int(major), int(minor)
