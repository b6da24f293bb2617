"""Flatness, and what else a run decides by itself: pure functions."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.system.soak.flatness import Reading, in_longest_life, judge, over_lives
from tests.system.soak.ledgers import Ledgers
from tests.system.soak.lives import schedule
from tests.system.soak.locks import LockTable
from tests.system.soak.report import Report
from tests.system.soak.retention import expendable
from tests.system.soak.settings import Limits, Settings

MIB = 1024
Shape = Callable[[float], int]


def life(
    number: int,
    seconds: int,
    kib: Shape = lambda age: 50 * MIB,
    files: Shape = lambda age: 60,
    threads: Shape = lambda age: 10,
) -> list[Reading]:
    """A reading every half second."""
    ages = [n / 2 for n in range(2 * seconds)]
    return [Reading(number, age, int(kib(age)), files(age), threads(age)) for age in ages]


def test_flat() -> None:
    readings = life(1, 10) + life(2, 100, files=lambda age: 60 + int(age) % 7)
    judgement = in_longest_life(readings, Limits())
    assert judgement.faults == ()
    assert judgement.said.startswith("longest life (100 s), second quarter to last: private memory")


def test_warming_up_is_left_out() -> None:
    readings = life(1, 100, lambda age: 10 * MIB if age < 20 else 200 * MIB)
    assert in_longest_life(readings, Limits()).faults == ()


@pytest.mark.parametrize(
    ("grown_mib", "fails"),
    [(10, False), (29, False), (31, True), (500, True)],
)
def test_memory_may_grow_by_a_part_and_some(grown_mib: int, fails: bool) -> None:
    """50 MiB: a fifth and 20 MiB are 30 MiB."""
    readings = life(1, 100, lambda age: 50 * MIB if age < 60 else (50 + grown_mib) * MIB)
    faults = in_longest_life(readings, Limits()).faults
    assert bool(faults) == fails
    assert all("private memory grew from 50.0 to" in fault for fault in faults)


def test_a_leak_is_found_however_slow() -> None:
    """50 MiB, then a MiB a second: over a quarter of the growth is between the quarters."""
    faults = in_longest_life(life(1, 200, lambda age: int((50 + age) * MIB)), Limits()).faults
    assert len(faults) == 1


def test_descriptors_and_threads() -> None:
    readings = life(1, 100, files=lambda age: int(age), threads=lambda age: int(age))
    assert [f.split(": ")[1].split(" grew")[0] for f in in_longest_life(readings, Limits()).faults]
    names = [f.split(": ")[1].split(" ")[0] for f in in_longest_life(readings, Limits()).faults]
    assert names == ["descriptors", "threads"]


def test_a_life_that_is_too_short_is_not_judged() -> None:
    judgement = in_longest_life(life(1, 3, lambda age: int(age * 1000 * MIB)), Limits())
    assert judgement.faults == ()
    assert judgement.said.endswith("too short to be judged")


def test_nothing_read_is_a_fault() -> None:
    assert in_longest_life([], Limits()).faults


def test_what_restarts_leave_behind() -> None:
    """Each life is flat, but begins with more than the one before."""
    readings = [r for n in range(1, 9) for r in life(n, 20, lambda age, n=n: n * 20 * MIB)]  # type: ignore[misc]
    assert in_longest_life(readings, Limits()).faults == ()
    (fault,) = over_lives(readings, Limits()).faults
    assert fault.startswith("after restarts (8 lives at 10 s), first half to last: private memory")
    assert len(judge(readings, Limits())) == 2


def test_lives_are_compared_at_one_age() -> None:
    """A server that grows in its first seconds, whatever the length of its lives."""
    readings = [
        r for n in range(1, 9) for r in life(n, 2 + 3 * n, lambda age: int((50 + 40 * age) * MIB))
    ]
    assert over_lives(readings, Limits()).faults == ()
    assert "too few" in over_lives(life(1, 50), Limits()).said


def test_the_schedule() -> None:
    settings = Settings(Path("x"), seconds=600)
    plan = schedule(settings, random.Random(1))
    assert plan == schedule(settings, random.Random(1))
    assert plan != schedule(settings, random.Random(2))
    assert plan[-1] == (600, "SIGKILL")
    assert [how for _, how in plan[:4]] == ["SIGKILL", "SIGTERM", "SIGKILL", "SIGTERM"]
    times = [at for at, _ in plan]
    assert times == sorted(times)
    assert times[-2] <= 600 * (1 - settings.calm), "then one process lives on"
    assert len(schedule(Settings(Path("x"), seconds=8), random.Random(1))) == 3


def test_files_that_may_be_deleted() -> None:
    files = {0: (100, 10.0), 100: (100, 20.0), 200: (100, 30.0), 300: (100, 40.0)}
    assert expendable(files, None, 35.0) == [0, 100, 200]
    assert expendable(files, None, 20.0) == [0]
    assert expendable(files, 250, 100.0) == [0, 100]
    assert expendable(files, 200, 100.0) == [0, 100]
    assert expendable(files, 199, 100.0) == [0]
    assert expendable({0: (100, 50.0), 100: (100, 10.0)}, None, 20.0) == [], "only from the front"


def test_a_lock_that_two_have() -> None:
    ledgers = Ledgers()
    locks = LockTable(ledgers.ordered)
    queue = object()
    locks.taken("a", [queue], 1)  # type: ignore[list-item]
    locks.taken("a", [queue], 1)  # type: ignore[list-item]
    locks.taken("b", [queue], 2)  # type: ignore[list-item]
    locks.taken("a", [queue], 1)  # type: ignore[list-item]
    assert ledgers.ordered.faults() == [], "a restart frees all locks"
    locks.given_up("b", [queue])  # type: ignore[list-item]
    locks.taken("c", [queue], 2)  # type: ignore[list-item]
    assert ledgers.ordered.faults() == []
    locks.taken("d", [queue], 2)  # type: ignore[list-item]
    (fault,) = ledgers.ordered.faults()
    assert "1 locked twice" in fault


def test_what_fails_a_run() -> None:
    ledgers = Ledgers()
    for ledger in ledgers:
        ledger.received("s", 0)
        ledger.sent("s", 0)
    assert Report(ledgers, {}, []).exit_code() == 0
    leak = in_longest_life(life(1, 200, lambda age: int((50 + age) * MIB)), Limits())
    report = Report(ledgers, {"sent": 12}, ["the server died by itself"], [leak])
    assert report.exit_code() == 1
    assert "  sent: 12" in report.lines()
    assert report.lines()[-1] == "FAILED: the server died by itself"
    assert report.lines()[-2].startswith("FAILED: longest life")
    refusing = Report(ledgers, {"sent": 50, "refused: SYSTEM_BUSY": 6}, [])
    (failure,) = refusing.failures()
    assert failure.startswith("6 of 50 sends were refused")
    silent = Report(Ledgers(), {}, [])
    assert "tags: nothing was delivered" in silent.failures()


def test_the_sums() -> None:
    ledgers = Ledgers()
    for ledger, count in ((ledgers.plain, 2), (ledgers.delayed, 3)):
        for number in range(count):
            ledger.sent("s", number)
            ledger.acknowledged("s", number, 100 + number)
    ledgers.plain.received("s", 0, 100)
    ledgers.sql.note("damaged", "s-1")
    assert ledgers.owed() == 4
    assert ledgers.oldest_owed() == 100
    assert ledgers.newest() == 102
    assert ledgers.receipts() == 1
    assert len(ledgers.faults()) == 3
