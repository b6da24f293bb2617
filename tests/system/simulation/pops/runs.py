"""Running one seed, and reporting why it failed.

What must hold: each stored message comes to each group until it is acknowledged, and no more from
then on; nothing comes before its time, or that was recalled in time. A kill changes none of that,
nor does a power cut with SYNC_FLUSH. With ASYNC_FLUSH a power cut takes back the end of the log,
and what it said.

`python -m tests.system.simulation.pops.runs FIRST COUNT` runs seeds on all cores.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import trio
import trio.testing

from pyrmq.net.clock import go_by
from tests.system.simulation.model import Broken
from tests.system.simulation.pops.faults import Fault
from tests.system.simulation.pops.simulation import PopSimulation
from tests.system.simulation.runs import flat

CHUNK = 25
EXPECTED = ("were revived before the broker was killed",)


class _Errors(logging.Handler):
    """What the broker logs as its own failure fails the run."""

    def __init__(self, sim: PopSimulation) -> None:
        super().__init__(logging.ERROR)
        self.sim = sim

    def emit(self, record: logging.LogRecord) -> None:
        self.sim.trace.append(f"logged: {record.getMessage()} {record.exc_info}")
        if not any(text in record.getMessage() for text in EXPECTED):
            raise Broken(record.getMessage())


class Failed(AssertionError):
    """A seed that failed, and what happened in it."""

    def __init__(self, sim: PopSimulation, why: BaseException) -> None:
        self.sim = sim
        self.why = f"{type(why).__name__}: {why}"
        super().__init__(f"seed {sim.seed}: {self.why}\n" + "\n".join(sim.trace[-40:]))


@contextmanager
def _stage(sim: PopSimulation) -> Iterator[None]:
    """Errors that tell, an order of tasks that comes from the seed, and no threads: on a clock that
    jumps nobody waits for them."""

    async def inline(work: Callable[..., Any], *args: Any, **_: Any) -> Any:
        await trio.lowlevel.checkpoint()
        life = sim.life
        return work(*args) if life is None else life.call(work, *args)

    errors = _Errors(sim)
    logger = logging.getLogger("pyrmq")
    logger.addHandler(errors)
    level, logger.level, logger.propagate = logger.level, logging.ERROR, False
    try:
        with (
            patch("trio.to_thread.run_sync", inline),
            patch("trio._core._run._ALLOW_DETERMINISTIC_SCHEDULING", True),
            patch("trio._core._run._r", Random(sim.seed)),
        ):
            yield
    finally:
        logger.removeHandler(errors)
        logger.setLevel(level)
        logger.propagate = True


def run_seed(seed: int, fault: Fault | None = None) -> PopSimulation:
    """Runs one seed; `Failed`, with its trace, if something does not hold."""
    memory = Path("/dev/shm")
    root = Path(tempfile.mkdtemp(prefix="pyrmq-pops-", dir=memory if memory.is_dir() else None))
    sim = PopSimulation(seed, root, fault or Fault())

    async def run() -> None:
        with go_by(sim.clock):
            await sim.run()

    try:
        with _stage(sim):
            trio.run(run, clock=trio.testing.MockClock(autojump_threshold=0))
    except BaseException as e:
        leaves = flat(e)
        if any(isinstance(leaf, KeyboardInterrupt | SystemExit) for leaf in leaves):
            raise
        broken = [leaf for leaf in leaves if isinstance(leaf, Broken)] or leaves
        raise Failed(sim, broken[0]) from broken[0]
    finally:
        sim.leave()
    return sim


def run_chunk(first: int, count: int) -> tuple[Counter[str], list[tuple[int, str]]]:
    counts: Counter[str] = Counter()
    failed = []
    for seed in range(first, first + count):
        try:
            counts.update(run_seed(seed).counts)
        except Failed as e:
            failed.append((seed, str(e)))
    return counts, failed


def run_seeds(first: int, count: int) -> tuple[Counter[str], list[tuple[int, str]]]:
    counts: Counter[str] = Counter()
    failed: list[tuple[int, str]] = []
    starts = range(first, first + count, CHUNK)
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
        jobs = [pool.submit(run_chunk, at, min(CHUNK, first + count - at)) for at in starts]
        for job in jobs:
            more, bad = job.result()
            counts += more
            failed += bad
    return counts, failed


def main(first: int, count: int) -> int:
    begin = time.monotonic()
    counts, failed = run_seeds(first, count)
    for seed, text in failed:
        print(text if seed in [s for s, _ in failed[:5]] else text.partition("\n")[0])
    what = ", ".join(f"{name} {n}" for name, n in sorted(counts.items()))
    print(f"{count} seeds from {first} in {time.monotonic() - begin:.0f} s: {what}")
    if failed:
        print(f"{len(failed)} failed: {[seed for seed, _ in failed]}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
