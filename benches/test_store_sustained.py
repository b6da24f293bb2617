"""Appending without a pause across roll-overs, beside memcpy into a mapping whose pages are there.

The yardstick's mapping stays populated; the store's pages are made while it writes, and the disk
takes them meanwhile. Latencies of single appends stand beside those of a loop that only copies as
many bytes, as on a shared machine the scheduler makes most of the long ones: of those over 1 ms
it is told in how many the thread waited for something, and in how many it met a page fault.
"""

from __future__ import annotations

import mmap
import resource
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from benches.stores import FULL, PROPERTIES, Frame, Producer, batch_frame, single_frame

FILE = 256 << 20
ROUND = 1 << 30
"""Bytes that are appended without a pause: four roll-overs."""
ROUNDS = 5 if FULL else 3
SINGLES = 2_000_000 if FULL else 500_000
LATE = 1_000_000


class Mapping:
    """A populated file mapping of a log file's size that bytes are copied into in turn."""

    def __init__(self, path: Path) -> None:
        with path.open("w+b") as f:
            f.truncate(FILE)
            self.bytes = np.frombuffer(mmap.mmap(f.fileno(), FILE), dtype=np.uint8)
        self.bytes[:] = 1
        self.at = 0

    def copy(self, source: np.ndarray) -> None:
        if self.at + len(source) > FILE:
            self.at = 0
        self.bytes[self.at : self.at + len(source)] = source
        self.at += len(source)


@pytest.mark.parametrize(("body", "batch"), [(1024, 64), (1024, 1000), (100, 1000)])
@pytest.mark.benchmark(group="append, sustained across roll-overs")
def test_sustained(body, batch, folder: Path, benchmark, report) -> None:
    producer = Producer(folder / "store", 1, commit_log_file_size=FILE)
    mapping = Mapping(folder / "mapping")
    frame = Frame(batch_frame("T0", 0, batch, body, PROPERTIES))
    producer.feed(frame)
    size = producer.store.stats()["maxPhyOffset"]
    source = np.full(size, 7, dtype=np.uint8)
    ratios, cpu, rates = [], [], []

    def work() -> None:
        for _ in range(ROUND // size):
            producer.feed(frame)

    def round_() -> None:
        began, used = time.perf_counter(), time.thread_time()
        work()
        took, used = time.perf_counter() - began, time.thread_time() - used
        began = time.perf_counter()
        for _ in range(ROUND // size):
            mapping.copy(source)
        ratios.append((time.perf_counter() - began) / took)
        cpu.append(used / (ROUND // size * batch) * 1e9)
        rates.append(ROUND / took / 1e9)
        producer.store.clean(now_ms=int(time.time() * 1000) + 100 * 3600_000, manual=True)

    benchmark.pedantic(round_, rounds=ROUNDS, warmup_rounds=1)
    low, mid, high = min(ratios[1:]), np.median(ratios[1:]), max(ratios[1:])
    report(f"{mid:.2f} ({low:.2f} to {high:.2f}) of memcpy", ">= 0.5" if body == 1024 else "")
    report(f"{np.median(rates[1:]):.2f} GB/s of log")
    target = "<= 120 ns" if body == 100 else ""
    report(f"{np.median(cpu[1:]):.0f} ns of CPU a message in the call", target)
    producer.close()


def percentiles(ns: np.ndarray) -> str:
    p50, p99, p999 = (np.percentile(ns, p) / 1e3 for p in (50, 99, 99.9))
    over = int((ns > LATE).sum())
    return f"{p50:.1f}/{p99:.1f}/{p999:.1f}/{ns.max() / 1e3:.0f} us, {over} over 1 ms"


@dataclass
class Blame:
    """Of the calls over 1 ms, since when `refresh` was called: waits and page faults in them."""

    waited: int = 0
    faulted: int = 0
    waits: int = 0
    faults: int = 0

    def refresh(self) -> None:
        use = resource.getrusage(resource.RUSAGE_THREAD)
        self.waits, self.faults = use.ru_nvcsw, use.ru_minflt + use.ru_majflt

    def late(self) -> None:
        waits, faults = self.waits, self.faults
        self.refresh()
        self.waited += self.waits > waits
        self.faulted += self.faults > faults


@pytest.mark.parametrize("rate", [0, 200_000], ids=["unpaced", "200k-a-second"])
@pytest.mark.benchmark(group="append, one message a call")
def test_single_latency(rate, folder: Path, benchmark, report) -> None:
    producer = Producer(folder / "store", 1, commit_log_file_size=FILE)
    mapping = Mapping(folder / "mapping")
    frame = Frame(single_frame("T0", 0, 1024, PROPERTIES))
    for _ in range(100_000):
        producer.feed(frame)
    source = np.full(1200, 7, dtype=np.uint8)
    times = np.zeros(SINGLES, dtype=np.int64)
    control = np.zeros(SINGLES, dtype=np.int64)

    def measure(work, argument, out) -> Blame:
        clock, blame = time.perf_counter_ns, Blame()
        blame.refresh()
        start = clock()
        for i in range(SINGLES):
            began = clock()
            work(argument)
            took = clock() - began
            out[i] = took
            if took > LATE:
                blame.late()
            if i % 100 == 99:
                blame.refresh()
            if rate and i % 200 == 199:
                early = start + i * 1_000_000_000 // rate - clock()
                if early > 0:
                    time.sleep(early / 1e9)
                    blame.refresh()
        return blame

    blame = benchmark.pedantic(measure, args=(producer.feed, frame, times), rounds=1)
    measure(mapping.copy, source, control)
    report(f"worst {times.max() / 1e6:.2f} ms", "< 1 ms")
    report(f"p50/p99/p99.9/worst {percentiles(times)}")
    report(f"of those over 1 ms {blame.waited} waited, {blame.faulted} met a page fault")
    report(f"a loop that copies: {percentiles(control)}")
    producer.close()
