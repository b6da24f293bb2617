"""Servers that answer something else than they should: whatever it is, commands say what is wrong.

Each answer on the way to a command is distorted with some chance: a value of its JSON, a field of
its header, its code, its bytes, or its frame. PYRMQ_BAD_SEED names one seed.
"""

from __future__ import annotations

import os
import random

import pytest

from tests.admin.e2e.bad_servers.between import honest
from tests.admin.e2e.bad_servers.commands import FLAT, LINES, Behind, check, check_json
from tests.admin.e2e.bad_servers.distorted import distort
from tests.support.wire import Command

NAMED = os.environ.get("PYRMQ_BAD_SEED")
OTHERS = [pytest.param(n, marks=pytest.mark.thorough("other seeds of it")) for n in range(1, 40)]
SEEDS = [int(NAMED)] if NAMED else [0, *OTHERS]
AS_JSON = [line for line in LINES if not line.startswith("monitor")]


def _lie(behind: Behind, seed: int, at: int) -> None:
    chance = random.Random(seed * 10_000 + at)
    rate = chance.choice((1.0, 0.5, 0.2))

    def passes(request: Command, answer: Command) -> bytes:
        return distort(chance, answer) if chance.random() < rate else honest(request, answer)

    behind.door.passes = passes


@pytest.mark.parametrize("seed", SEEDS)
def test_flat_commands(behind: Behind, seed: int) -> None:
    for at, case in enumerate(FLAT):
        _lie(behind, seed, at)
        check(behind.flat(at), f"{case.line} (seed {seed})")


@pytest.mark.parametrize("seed", SEEDS)
def test_the_tree(behind: Behind, seed: int) -> None:
    for at, line in enumerate(LINES):
        _lie(behind, seed, 1000 + at)
        check(behind.tree(line), f"{line} (seed {seed})")


@pytest.mark.parametrize("seed", SEEDS)
def test_the_tree_for_programs(behind: Behind, seed: int) -> None:
    for at, line in enumerate(AS_JSON):
        _lie(behind, seed, 2000 + at)
        ran = behind.tree(line, "-o", "json")
        check(ran, f"{line} (seed {seed})")
        check_json(ran, line)


def test_honest_answers_are_understood(behind: Behind) -> None:
    """Otherwise the tests above would show nothing."""
    codes = [behind.tree(line).code for line in LINES]
    assert codes.count(0) > 50
    assert sum(behind.flat(at).code == 0 for at in range(len(FLAT))) > 110
