"""Runs many seeds on all cores: `python -m tests.system.simulation.seeds FIRST COUNT`."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from tests.system.simulation.runs import Failed, run_seed

CHUNK = 25
SHOWN = 5
"""Failures that are shown in full."""

Result = tuple[Counter[str], list[tuple[int, str]]]


def run_chunk(first: int, count: int) -> Result:
    counts: Counter[str] = Counter()
    failed = []
    for seed in range(first, first + count):
        try:
            counts.update(run_seed(seed).counts)
        except Failed as e:
            failed.append((seed, str(e)))
    return counts, failed


def run_seeds(first: int, count: int) -> Iterator[Result]:
    """The results of chunk after chunk."""
    starts = range(first, first + count, CHUNK)
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
        jobs = [pool.submit(run_chunk, at, min(CHUNK, first + count - at)) for at in starts]
        for job in jobs:
            yield job.result()


def main(first: int, count: int) -> int:
    begin = time.monotonic()
    counts: Counter[str] = Counter()
    failed: list[tuple[int, str]] = []
    for more, bad in run_seeds(first, count):
        counts += more
        failed += bad
        for _, text in bad[: max(SHOWN - len(failed) + len(bad), 0)]:
            print(text, flush=True)
    what = ", ".join(f"{name} {n}" for name, n in sorted(counts.items()))
    print(f"{count} seeds from {first} in {time.monotonic() - begin:.0f} s: {what}")
    if failed:
        print(f"{len(failed)} failed: {[seed for seed, _ in failed]}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
