"""Times by topic, broker and queue: the offsets that they stand for, in a store and a log alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import pyrmq
from pyrmq.errors import OffsetOutOfRangeError, SegmentOptionError, UnknownTopicError
from pyrmq.segments.offsets import TimeEntry, entries, shown
from pyrmq.segments.plan import plan
from pyrmq.segments.read_options import ReadOptions
from pyrmq.segments.selection import Selection
from pyrmq.segments.store import open_stores
from pyrmq.segments.stream import StreamPlanner
from tests.segments.making import BROKER, ROW, Made, read

HOW = ReadOptions(columns=tuple(ROW))
LATE = 2**45
Times = dict[str, Any]


@pytest.fixture(params=[False, True], ids=["store", "log"])
def path(made: Made, request: pytest.FixtureRequest) -> str:
    return str(made.root / "commitlog" if request.param else made.root)


@pytest.fixture(scope="module")
def clock(made: Made) -> dict[int, int]:
    """Store time of each physical offset."""
    table = pyrmq.scan(
        made.path, columns=["commitLogOffset", "storeTimestamp"], include_system_topics=True
    ).to_arrow()
    times = table.column("storeTimestamp").cast("int64").to_pylist()
    places = table.column("commitLogOffset").to_pylist()
    return {place: time // 1000 for place, time in zip(places, times, strict=True)}


def batch(path: str, **options: Any) -> list[tuple[Any, ...]]:
    chosen = Selection(**{"topics": ("A", "B"), **options})
    rows = read(plan(open_stores([path], [BROKER]), chosen, HOW))
    return sorted(rows, key=lambda row: row[3])


def stream(path: str, **options: Any) -> list[tuple[Any, ...]]:
    made = StreamPlanner(
        [path], Selection(topics=("A", "B"), **options), HOW, broker_names=[BROKER]
    )
    start = made.initial()
    return read(made.splits(start, made.latest(start)))


def at(made: Made, clock: dict[int, int], part: float) -> int:
    """The store time in the middle of the log, or so."""
    return clock[made.rows[int(len(made.rows) * part)][3]]


@pytest.mark.parametrize("how", [batch, stream])
def test_starts(made: Made, path: str, clock: dict[int, int], how: Any) -> None:
    """One queue, a whole topic; what is not named starts at its beginning."""
    time = at(made, clock, 0.5)
    times: Times = {"A": {BROKER: {2: time}}, "B": time}
    expected = [
        row for row in made.of("A", "B") if clock[row[3]] >= time or (row[0] == "A" and row[1] != 2)
    ]
    assert len(expected) < len(made.of("A", "B"))
    assert how(path, starting_times=times) == expected


def test_ends(made: Made, path: str, clock: dict[int, int]) -> None:
    """A time behind the log is its end."""
    time = at(made, clock, 0.5)
    times: Times = {"A": {BROKER: {0: time, 1: LATE}}, "B": {BROKER: time}}
    expected = [
        row for row in made.of("A", "B") if clock[row[3]] < time or (row[0] == "A" and row[1] != 0)
    ]
    assert batch(path, ending_times=times) == expected


def test_both(made: Made, path: str, clock: dict[int, int]) -> None:
    low, high = at(made, clock, 0.3), at(made, clock, 0.7)
    rows = batch(path, topics=("A",), starting_times={"A": low}, ending_times={"A": high})
    assert rows == [row for row in made.of("A") if low <= clock[row[3]] < high]


def test_times_of_the_whole_read_win(made: Made, path: str, clock: dict[int, int]) -> None:
    time = at(made, clock, 0.5)
    rows = batch(path, start_time=time, starting_times={"A": LATE})
    assert rows == [row for row in made.of("A", "B") if clock[row[3]] >= time]


@pytest.mark.parametrize("how", [batch, stream])
def test_later_than_all(made: Made, path: str, how: Any) -> None:
    times: Times = {"A": {BROKER: {1: LATE}}, "B": LATE}
    text = f"{shown(LATE)} is later than every message of topic A, broker {BROKER}, queue 1"
    with pytest.raises(OffsetOutOfRangeError, match=text):
        how(path, starting_times=times)
    rows = how(path, starting_times=times, timestamp_strategy="latest")
    assert rows == [row for row in made.of("A") if row[1] != 1]


def test_a_topic_is_late_only_if_all_its_queues_are(
    made: Made, path: str, clock: dict[int, int]
) -> None:
    last = made.of("A")[-1]
    time = clock[last[3]]
    assert last in batch(path, topics=("A",), starting_times={"A": time})


def test_what_is_named_must_be_there(made: Made) -> None:
    for wrong, error in (
        ({"C": 5}, "'C', which is not selected"),
        ({"A": {"other": 5}}, "no broker 'other'"),
    ):
        with pytest.raises(SegmentOptionError, match=error):
            batch(made.path, starting_times=wrong)
    with pytest.raises(UnknownTopicError, match="'X'"):
        batch(made.path, topics=("A", "X"), ending_times={"X": 5})


def test_entries() -> None:
    found = list(entries({"A": 1, "B": {"b": 2, "c": {3: 4}}}))
    assert found == [
        TimeEntry("A", None, None, 1),
        TimeEntry("B", "b", None, 2),
        TimeEntry("B", "c", 3, 4),
    ]
    assert [entry.covers("B", "c", 3) for entry in found] == [False, False, True]
    assert str(found[2]) == "topic B, broker c, queue 3"


def test_a_task_has_at_most_so_many_messages(made: Made, tmp_path: Path) -> None:
    from pyrmq.segments.split import at_most

    for mode in ("scan", "index"):
        for topics, most in ((("A",), 37), (("A", "B"), 500), (("B",), 10_000)):
            splits = plan(open_stores([made.path]), Selection(topics=topics), HOW, mode=mode)
            parts = at_most(splits, most)
            sizes = [len(read([part])) for part in parts]
            assert max(sizes) <= most
            assert len(parts) <= len(made.of(*topics)) // most + len(splits) + 1
            rows = sorted(read(parts), key=lambda row: row[3])
            assert rows == made.of(*topics)
