"""Sharing queues: the published tables, and that nothing is lost or doubled."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrmq.client.allocate import Strategy, average, average_by_circle
from pyrmq.model.message import MessageQueue


def queues(n: int) -> list[MessageQueue]:
    return [MessageQueue("T", "b", i) for i in range(n)]


def split(strategy: Strategy, n: int, m: int) -> list[list[int]]:
    """Queue ids by consumer."""
    ids = [f"c{i:03}" for i in range(m)]
    return [[q.queue_id for q in strategy(queues(n), ids, own)] for own in ids]


@pytest.mark.parametrize(
    ("n", "m", "expected"),
    [
        (8, 3, [[0, 1, 2], [3, 4, 5], [6, 7]]),
        (2, 3, [[0], [1], []]),
        (10, 4, [[0, 1, 2], [3, 4, 5], [6, 7], [8, 9]]),
        (4, 1, [[0, 1, 2, 3]]),
        (4, 4, [[0], [1], [2], [3]]),
    ],
)
def test_average(n: int, m: int, expected: list[list[int]]) -> None:
    assert split(average, n, m) == expected


@pytest.mark.parametrize(
    ("n", "m", "expected"),
    [(8, 3, [[0, 3, 6], [1, 4, 7], [2, 5]]), (2, 3, [[0], [1], []]), (3, 1, [[0, 1, 2]])],
)
def test_circle(n: int, m: int, expected: list[list[int]]) -> None:
    assert split(average_by_circle, n, m) == expected


@pytest.mark.parametrize("strategy", [average, average_by_circle])
@given(n=st.integers(0, 60), m=st.integers(1, 20))
def test_every_queue_has_one_owner(strategy: Strategy, n: int, m: int) -> None:
    parts = split(strategy, n, m)
    assert sorted(q for part in parts for q in part) == list(range(n))
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1
    assert all(part == sorted(part) for part in parts)


@given(n=st.integers(1, 60), m=st.integers(1, 20))
def test_average_is_javas_formula(n: int, m: int) -> None:
    for i, part in enumerate(split(average, n, m)):
        rest = n % m
        size = 1 if n <= m else n // m + (1 if rest > 0 and i < rest else 0)
        start = i * size if rest > 0 and i < rest else i * size + rest
        assert part == list(range(n))[start : start + max(min(size, n - start), 0)]


@pytest.mark.parametrize("strategy", [average, average_by_circle])
def test_who_is_not_in_the_list_gets_nothing(strategy: Strategy) -> None:
    assert strategy(queues(8), ["a", "b"], "c") == []
    assert strategy(queues(8), [], "c") == []
    assert strategy([], ["c"], "c") == []
