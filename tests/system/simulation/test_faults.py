"""The simulation fails when what it watches over is broken: each test breaks one thing."""

from __future__ import annotations

from typing import Any

import pytest

from pyrmq.engine import Store, Transactions
from tests.system.simulation.runs import Failed, run_seed
from tests.system.simulation.simulation import Faults

SEEDS = 200
"""A fault shows in one of these."""


class Wrapped:
    """The engine's Transactions, but for what a test replaces."""

    def __init__(self, native: Any) -> None:
        self.native = native

    def __getattr__(self, name: str) -> Any:
        return getattr(self.native, name)


class SaysSuccessAndDoesNothing(Wrapped):
    """To what the engine's fast path leaves over."""

    def settle(self, offset: int, commit: bool) -> int:
        return 0


class OlderCopiesAreSettled(Wrapped):
    def live(self, phys: int) -> int | None:
        offset = self.native.live(phys)
        return offset if offset is not None and self.native.find(offset)[1] == phys else None


class ProgressIsAhead(Wrapped):
    def progress(self) -> tuple[int, int, int]:
        half, op, end = self.native.progress()
        return half + self.native.stats()["pending"], op, end


class SomeAreNeverDue(Wrapped):
    def due(self, *args: int) -> tuple[list[Any], int]:
        found, next_offset = self.native.due(*args)
        return [half for half in found if half[0] % 8 != 7], next_offset


class CountsTwice(Wrapped):
    def renew(self, offsets: list[int], asked: bool) -> list[Any]:
        if asked:
            (copy,) = self.native.renew(offsets, asked) or [None]
            return [] if copy is None else self.native.renew([copy[1]], asked)
        return self.native.renew(offsets, asked)


class EngineFault(Faults):
    def __init__(self, wrapper: type[Wrapped]) -> None:
        self.wrapper = wrapper
        self.name = wrapper.__name__

    def engine(self, native: Any) -> Any:
        return self.wrapper(native)


class RecoveredCommitsAreIgnored(Faults):
    name = "RecoveredCommitsAreIgnored"

    def before_open(self, store: Store) -> None:
        Transactions(store.native, half_offset=store.queue_range("RMQ_SYS_TRANS_HALF_TOPIC", 0)[1])


class AnswersBeforeTheDisk(Faults):
    name = "AnswersBeforeTheDisk"
    hasty = True


def seen(faults: Faults) -> str:
    """How the first run that fails says so."""
    for seed in range(SEEDS):
        try:
            run_seed(seed, faults)
        except Failed as e:
            return e.why
    pytest.fail(f"{SEEDS} seeds, and the simulation saw nothing")


@pytest.mark.parametrize(
    ("faults", "text"),
    [
        (EngineFault(SaysSuccessAndDoesNothing), "acknowledged; it was delivered 0 times"),
        (EngineFault(OlderCopiesAreSettled), "was acknowledged; it was delivered 0 times"),
        (EngineFault(ProgressIsAhead), "passes the half"),
        (EngineFault(SomeAreNeverDue), "wait for ever"),
        (EngineFault(CountsTwice), "checks were counted"),
        (RecoveredCommitsAreIgnored(), "delivered 2 times"),
        (AnswersBeforeTheDisk(), "before it was on disk"),
    ],
    ids=lambda value: None if isinstance(value, str) else value.name,
)
def test_the_simulation_sees(faults: Faults, text: str) -> None:
    why = seen(faults)
    assert text in why, why
