"""Pauses between tries."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrmq.net.backoff import JITTER, NO_RETRY, Backoff, RetryPolicy


def test_each_pause_is_longer_up_to_the_longest() -> None:
    backoff = Backoff(0.5, 3.0, jitter=0)
    assert [backoff.next() for _ in range(5)] == [0.5, 1.0, 2.0, 3.0, 3.0]
    assert backoff.failed == 5
    backoff.reset()
    assert (backoff.failed, backoff.upcoming) == (0, 0.5)
    assert [backoff.next() for _ in range(2)] == [0.5, 1.0]


def test_the_factor() -> None:
    backoff = Backoff(1.0, 100.0, factor=3.0, jitter=0)
    assert [backoff.next() for _ in range(6)] == [1.0, 3.0, 9.0, 27.0, 81.0, 100.0]


def test_a_part_of_each_pause_is_left_out() -> None:
    chance = iter([0.0, 0.5, 1.0, 0.5])
    backoff = Backoff(1.0, 4.0, jitter=0.2, source=lambda: next(chance))
    assert [backoff.next() for _ in range(4)] == pytest.approx([1.0, 1.8, 3.2, 3.6])


def test_the_pause_to_come_is_known_without_chance() -> None:
    backoff = Backoff(1.0, 4.0, source=lambda: 1.0)
    backoff.next()
    assert backoff.upcoming == 2.0


@given(
    first=st.floats(0, 10),
    more=st.floats(0, 100),
    factor=st.floats(1, 10),
    failures=st.integers(1, 200),
)
def test_bounds(first: float, more: float, factor: float, failures: int) -> None:
    backoff = Backoff(first, first + more, factor=factor)
    longest = 0.0
    for _ in range(failures):
        upcoming = backoff.upcoming
        assert longest <= upcoming <= first + more
        assert upcoming * (1 - JITTER) <= backoff.next() <= upcoming
        longest = upcoming


def test_two_that_failed_together_do_not_come_again_together() -> None:
    one, other = Backoff(1.0, 60.0), Backoff(1.0, 60.0)
    assert [one.next() for _ in range(5)] != [other.next() for _ in range(5)]


@pytest.mark.parametrize(
    ("policy", "pauses"),
    [
        (NO_RETRY, [None]),
        (RetryPolicy(2, 0, 0), [0, 0, None]),
        (RetryPolicy(3), [0.1, 0.2, 0.4, None]),
        (RetryPolicy(6, 0.5, 3.0), [0.5, 1.0, 2.0, 3.0, 3.0, 3.0, None]),
    ],
)
def test_pauses(policy: RetryPolicy, pauses: list[float | None]) -> None:
    steady = replace(policy, jitter=0)
    assert [steady.pause(failed) for failed in range(1, len(pauses) + 1)] == pauses
    for failed, pause in enumerate(pauses, 1):
        some = policy.pause(failed)
        if pause is None or some is None:
            assert pause is some
        else:
            assert pause * (1 - JITTER) <= some <= pause


def test_a_pause_is_bounded_however_often_it_failed() -> None:
    assert RetryPolicy(0, jitter=0).pause_after(100_000) == 2.0
