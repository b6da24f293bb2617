"""Gaps between runs and inside of them, by their manifests."""

from __future__ import annotations

from spark_ext.jobs.archive_manifest import Head, LogRange, QueueRange, Run
from spark_ext.jobs.archive_read import exact, find, is_filtered


def run(number: int, log: tuple[int, int], *queues: tuple[int, int, int, int]) -> Run:
    """Of queues: (queue id, first, last, rows)."""
    ranges = [QueueRange("A", "a", *queue) for queue in queues]
    return Run(number, "", 0, 0, {"a": LogRange(*log)}, ranges, ())


def test_runs_that_follow_on_each_other() -> None:
    runs = [run(0, (0, 90), (0, 5, 9, 5), (1, 0, 0, 1)), run(1, (100, 200), (0, 10, 12, 3))]
    assert find(runs) == ([], [])


def test_between_runs() -> None:
    gaps, backwards = find([run(0, (0, 9), (0, 0, 9, 10)), run(1, (10, 19), (0, 12, 20, 9))])
    assert not backwards
    assert [str(gap) for gap in gaps] == ["a A-0: offsets 10 to 11 are missing, in run 1"]


def test_inside_of_a_run() -> None:
    (gap,), _ = find([run(3, (0, 9), (0, 0, 9, 7))])
    assert (gap.missing, gap.first, gap.last) == (3, 0, 9)
    # Neighbours of what is missing are enough.
    found = [str(part) for part in exact(gap, [0, 1, 3, 6, 9])]
    assert found == [
        "a A-0: offset 2 is missing, in run 3",
        "a A-0: offsets 4 to 5 are missing, in run 3",
        "a A-0: offsets 7 to 8 are missing, in run 3",
    ]


def test_what_goes_back() -> None:
    gaps, backwards = find([run(0, (0, 90), (0, 0, 9, 10)), run(1, (90, 99), (0, 9, 12, 4))])
    assert not gaps
    assert backwards == [
        "a A-0: run 1 begins at offset 9, those before it end at 9",
        "a: run 1 begins at physical offset 90, those before it end at 90: is it another log?",
    ]


def test_filters_leave_gaps() -> None:
    assert not is_filtered(Head({"subscribe": "A", "subExpression": "*"}, ()))
    assert is_filtered(Head({"SUBEXPRESSION": "paid || shipped"}, ()))
