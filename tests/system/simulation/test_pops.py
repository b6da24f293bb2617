"""What must hold of pops and timer messages holds under every order of events that a seed makes,
and the simulation sees when it does not."""

from __future__ import annotations

import os

import pytest

from tests.support.thorough import FAILED, THOROUGH, seed, size
from tests.system.simulation.pops.faults import FAULTS, Fault
from tests.system.simulation.pops.runs import Failed, run_chunk, run_seed, run_seeds

SEEDS = size("PYRMQ_POP_SEEDS", 25, 10_000)
FIRST = seed() if THOROUGH else 0
TRIED = 60
"""A fault shows in one of so many seeds."""
HAPPENS = (
    "acks", "acks twice", "again", "batches", "deaths", "holes", "jumps", "kill", "kill in call",
    "pops", "power", "recalled", "renewed", "slow",
)  # fmt: skip


def test_many_seeds() -> None:
    for one in FAILED["simulation-pops"]:
        run_seed(one)
    counts, failed = (run_seeds if THOROUGH else run_chunk)(FIRST, SEEDS)
    assert not failed, "\n\n".join([str([s for s, _ in failed]), *(text for _, text in failed[:3])])
    missing = [what for what in HAPPENS if not counts[what]]
    assert counts["runs"] == SEEDS
    assert not missing, f"this never happened: {missing}"


@pytest.mark.skipif("PYRMQ_POP_SEED" not in os.environ, reason="PYRMQ_POP_SEED names a seed")
def test_replay() -> None:
    """One seed, with all that happened in it."""
    try:
        sim = run_seed(int(os.environ["PYRMQ_POP_SEED"]))
    except Failed as e:
        print("\n".join(["", *e.sim.trace]))
        raise
    print("\n".join(["", *sim.trace]))


def test_a_seed_is_one_history() -> None:
    first, second = run_seed(2), run_seed(2)
    assert first.counts == second.counts
    assert len(first.trace) == len(second.trace)


@pytest.mark.parametrize(("fault", "text"), FAULTS, ids=lambda value: getattr(value, "name", None))
def test_the_simulation_sees(fault: Fault, text: str) -> None:
    assert text in seen(fault)


def seen(fault: Fault) -> str:
    """How the first run that fails says so."""
    for one in range(fault.first, fault.first + TRIED):
        try:
            run_seed(one, fault)
        except Failed as e:
            return e.why
    pytest.fail(f"{TRIED} seeds, and the simulation saw nothing")
