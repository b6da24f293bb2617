"""Reads this machine: kernel, limits, clock, addresses, this installation."""

from __future__ import annotations

import ctypes
import importlib.metadata
import os
import platform
import re
import resource
import socket
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from pyrmq.doctor import cgroup
from pyrmq.doctor.facts import Clock, Limits, Listener, Machine, Server
from pyrmq.doctor.sockets import listeners
from pyrmq.engine import RELEASE_BUILD
from pyrmq.installation import problem
from pyrmq.net.address import own_ip
from pyrmq.processes.cores import cpu_quota

PACKAGE = "pyrmq-broker"
SYSCTLS = (
    "vm.max_map_count", "vm.dirty_ratio", "vm.dirty_bytes", "vm.swappiness", "vm.overcommit_memory",
    "vm.zone_reclaim_mode", "net.core.somaxconn", "net.ipv4.tcp_abort_on_overflow",
    "net.ipv4.tcp_max_syn_backlog", "net.ipv4.tcp_syncookies", "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports", "net.ipv4.ip_unprivileged_port_start",
    "net.netfilter.nf_conntrack_count", "net.netfilter.nf_conntrack_max",
)  # fmt: skip
MAX_TEXT = 1 << 20
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_UNSYNCHRONISED = 0x40
"""STA_UNSYNC of adjtimex."""
_STATE_ERROR = 5
"""What adjtimex returns for a clock that is not synchronised."""


def machine_of(server: Server, root: Path = Path("/")) -> Machine:
    """What this machine is, for a server; its disks are read elsewhere. `root`: where proc and sys
    are."""
    proc = root / "proc"
    ports = frozenset(port.number for port in server.ports)
    found = listeners(ports, server.lock, proc)
    return Machine(
        kernel=platform.release(),
        python=sys.version_info[:3],
        release_build=RELEASE_BUILD,
        packages=required_packages(),
        import_package=problem(),
        sysctl=sysctls(proc),
        huge_pages=huge_pages(root),
        memory=_memory(proc, "MemTotal"),
        swap=_memory(proc, "SwapTotal"),
        limits=limits_of(_own_pid(found), root),
        clock=read_clock(),
        container=container(root),
        addresses=addresses(),
        route_address=own_ip(),
        user=os.geteuid(),
        listeners=found,
        now=time.time(),
    )


def _text(path: Path) -> str:
    """A file of the kernel; empty if it is not readable."""
    with suppress(OSError), path.open("rb") as file:
        return file.read(MAX_TEXT).decode(errors="replace")
    return ""


def sysctls(proc: Path) -> dict[str, str]:
    found = {name: _text(proc / "sys" / name.replace(".", "/")).strip() for name in SYSCTLS}
    return {name: text for name, text in found.items() if text}


def huge_pages(root: Path) -> dict[str, str]:
    """The choices in brackets, such as `always [madvise] never`."""
    found = {}
    for name in ("enabled", "defrag"):
        text = _text(root / "sys/kernel/mm/transparent_hugepage" / name)
        if chosen := re.search(r"\[([a-z+]{1,32})\]", text):
            found[name] = chosen[1]
    return found


def _memory(proc: Path, name: str) -> int | None:
    found = re.search(rf"^{name}: +([0-9]{{1,18}}) kB$", _text(proc / "meminfo"), re.MULTILINE)
    return int(found[1]) << 10 if found else None


def _own_pid(found: tuple[Listener, ...] | None) -> int | None:
    """The running server, whose limits count rather than those of this shell."""
    return next((one.pid for one in found or () if one.has_lock), None)


def limits_of(pid: int | None, root: Path) -> Limits:
    """Of a process, or of this one."""
    own = root / "proc" / (str(pid) if pid else "self")
    cgroups = root / "sys/fs/cgroup"
    text = _text(own / "limits")
    return Limits(
        open_files=_limit(text, "Max open files", resource.RLIMIT_NOFILE),
        locked_memory=_limit(text, "Max locked memory", resource.RLIMIT_MEMLOCK),
        memory=cgroup.memory_limit(own / "cgroup", cgroups),
        cpus=cpu_quota(own / "cgroup", cgroups),
        tasks=cgroup.task_limit(own / "cgroup", cgroups),
    )


def _limit(text: str, name: str, number: int) -> int | None:
    """The hard limit, to which a server raises the soft one; None: unlimited."""
    found = re.search(rf"^{name} +(\S+) +(\S+)", text, re.MULTILINE)
    if found:
        return int(found[2]) if found[2].isdecimal() else None
    hard = resource.getrlimit(number)[1]
    return None if hard == resource.RLIM_INFINITY else hard


def read_clock() -> Clock | None:
    """What adjtimex says. Reading needs no right. None where it is not there."""
    buffer = (ctypes.c_long * 64)()  # larger than struct timex; modes=0 changes nothing
    try:
        state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(buffer))
    except (OSError, AttributeError):
        return None
    if state < 0:
        return None
    # struct timex on 64-bit Linux: modes, offset, freq, maxerror, esterror, status
    status, most = buffer[5] & 0xFFFF, buffer[3]
    return Clock(state != _STATE_ERROR and not status & _UNSYNCHRONISED, max(int(most), 0))


def container(root: Path = Path("/"), environ: Mapping[str, str] = os.environ) -> str:
    """What shows that this process is in a container; empty for nothing."""
    if "KUBERNETES_SERVICE_HOST" in environ:
        return "Kubernetes"
    for path, name in ((".dockerenv", "Docker"), ("run/.containerenv", "Podman")):
        if (root / path).exists():
            return name
    return "container" if re.search("docker|kubepods|lxc", _text(root / "proc/1/cgroup")) else ""


def addresses() -> frozenset[str]:
    """Addresses of this machine, as far as names and routes tell."""
    found = {own_ip()}
    with suppress(OSError, UnicodeError):
        infos = socket.getaddrinfo(socket.gethostname(), None, type=socket.SOCK_STREAM)
        found |= {str(info[4][0]) for info in infos}
    for line in _text(Path("/proc/net/fib_trie")).split("|--")[1:]:
        address, _, rest = line.partition("\n")
        if "host LOCAL" in rest.partition("|--")[0]:
            found.add(address.strip())
    return frozenset(found)


def required_packages() -> dict[str, str | None]:
    """The required packages, each with what is wrong with it: missing, or another major version
    than pyrmq asks for."""
    try:
        texts = importlib.metadata.requires(PACKAGE) or []
    except importlib.metadata.PackageNotFoundError:
        return {}
    found: dict[str, str | None] = {}
    for text in texts:
        requirement, _, marker = text.partition(";")
        name = _NAME.match(requirement)
        if name is None or "extra" in marker:
            continue
        try:
            version = importlib.metadata.version(name[0])
        except importlib.metadata.PackageNotFoundError:
            found[name[0]] = "it is not installed"
            continue
        found[name[0]] = _unfit(version, requirement[name.end() :])
    return found


def _unfit(version: str, wanted: str) -> str | None:
    """Whether a version is below the least, or not below the first that is too new."""
    for operator, number in re.findall(r"(>=|<)\s*([0-9.]+)", wanted):
        have, limit = _numbers(version), _numbers(number)
        if (have < limit) if operator == ">=" else (have >= limit):
            return f"version {version} is installed, {wanted.strip()} is required"
    return None


def _numbers(text: str) -> tuple[int, ...]:
    found = re.match(r"[0-9]+(\.[0-9]+)*", text)
    numbers = tuple(map(int, found[0].split("."))) if found else (0,)
    return numbers + (0,) * (4 - len(numbers))
