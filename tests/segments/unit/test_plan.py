"""Batch reads of stores of ours: whatever the plan, the rows are those that consumers get."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyrmq import engine
from pyrmq.errors import (
    OffsetOutOfRangeError,
    SegmentOptionError,
    UnknownTopicError,
)
from pyrmq.segments.plan import plan
from pyrmq.segments.read_options import ReadOptions
from pyrmq.segments.selection import Selection
from pyrmq.segments.split import Split
from pyrmq.segments.store import open_stores
from tests.segments.making import BROKER, ROW, SCHEDULE, Made, make, put, read, small
from tests.segments.planning import HOW, planned
from tests.store.tools import LOG_FILE


@pytest.mark.parametrize("mode", ["auto", "scan", "file"])
@pytest.mark.parametrize("split_bytes", [5_000, 70_000, 1 << 28])
def test_every_message_once_whatever_the_cut(made: Made, mode: str, split_bytes: int) -> None:
    splits = planned(made, mode=mode, split_bytes=split_bytes, include_system_topics=True)
    assert read(splits) == made.rows
    if mode == "file":
        assert len(splits) == len(list((made.root / "commitlog").iterdir()))
    elif split_bytes == 5_000:
        assert len(splits) > 50


def test_user_topics_by_default(made: Made) -> None:
    assert read(planned(made)) == made.of("A", "B", "C")
    assert read(planned(made, topics=(SCHEDULE,))) == made.of(SCHEDULE)


def test_times_skip_whole_segments(made: Made, tmp_path: Path) -> None:
    root = tmp_path / BROKER
    with small(root) as store:
        for _ in range(2500):
            put(store, "T", 0, b"x" * 150)
    stores = open_stores([str(root)])
    times = [t[0] for t in engine.segment_times(stores[0].files) if t]
    assert len(times) >= 6
    table = read_times(planned(root, ReadOptions(columns=("storeTimestamp", "commitLogOffset"))))
    low, high = times[2], times[-2] + 1
    expected = [phys for time, phys in table if low <= time < high]
    splits = planned(root, TIMED, start_time=low, end_time=high)
    assert [phys for _, phys in read_times(splits)] == expected
    assert expected


TIMED = ReadOptions(columns=("storeTimestamp", "commitLogOffset"))


def read_times(splits: list[Split]) -> list[tuple[int, int]]:
    import pyarrow as pa

    table = pa.Table.from_batches([batch for split in splits for batch in split.read()])
    times = table.column("storeTimestamp").cast(pa.int64()).to_pylist()
    places = table.column("commitLogOffset").to_pylist()
    return [(time // 1000, phys) for time, phys in zip(times, places, strict=True)]


def test_unknown_topic(made: Made) -> None:
    with pytest.raises(UnknownTopicError, match="topic 'AA' is not in the store"):
        planned(made, starting_offsets={"AA": {BROKER: {0: 1}}})
    with pytest.raises(UnknownTopicError, match=r"topic 'a' is not in the store.*did you mean A"):
        planned(made, topics=("a",))
    assert read(planned(made.root / "commitlog", topics=("a",))) == []


def test_offsets_behind_the_end(made: Made) -> None:
    end = sum(row[:2] == ("A", 0) for row in made.rows)
    for root in (made.root, made.root / "commitlog"):
        with pytest.raises(OffsetOutOfRangeError, match=f"it holds 0 to {end}"):
            plan(
                open_stores([str(root)], [BROKER]),
                Selection(starting_offsets={"A": {BROKER: {0: end + 1}}}),
                HOW,
            )
        with pytest.raises(OffsetOutOfRangeError, match="ending_offsets: offset 10000 of topic A"):
            plan(
                open_stores([str(root)], [BROKER]),
                Selection(ending_offsets={"A": {BROKER: {0: 10_000}}}),
                HOW,
            )
    assert read(planned(made, topics=("A",), queues=(0,),
                        starting_offsets={"A": {BROKER: {0: end}}})) == []  # fmt: skip


def test_offsets_of_messages_without_a_queue_entry(tmp_path: Path) -> None:
    """A broker that is killed leaves messages in the log that it has not dispatched yet."""
    made = make(tmp_path / BROKER, rounds=20)
    topic, queue, offset = made.of("A", "B", "C")[-1][:3]
    files = sorted((made.root / "consumequeue" / topic / str(queue)).iterdir())
    last = next(file for file in reversed(files) if int(file.name) <= offset * 20)
    with last.open("r+b") as file:
        file.seek(offset * 20 - int(last.name))
        file.write(bytes(20))
    wanted: dict[str, Any] = {"topics": (topic,), "queues": (queue,)}
    for parameter in ("starting_offsets", "ending_offsets"):
        found = read(planned(made, **wanted, **{parameter: {topic: {BROKER: {queue: offset + 1}}}}))
        own = [row for row in made.rows if row[:2] == (topic, queue)]
        assert found == ([] if parameter == "starting_offsets" else own)
        with pytest.raises(OffsetOutOfRangeError, match=f"it holds 0 to {offset + 1}"):
            planned(made, **wanted, **{parameter: {topic: {BROKER: {queue: offset + 2}}}})


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"starting_offsets": "latest"}, "no start for a batch"),
        ({"starting_offsets": {"A": {BROKER: {0: -1}}}}, "no start for a batch"),
        ({"topics": ("A",), "starting_offsets": {"B": {BROKER: {0: 1}}}}, "which is not selected"),
        ({"starting_offsets": {"A": {"other": {0: 1}}}}, "there is no broker 'other'"),
        ({"assign": {"A": {"other": (0,)}}}, "there is no broker 'other'"),
        (
            {
                "starting_offsets": {"A": {BROKER: {0: 9}}},
                "ending_offsets": {"A": {BROKER: {0: 8}}},
            },
            "is before its starting offset 9",
        ),
        ({"mode": "fast"}, "expected auto, scan, index, file"),
        ({"split_bytes": 10}, "split_bytes: 10"),
        ({"min_partitions": 0}, "min_partitions: 0"),
        ({"start_time": 2**50}, "is later than every message"),
    ],
)
def test_wrong_options(made: Made, options: dict[str, Any], part: str) -> None:
    with pytest.raises(SegmentOptionError) as caught:
        planned(made, **options)
    assert part in str(caught.value)


def test_start_later_than_all_may_be_latest(made: Made) -> None:
    assert planned(made, start_time=2**50, timestamp_strategy="latest") == []


def test_two_brokers(made: Made, tmp_path: Path) -> None:
    other = make(tmp_path / "broker-b", 40)
    stores = open_stores([made.path, other.path])
    assert [store.name for store in stores] == ["broker-a", "broker-b"]
    how = ReadOptions(columns=(*ROW, "brokerName"))
    splits = plan(stores, Selection(topics=("B",)), how)
    assert read(splits) == made.of("B") + other.of("B")
    assert {split.broker for split in splits} == {"broker-a", "broker-b"}


def test_a_live_store_up_to_now(tmp_path: Path) -> None:
    with small(tmp_path / BROKER) as store:
        put(store, "T", 0, b"one")
        splits = planned(tmp_path / BROKER)
        put(store, "T", 0, b"two")
        assert [row[6] for row in read(splits)] == [b"one"]
        assert [row[6] for row in read(planned(tmp_path / BROKER))] == [b"one", b"two"]


def test_a_store_without_messages(tmp_path: Path) -> None:
    with small(tmp_path / BROKER) as store:
        put(store, "T", 0, b"one")
    for path in (tmp_path / BROKER / "commitlog").iterdir():
        path.write_bytes(bytes(LOG_FILE))
    assert planned(tmp_path / BROKER) == []
