"""Whether a server holds what it held: its private memory, descriptors and threads.

Like is compared with like: in the longest life of a process its second quarter with its last (the
first is for warming up), and over all lives the moment at which each was equally old.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from tests.system.soak.settings import Limits

FEWEST = 4
"""Readings of a quarter, and lives, that are needed to judge."""
OLDEST = 10.0
"""The age in seconds at which lives are compared, if so many get so old."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What the process held when it was so many seconds old; lives are numbered from 1."""

    life: int
    age: float
    private_kib: int
    files: int
    threads: int

    def __str__(self) -> str:
        return (
            f"private {self.private_kib / 1024:.1f} MiB, descriptors {self.files}, "
            f"threads {self.threads}"
        )


@dataclass(frozen=True, slots=True)
class Judgement:
    """What was compared, in words; `faults`: what grew by more than the limits."""

    said: str
    faults: tuple[str, ...] = ()


def judge(readings: Sequence[Reading], limits: Limits) -> list[Judgement]:
    return [in_longest_life(readings, limits), over_lives(readings, limits)]


def in_longest_life(readings: Sequence[Reading], limits: Limits) -> Judgement:
    longest = max(readings, key=lambda r: r.age, default=None)
    if longest is None:
        return Judgement("no readings", ("nothing was read of the server",))
    age = longest.age
    life = [r for r in readings if r.life == longest.life]
    second = [r for r in life if age / 4 <= r.age < age / 2]
    last = [r for r in life if r.age >= age * 3 / 4]
    what = f"longest life ({age:.0f} s), second quarter to last"
    if len(second) < FEWEST or len(last) < FEWEST:
        return Judgement(f"{what}: too short to be judged")
    return _compared(what, second, last, limits)


def over_lives(readings: Sequence[Reading], limits: Limits) -> Judgement:
    ages: dict[int, float] = {}
    for reading in readings:
        ages[reading.life] = max(ages.get(reading.life, 0.0), reading.age)
    if len(ages) < FEWEST:
        return Judgement(f"after restarts: {len(ages)} lives are too few to be compared")
    # So old that most lives, and enough of them, can be compared.
    grown = sorted(ages.values(), reverse=True)
    age = min(OLDEST, grown[max(FEWEST, len(grown) * 3 // 4) - 1])
    found = []
    for life in sorted(ages):
        later = [r for r in readings if r.life == life and r.age >= age]
        if later:
            found.append(min(later, key=lambda r: r.age))
    half = len(found) // 2
    what = f"after restarts ({len(found)} lives at {age:.0f} s), first half to last"
    return _compared(what, found[:half], found[-half:], limits)


def _compared(
    what: str, before: Sequence[Reading], after: Sequence[Reading], limits: Limits
) -> Judgement:
    faults, parts = [], []

    def compare(name: str, old: float, new: float, most: float, unit: str) -> None:
        parts.append(f"{name} {old:.1f} to {new:.1f}{unit}")
        if new > most:
            faults.append(f"{what}: {name} grew from {old:.1f} to {new:.1f}{unit}, over {most:.1f}")

    old, new = (median(r.private_kib / 1024 for r in some) for some in (before, after))
    most = old * (1 + limits.memory_ratio) + limits.memory_kib / 1024
    compare("private memory", old, new, most, " MiB")
    old, new = (median(r.files for r in some) for some in (before, after))
    compare("descriptors", old, new, old + limits.files, "")
    old, new = (median(r.threads for r in some) for some in (before, after))
    compare("threads", old, new, old + limits.threads, "")
    return Judgement(f"{what}: {', '.join(parts)}", tuple(faults))
