"""Topics that a stream names later or that are not there yet, and how far it is behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyrmq.engine import Store
from tests.segments.making import BROKER, Made, put, read
from tests.segments.unit.test_stream import drained, live, planner, through

__all__ = ["live"]
Row = tuple[Any, ...]


def key(row: Row) -> Any:
    return row[3]


def test_a_topic_that_is_added_starts_at_its_beginning(made: Made) -> None:
    first = planner(made.root, topics=("A",))
    begin = through(first.initial())
    middle = through(first.latest(begin, max_offsets=500))
    rows = read(first.splits(begin, middle))
    second = planner(made.root, topics=("A", "B"))
    end = through(second.latest(middle, max_offsets=10))
    assert end["topics"] == ["A", "B"]
    more = read(second.splits(middle, end))
    assert [row for row in more if row[3] < middle["log"][BROKER]] == [
        row for row in made.of("B") if row[3] < middle["log"][BROKER]
    ]
    assert more == read(planner(made.root, topics=("A", "B")).splits(middle, end))  # run again
    rest = drained(second, end, max_offsets=100)
    assert sorted(rows + more + rest, key=key) == made.of("A", "B")


def test_a_batch_that_is_run_again_with_more_topics_reads_nothing_twice(made: Made) -> None:
    """It was planned with A and B; C is added before it is done."""
    begin = through(planner(made.root, topics=("A",)).initial())
    middle = through(planner(made.root, topics=("A",)).latest(begin, max_offsets=500))
    end = through(planner(made.root, topics=("A", "B")).latest(middle, max_offsets=300))
    third = planner(made.root, topics=("A", "B", "C"))
    rows = read(third.splits(begin, middle)) + read(third.splits(middle, end))
    assert not any(row[0] == "C" for row in rows)
    rows += drained(third, end)
    assert sorted(rows, key=key) == made.of("A", "B", "C")


A0, A02, AB = (
    {"A": {BROKER: (0,)}},
    {"A": {BROKER: (0, 2)}},
    {"A": {BROKER: (0,)}, "B": {BROKER: (0,)}},
)


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ({"topics": ("A",)}, {"topics": ("B",)}),
        ({"topics": ("A",)}, {"pattern": "A|B"}),
        ({"topics": ("A",)}, {}),
        ({"topics": ("A",)}, {"assign": AB}),
        ({"assign": A0}, {"assign": A02}),
        ({"assign": A0}, {"assign": AB}),
        ({"assign": A0}, {"topics": ("A", "B")}),
        ({"pattern": "A"}, {"topics": ("A", "B")}),
    ],
)
def test_a_batch_is_run_again_after_the_selection_changed(
    made: Made, before: dict[str, Any], now: dict[str, Any]
) -> None:
    """It reads nothing that the next one reads as added, and no row is there twice."""
    first = planner(made.root, **before)
    middle = through(first.latest(first.initial(), max_offsets=200))
    end = through(first.latest(middle, max_offsets=100))
    second = planner(made.root, **now)
    rows = read(second.splits(middle, end)) + drained(second, end)
    assert len({key(row) for row in rows}) == len(rows)


def test_added_while_nothing_else_is_new(made: Made) -> None:
    end = through(planner(made.root, topics=("A",)).end())
    assert drained(planner(made.root, topics=("A", "C")), end) == made.of("C")
    assert drained(planner(made.root), end) == [r for r in made.rows if r[0] in ("B", "C")]
    assert drained(planner(made.root, topics=("A",)), end) == []
    old = {"log": end["log"], "version": 1}  # it does not say which topics were read
    assert drained(planner(made.root, topics=("A", "C")), old) == []


def test_a_topic_that_was_left_out_starts_anew(made: Made) -> None:
    both = through(planner(made.root, topics=("A", "C")).end())
    stream = planner(made.root, topics=("A",))
    one = through(stream.latest(both))
    assert read(stream.splits(both, one)) == []
    assert drained(planner(made.root, topics=("A", "C")), one) == made.of("C")


def test_a_queue_that_is_added_starts_at_its_beginning(made: Made) -> None:
    end = through(planner(made.root, assign={"A": {BROKER: (0,)}}).end())
    assert end["assign"] == {"A": {BROKER: [0]}}
    later = planner(made.root, assign={"A": {BROKER: (0, 2)}, "C": {BROKER: (0,)}})
    expected = [r for r in made.of("A", "C") if r[0] == "C" or r[1] == 2]
    assert drained(later, end) == expected


def test_a_topic_that_is_not_there_is_warned_of_once(
    made: Made, caplog: pytest.LogCaptureFixture
) -> None:
    stream = planner(made.root, topics=("A", "a"))
    stream.latest(stream.initial())
    found = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(found) == 1
    assert "topic 'a' is not in the store (did you mean A?)" in found[0]
    caplog.clear()
    planner(made.root, topics=("A",)).initial()
    planner(made.root / "commitlog", topics=("x",), broker_names=[BROKER]).initial()
    assert not [record for record in caplog.records if record.levelname == "WARNING"]


def test_how_far_it_is_behind(live: Store, tmp_path: Path) -> None:
    root = tmp_path / BROKER
    stream = planner(root, topics=("A", "C"))
    start = stream.initial()
    stream.latest(start)
    found = stream.behind()
    assert found.bytes == {BROKER: 0}
    assert found.messages == {(BROKER, ("A", n)): 0 for n in range(4)} | {(BROKER, ("C", 0)): 0}
    for number in range(7):
        put(live, "A", number % 2, b"more")
        put(live, "B", 0, b"not chosen")
    stream.end()
    found = stream.behind()
    assert found.messages is not None
    assert {k: n for k, n in found.messages.items() if n} == {
        (BROKER, ("A", 0)): 4,
        (BROKER, ("A", 1)): 3,
    }
    assert found.bytes[BROKER] > 14 * 90
    alone = planner(root / "commitlog", topics=("A",))
    alone.latest(alone.initial())
    assert alone.behind().messages is None


def test_counting_what_waits(live: Store, tmp_path: Path) -> None:
    stream = planner(tmp_path / BROKER, topics=("A",))
    start = through(stream.end())
    assert stream.count(start, 5) == 0
    put(live, "B", 0, b"x")
    for number in range(4):
        put(live, "A", 0, b"x")
        assert stream.count(start, 5) == number + 1
    for _ in range(4):
        put(live, "A", 0, b"x")
    assert stream.count(start, 5) == 5
    assert stream.count(through(stream.latest(start)), 5) == 0
    added = planner(tmp_path / BROKER, topics=("A", "B"))
    assert added.count(start, 1000) == 1000
