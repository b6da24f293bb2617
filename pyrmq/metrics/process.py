"""Figures of this process: CPU, memory, descriptors, garbage collection, and how late the event
loop runs.

Names that begin with process_ and python_ are those of Prometheus' client libraries.
"""

from __future__ import annotations

import gc
import os
import platform
import resource
import threading
import time
from bisect import bisect_left
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import trio

from pyrmq.metrics.families import Family, counter, gauge, histogram, info
from pyrmq.metrics.page import Page
from pyrmq.net.server.listen import descriptor_limit
from pyrmq.version import __version__

PROC = Path("/proc/self")
LOOK_EVERY = 0.25
"""Seconds between two looks at how late the event loop is."""
_FEW = 1024
"""Up to so many descriptors were counted last, they are counted without a thread."""

BUILD = info(
    "pyrmq_build_info",
    "Versions: of pyrmq and of Python.",
    "version",
    "python_version",
)
CPU = counter("process_cpu_seconds_total", "CPU time of this process, user and system, s.")
RSS = gauge("process_resident_memory_bytes", "Memory of this process that is in RAM.")
VIRTUAL = gauge("process_virtual_memory_bytes", "Address space of this process.")
START = gauge("process_start_time_seconds", "When this process began, s since 1970.")
OPEN = gauge("process_open_fds", "Open descriptors of this process.")
MOST = gauge("process_max_fds", "Limit of open descriptors (RLIMIT_NOFILE).")
THREADS = gauge("pyrmq_threads", "Threads of this process, those of the engine too.")
GC_RUNS = counter(
    "python_gc_collections_total", "Runs of Python's garbage collector.", "generation"
)
GC_FOUND = counter(
    "python_gc_objects_collected_total", "Objects that the collector has freed.", "generation"
)
LAG = histogram(
    "pyrmq_loop_lag_seconds",
    "How late the event loop runs a task that is due, looked at four times a second.",
    (0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5),
)
FAMILIES: tuple[Family, ...] = (
    BUILD, CPU, RSS, VIRTUAL, START, OPEN, MOST, THREADS, GC_RUNS, GC_FOUND, LAG,
)  # fmt: skip


class Histogram:
    """Counts values by bucket."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = tuple(bounds)
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self._bounds, value)] += 1
        self.total += value


class ProcessFigures:
    """A source of a page. `run` has to run for the lag of the loop."""

    def __init__(self) -> None:
        self._lag = Histogram(LAG.bounds)
        self._start = _started()
        self._descriptors = 0
        self._page_size = resource.getpagesize()

    async def run(self) -> None:
        """Looks at the event loop until cancelled."""
        due = trio.current_time()
        while True:
            due = max(due + LOOK_EVERY, trio.current_time())
            await trio.sleep_until(due)
            self._lag.observe(max(trio.current_time() - due, 0.0))

    async def __call__(self, page: Page) -> None:
        page.add(BUILD, 1, version=__version__, python_version=platform.python_version())
        page.add(CPU, round(time.process_time(), 6))
        with suppress(OSError, ValueError, IndexError):
            size, resident, *_ = (PROC / "statm").read_text().split()
            page.add(RSS, int(resident) * self._page_size)
            page.add(VIRTUAL, int(size) * self._page_size)
        page.add(START, self._start)
        page.add(OPEN, await self._open_descriptors())
        page.add(MOST, descriptor_limit())
        page.add(THREADS, _threads())
        for number, stats in enumerate(gc.get_stats()):
            page.add(GC_RUNS, stats["collections"], generation=number)
            page.add(GC_FOUND, stats["collected"], generation=number)
        page.rows(LAG).add_histogram("", self._lag.counts, round(self._lag.total, 6))

    async def _open_descriptors(self) -> int:
        """Counted in a thread where there are many: each connection has one."""
        if self._descriptors <= _FEW:
            self._descriptors = _count_descriptors()
        else:
            self._descriptors = await trio.to_thread.run_sync(_count_descriptors)
        return self._descriptors


def _count_descriptors() -> int:
    count = os.stat(PROC / "fd").st_size  # the number itself, since Linux 6.2
    if count:
        return count
    with os.scandir(PROC / "fd") as found:
        return sum(1 for _ in found) - 1  # without the one of this look


def _threads() -> int:
    try:
        return os.stat(PROC / "task").st_nlink - 2
    except OSError:
        return threading.active_count()


def _started() -> float:
    """When this process began, by the kernel; now where that is not known."""
    try:
        ticks = int((PROC / "stat").read_text().rpartition(")")[2].split()[19])
        boot = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
        return round(boot + ticks / os.sysconf("SC_CLK_TCK"), 2)
    except (OSError, ValueError, IndexError):
        return round(time.time(), 2)
