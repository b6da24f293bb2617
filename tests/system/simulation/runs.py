"""Running one seed, and reporting why it failed."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from unittest.mock import patch

import trio
import trio.testing

from tests.system.simulation.model import Broken
from tests.system.simulation.simulation import Faults, Simulation


class _Errors(logging.Handler):
    """What the broker logs as its own failure fails the run."""

    def __init__(self, sim: Simulation) -> None:
        super().__init__(logging.ERROR)
        self.sim = sim

    def emit(self, record: logging.LogRecord) -> None:
        if "moved to TRANS_CHECK_MAX_TIME_TOPIC" not in record.getMessage():
            self.sim.trace.append(f"logged: {record.getMessage()} {record.exc_info}")
            raise Broken(record.getMessage())


@contextmanager
def _small(sim: Simulation) -> Iterator[None]:
    """Bounds of the service that small runs would never meet, errors that tell, and an order of
    tasks that comes from the seed."""
    s = sim.settings
    errors = _Errors(sim)
    logger = logging.getLogger("pyrmq")
    scheduler = Random(sim.seed)
    logger.addHandler(errors)
    level, logger.level, logger.propagate = logger.level, logging.ERROR, False
    try:
        with (
            patch("pyrmq.txn.checking.CHUNK", s.chunk),
            patch("pyrmq.txn.checking.MAX_BEHIND", s.max_behind),
            patch("pyrmq.txn.checking.EXAMINED", s.looked_at),
            patch("pyrmq.txn.service.PROGRESS_INTERVAL", s.progress_pause),
            patch("trio._core._run._ALLOW_DETERMINISTIC_SCHEDULING", True),
            patch("trio._core._run._r", scheduler),
        ):
            yield
    finally:
        logger.removeHandler(errors)
        logger.setLevel(level)
        logger.propagate = True


def flat(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for inner in error.exceptions for leaf in flat(inner)]
    return [error]


def run_seed(seed: int, faults: Faults | None = None, folder: Path | None = None) -> Simulation:
    """Runs one seed; AssertionError, with its trace, if something does not hold."""
    memory = Path("/dev/shm")
    where = folder or (memory if memory.is_dir() else None)
    root = Path(tempfile.mkdtemp(prefix="pyrmq-sim-", dir=where))
    sim = Simulation(seed, root, faults or Faults())
    try:
        with _small(sim):
            trio.run(sim.run, clock=trio.testing.MockClock(autojump_threshold=0))
    except BaseException as e:
        leaves = flat(e)
        if any(isinstance(leaf, KeyboardInterrupt | SystemExit) for leaf in leaves):
            raise
        broken = [leaf for leaf in leaves if isinstance(leaf, Broken)] or leaves
        raise Failed(sim, broken[0]) from broken[0]
    finally:
        sim.leave()
    return sim


class Failed(AssertionError):
    """A seed that failed, and what happened in it."""

    def __init__(self, sim: Simulation, why: BaseException) -> None:
        self.sim = sim
        self.why = f"{type(why).__name__}: {why}"
        super().__init__(
            f"seed {sim.seed}: {self.why}\n(all that happened: PYRMQ_SIM_SEED={sim.seed} "
            "pytest tests/system/simulation -k replay -s)\n" + "\n".join(sim.trace[-25:])
        )
