"""When the reader waits a moment for the next request."""

from __future__ import annotations

from pyrmq.net.server.linger import (
    CLOSE,
    LINGER,
    LONGEST_STREAK,
    STREAK,
    Linger,
)

SOON = CLOSE / 2


class Slices:
    """Slices of no length, each `SOON` behind the one before."""

    def __init__(self) -> None:
        self.linger = Linger()
        self.now = 100.0

    def one(self, *, after: float = SOON, served: int = 1) -> bool:
        """Whether it lingers; it serves `served` rounds, and misses if that is one."""
        self.now += after
        wait = self.linger.begins(self.now)
        if wait:
            assert wait == int(LINGER * 1e9)
            self.linger.lingered(served=served, missed=served == 1)
        self.linger.ends(self.now)
        return wait > 0

    def until_it_lingers(self) -> int:
        for count in range(2 * LONGEST_STREAK):
            if self.one():
                return count
        raise AssertionError("it never lingers")


def test_slices_that_follow_each_other_closely():
    slices = Slices()
    slices.one(after=1.0)
    assert [slices.one() for _ in range(STREAK)] == [False] * (STREAK - 1) + [True]


def test_it_goes_on_while_something_comes():
    slices = Slices()
    slices.until_it_lingers()
    slices.until_it_lingers()
    while not slices.one(served=4):
        pass
    assert all(slices.one(served=4) for _ in range(100))
    assert not slices.one(after=CLOSE * 2), "a pause ends it"


def test_misses_make_it_rarer_up_to_a_bound():
    slices = Slices()
    waits = [slices.until_it_lingers() for _ in range(14)]
    assert waits == sorted(waits)
    assert waits[-1] == LONGEST_STREAK - 1


def test_what_comes_makes_it_likelier():
    slices = Slices()
    for _ in range(14):
        slices.until_it_lingers()
    while not slices.one(served=2):
        pass
    for _ in range(10):
        assert slices.one(served=2)
    slices.one(after=1.0)
    assert slices.until_it_lingers() == STREAK - 1
