"""Folding of who uses the broker, against a model that keeps everything."""

from __future__ import annotations

import tracemalloc
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyrmq.broker.stats import folding
from pyrmq.broker.stats.folding import MINUTES, SAMPLES, N, Ring, Tally, fold
from pyrmq.net.server.turns import finish
from tests.support.thorough import examples

names = st.sampled_from([f"n{i}" for i in range(12)])
figures = st.tuples(*[st.integers(0, 1000)] * N)
adds = st.lists(st.tuples(names, figures), max_size=40)
MOST = 5


def added(*parts: list[int] | tuple[int, ...]) -> list[int]:
    return [sum(column) for column in zip([0] * N, *parts, strict=True)]


def tally_of(counted: list[tuple[str, tuple[int, ...]]], most: int = 1000) -> Tally:
    tally = Tally(most)
    for name, amounts in counted:
        tally.add(name, amounts)
    return tally


def truth_of(counted: list[tuple[str, tuple[int, ...]]]) -> dict[str, list[int]]:
    truth: dict[str, list[int]] = {}
    for name, amounts in counted:
        truth[name] = added(truth.get(name, [0] * N), amounts)
    return truth


@settings(max_examples=examples(200), deadline=None)
@given(adds)
def test_a_bucket_keeps_those_who_used_most_and_loses_nothing(
    counted: list[tuple[str, tuple[int, ...]]],
) -> None:
    truth = truth_of(counted)
    bucket = finish(fold(tally_of(counted), 10.0, 10.0, MOST))
    rows = {n: list(bucket.figures[i * N : i * N + N]) for i, n in enumerate(bucket.names)}
    assert len(rows) == min(len(truth), MOST)
    assert all(rows[name] == truth[name] for name in rows)
    assert bucket.folded == len(truth) - len(rows)
    whole = added(*truth.values())
    assert added(*rows.values(), bucket.others) == whole
    for name, amounts in truth.items():  # a share of more than N / MOST of any figure is kept
        if any(a * MOST > N * w for a, w in zip(amounts, whole, strict=True)):
            assert name in rows


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(adds, min_size=1, max_size=20), st.integers(1, 1200))
def test_a_ring_sums_what_its_buckets_have(
    samples: list[list[tuple[str, tuple[int, ...]]]], seconds: int
) -> None:
    ring = Ring(most=100)  # nothing is folded: exact
    for at, counted in enumerate(samples, 1):
        finish(ring.sample(tally_of(counted), 10.0 * at, 10.0))
    span = finish(ring.over(seconds))
    if seconds <= 60:
        used = samples[-max(round(seconds / 10), 1) :]
    else:
        whole, rest = divmod(len(samples), 6)
        minutes = min(max(round(seconds / 60), 1), whole)
        used = samples[(whole - minutes) * 6 : whole * 6] + samples[len(samples) - rest :]
    assert span.rows == truth_of([one for counted in used for one in counted])
    assert span.seconds == 10.0 * len(used)
    assert span.end == 10.0 * len(samples)
    assert span.end - span.begin == pytest.approx(span.seconds)


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(adds, min_size=1, max_size=20))
def test_rows_never_say_more_than_was_and_totals_are_exact_however_much_is_folded(
    samples: list[list[tuple[str, tuple[int, ...]]]],
) -> None:
    ring = Ring(most=3)
    for at, counted in enumerate(samples, 1):
        finish(ring.sample(tally_of(counted, most=8), 10.0 * at, 10.0))
    every = [one for counted in samples for one in counted]
    truth = truth_of(every)
    span = finish(ring.over(3600))
    for name, row in span.rows.items():
        assert all(a <= t for a, t in zip(row, truth[name], strict=True))
    assert added(*span.rows.values(), span.others) == added(*truth.values())


def test_nothing_was_sampled() -> None:
    span = finish(Ring().over(60))
    assert (span.rows, span.seconds, span.folded) == ({}, 0.0, 0)


def test_one_name_among_a_hundred_thousand_is_seen_and_memory_is_bounded() -> None:
    """Each sample has other names: only the bound keeps the ring small."""
    ring = Ring(most=32)
    tracemalloc.start()
    for at in range(6 * MINUTES):
        tally = Tally()
        tally.add("hog", (0, 10_000_000, 0, 0, 1))
        for n in range(60):
            tally.add(f"{at}-{n}-" + "x" * 1000, (1, 100, 0, 0, 1))
        finish(ring.sample(tally, 10.0 * at, 10.0))
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 8 << 20  # all names would be 24 MB
    tally = Tally()
    for n in range(100_000):
        tally.add(f"n{n}", (1, 1, 0, 0, 1))
    assert len(tally.rows) == folding.MOST_OPEN
    assert added(*tally.rows.values(), tally.others)[0] == 100_000
    span = finish(ring.over(3600))
    assert span.rows["hog"][1] == 10_000_000 * 6 * MINUTES
    assert span.folded > 0


def test_it_yields_often() -> None:
    tally = Tally()
    for n in range(folding.MOST_OPEN):
        tally.add(f"n{n}", (n, n, n, n, 1))
    steps = Counter(type(step) for step in fold(tally, 0.0, 10.0))
    assert steps[type(None)] >= 2 * folding.MOST_OPEN // folding.LOOK


def test_the_ring_keeps_a_minute_of_samples_and_an_hour_of_minutes() -> None:
    ring = Ring()
    for at in range(6 * (MINUTES + 5) + 3):
        finish(ring.sample(tally_of([("a", (1, 1, 1, 1, 1))]), 10.0 * at, 10.0))
    assert (len(ring.samples), len(ring.minutes), len(ring.open)) == (SAMPLES, MINUTES, 3)
    assert finish(ring.over(3600)).rows["a"][0] == 6 * MINUTES + 3
