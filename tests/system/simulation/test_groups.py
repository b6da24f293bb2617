"""What must hold of consumer groups holds under every order of events that a seed makes."""

from __future__ import annotations

import os

import pytest

from tests.support.thorough import FAILED, THOROUGH, seed, size
from tests.system.simulation.groups import Broken, run_chunk, run_seed, run_seeds

SEEDS = size("PYRMQ_GROUP_SEEDS", 8, 2000)
FIRST = seed() if THOROUGH else 0
HAPPENS = ("joins", "leaves", "restarts", "cuts", "again", "quiet")


def test_many_seeds() -> None:
    for one in FAILED["simulation-groups"]:
        run_seed(one)
    counts, failed = (run_seeds if THOROUGH else run_chunk)(FIRST, SEEDS)
    assert not failed, "\n\n".join([str([s for s, _ in failed]), *(text for _, text in failed[:3])])
    missing = [what for what in HAPPENS if not counts[what]]
    assert counts["runs"] == SEEDS
    assert not missing, f"this never happened: {missing}"


@pytest.mark.skipif("PYRMQ_GROUP_SEED" not in os.environ, reason="PYRMQ_GROUP_SEED names a seed")
def test_replay() -> None:
    """One seed, with all that happened in it."""
    try:
        sim = run_seed(int(os.environ["PYRMQ_GROUP_SEED"]))
    except Broken as e:
        print(e)
        raise
    print("\n".join(["", *sim.trace]))


def test_a_seed_is_one_history() -> None:
    first, second = run_seed(2), run_seed(2)
    assert first.seen == second.seen
    assert first.counts == second.counts
    assert len(first.trace) == len(second.trace)
