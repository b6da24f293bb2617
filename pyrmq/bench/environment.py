"""The machine that a benchmark runs on, as far as it says."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping
from pathlib import Path

from pyrmq.bench.result import Environment
from pyrmq.version import __version__


def environment(facts: Mapping[str, str], store: Path | None = None) -> Environment:
    """`facts`: what the broker says of itself; `store`: its folder, where that is known."""
    return Environment(
        pyrmq=__version__,
        python=platform.python_version(),
        kernel=platform.release(),
        machine=platform.machine(),
        cpu=_cpu(),
        cores=_cores(),
        memory_bytes=_memory(),
        disk=_disk(store) if store else "",
        disk_path=str(store) if store else "",
        load_average=os.getloadavg()[0],
        broker_version=facts.get("brokerVersionDesc", ""),
        flush=facts.get("flushDiskType", ""),
        broker_role=facts.get("brokerRole", ""),
        virtual=_virtual(),
    )


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _cpu() -> str:
    for line in _read("/proc/cpuinfo").splitlines():
        if line.startswith(("model name", "Model")):
            return line.partition(":")[2].strip()
    return platform.processor()


def _cores() -> int:
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 0


def _memory() -> int:
    first = _read("/proc/meminfo").split("\n", 1)[0].split()
    return int(first[1]) << 10 if len(first) == 3 and first[1].isdigit() else 0


def _disk(path: Path) -> str:
    """The mount that the folder is on: its file system and device."""
    best = ("", "")
    real = os.path.realpath(path)
    for line in _read("/proc/self/mounts").splitlines():
        device, mount, kind = [*line.split(), "", "", ""][:3]
        inside = real == mount or real.startswith(mount.rstrip("/") + "/")
        if inside and len(mount) >= len(best[0]):
            best = (mount, f"{kind} on {device}")
    return best[1]


def _virtual() -> str:
    found = []
    if Path("/.dockerenv").exists() or Path("/run/.containerenv").exists():
        found.append("container")
    product = _read("/sys/class/dmi/id/sys_vendor").strip()
    if " hypervisor" in _read("/proc/cpuinfo"):
        found.append(f"virtual machine ({product})" if product else "virtual machine")
    return ", ".join(found)
