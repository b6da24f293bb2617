"""What must hold of transactions holds under every order of events that a seed makes."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from tests.support.thorough import FAILED, THOROUGH, seed, size
from tests.system.simulation.runs import Failed, run_seed
from tests.system.simulation.seeds import run_seeds

SEEDS = size("PYRMQ_SIM_SEEDS", 120, 10_000)
FIRST = seed() if THOROUGH else 0
HAPPENS = (
    "kill", "kill in call", "power", "stop", "deaths", "jumps", "stalls", "resumes", "late",
    "delivered", "discarded", "ended", "replaced",
)  # fmt: skip


def test_many_seeds() -> None:
    counts: Counter[str] = Counter()
    failed: list[tuple[int, str]] = []
    for one in FAILED["simulation"]:
        run_seed(one)
    for more, bad in run_seeds(FIRST, SEEDS):
        counts += more
        failed += bad
    assert not failed, "\n\n".join([str([s for s, _ in failed]), *(text for _, text in failed[:3])])
    missing = [what for what in HAPPENS if not counts[what]]
    assert counts["runs"] == SEEDS
    assert not missing, f"this never happened: {missing}"


@pytest.mark.skipif("PYRMQ_SIM_SEED" not in os.environ, reason="PYRMQ_SIM_SEED names a seed")
def test_replay() -> None:
    """One seed, with all that happened in it."""
    try:
        sim = run_seed(int(os.environ["PYRMQ_SIM_SEED"]))
    except Failed as e:
        print("\n".join(["", *e.sim.trace, e.why]))
        raise
    print("\n".join(["", *sim.trace]))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_seed_is_one_history(seed: int) -> None:
    assert run_seed(seed).trace == run_seed(seed).trace
