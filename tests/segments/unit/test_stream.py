"""Positions of a stream: nothing twice, nothing left out, whatever the limits and restarts."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyrmq.engine import Store
from pyrmq.errors import CheckpointError, DataLossError, OffsetOutOfRangeError, SegmentOptionError
from pyrmq.segments.read_options import ReadOptions
from pyrmq.segments.selection import Selection
from pyrmq.segments.stream import StreamPlanner
from tests.segments.making import BROKER, ROW, Made, fill, make, put, read, rows_of, small
from tests.store.tools import LOG_FILE, image, log_file, overwrite

HOW = ReadOptions(columns=tuple(ROW))
Offset = dict[str, Any]


def planner(*roots: Path, how: ReadOptions = HOW, **options: Any) -> StreamPlanner:
    names = {"split_bytes", "min_partitions", "mode", "fail_on_data_loss", "broker_names"}
    own = {name: options.pop(name) for name in names & options.keys()}
    return StreamPlanner([str(root) for root in roots], Selection(**options), how, **own)


def through(text: Offset) -> Offset:
    """As Spark keeps it: JSON text."""
    return json.loads(json.dumps(text))


def batches(
    stream: StreamPlanner, start: Offset, **limits: Any
) -> Iterator[tuple[list[tuple[Any, ...]], Offset]]:
    """Rows and end of each batch up to the end of the logs."""
    while (end := through(stream.latest(start, **limits))) != start:
        yield read(pickle.loads(pickle.dumps(stream.splits(start, end)))), end
        start = end


def drained(stream: StreamPlanner, start: Offset, **limits: Any) -> list[tuple[Any, ...]]:
    return [row for rows, _ in batches(stream, start, **limits) for row in rows]


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Store]:
    with small(tmp_path / BROKER) as store:
        fill(store, 60)
        yield store


def test_the_shape_of_a_position(made: Made) -> None:
    stream = planner(made.root)
    assert stream.initial() == {"log": {BROKER: 0}, "version": 1}
    end = stream.latest(None)
    assert list(end) == ["log", "version"]
    assert end == stream.end()
    assert json.dumps(end) == json.dumps(end, sort_keys=True)


@pytest.mark.parametrize(
    "limits",
    [{}, {"max_offsets": 1}, {"max_offsets": 97}, {"max_bytes": 1}, {"max_bytes": 30_000},
     {"max_offsets": 50, "max_bytes": 9_000}],
    ids=str,
)  # fmt: skip
def test_every_message_once_in_order(tmp_path: Path, limits: dict[str, int]) -> None:
    made = make(tmp_path / BROKER, 40)
    stream = planner(made.root, split_bytes=5_000)
    assert drained(stream, stream.initial(), **limits) == made.of("A", "B", "C")


def test_limits_hold(made: Made) -> None:
    stream = planner(made.root, topics=("A",))
    sizes = [len(rows) for rows, _ in batches(stream, stream.initial(), max_offsets=300)]
    assert sizes[:-1] == [300] * (len(sizes) - 1)
    start = stream.initial()
    for _, end in batches(stream, start, max_bytes=50_000):
        assert end["log"][BROKER] - start["log"][BROKER] <= 50_000
        start = end


def test_growing_log_from_latest(live: Store, tmp_path: Path) -> None:
    stream = planner(tmp_path / BROKER, starting_offsets="latest")
    at = through(stream.initial())
    assert stream.latest(at) == at
    before = rows_of(live)
    fill(live, 300)  # several segments further
    rows, at = next(batches(stream, at))
    new = [row for row in rows_of(live)[len(before) :] if row[0] in "ABC"]
    assert rows == new
    assert list(batches(stream, at)) == []
    put(live, "New topic".replace(" ", "_"), 5, b"first of it")
    assert [row[6] for row in drained(stream, at)] == [b"first of it"]


def test_restart_from_any_position(made: Made) -> None:
    stream = planner(made.root, split_bytes=20_000)
    got, at = [], through(stream.initial())
    while True:
        stream = planner(made.root, split_bytes=20_000)  # nothing is kept but the checkpoint
        end = through(stream.latest(at, max_offsets=333))
        if end == at:
            break
        replayed = planner(made.root).splits(at, end)  # before any call of latest
        assert read(replayed) == read(stream.splits(at, end))
        got += read(replayed)
        at = end
    assert got == made.of("A", "B", "C")


def test_a_pinned_end(live: Store, tmp_path: Path) -> None:
    stream = planner(tmp_path / BROKER)
    start = through(stream.initial())
    stream.pin()
    expected = [row for row in rows_of(live) if row[0] in "ABC"]
    fill(live, 5)
    assert drained(stream, start, max_offsets=100) == expected
    assert stream.latest(None) != stream.end()


OFFSETS = [
    {0: 10, 1: 300, 2: 0, 3: 399},
    {0: 10, 1: 300},
    {0: -2, 1: -1, 2: 200, 3: 5},
    {0: -1, 1: -1, 2: -1, 3: -1},
    {0: 400, 1: 400, 2: 400, 3: 400},
]


@pytest.mark.parametrize("queues", OFFSETS, ids=str)
@pytest.mark.parametrize("log_only", [False, True])
@pytest.mark.parametrize("limit", [None, 77])
def test_start_by_queue(
    made: Made, queues: dict[int, int], log_only: bool, limit: int | None
) -> None:
    root = made.root / "commitlog" if log_only else made.root
    stream = planner(root, topics=("A",), starting_offsets={"A": {BROKER: queues}})
    first = {q: {-1: 400, -2: 0}.get(n, n) for q, n in queues.items()}
    expected = [row for row in made.of("A") if row[2] >= first.get(row[1], 0)]
    start = through(stream.initial())
    if len(queues) == 4 and -2 not in queues.values():
        assert start["log"][BROKER] >= min((row[3] for row in expected), default=0)
    ends = list(batches(stream, start, max_offsets=limit))
    assert [row for rows, _ in ends for row in rows] == expected
    if ends:
        assert ends[-1][1].keys() == {"log", "topics", "version"}  # the filter is gone once passed


def test_start_by_queue_survives_a_restart_in_the_middle(made: Made) -> None:
    options: dict[str, Any] = {
        "topics": ("A",),
        "starting_offsets": {"A": {BROKER: {0: 0, 1: 390, 2: 5, 3: 200}}},
    }
    at = through(planner(made.root, **options).initial())
    assert at["from"] == {"A": {BROKER: {"1": 390, "2": 5, "3": 200}}}
    first = {0: 0, 1: 390, 2: 5, 3: 200}
    expected = [row for row in made.of("A") if row[2] >= first[row[1]]]
    got: list[tuple[Any, ...]] = []
    while True:
        stream = planner(made.root, topics=("A",))  # the option counts for a new query only
        end = through(stream.latest(at, max_offsets=100))
        if end == at:
            break
        got += read(stream.splits(at, end))
        at = end
    assert got == expected


def test_start_beyond_the_end(made: Made) -> None:
    stream = planner(made.root, starting_offsets={"A": {BROKER: {0: 401}}})
    with pytest.raises(OffsetOutOfRangeError, match="holds 0 to 400"):
        stream.initial()


def test_start_at_a_time(made: Made) -> None:
    import pyarrow as pa

    splits = planner(made.root, how=ReadOptions(columns=("storeTimestamp", "commitLogOffset")))
    at = splits.initial()
    batch = [b for s in splits.splits(at, splits.latest(at)) for b in s.read()]
    table = pa.Table.from_batches(batch)
    times = [t // 1000 for t in table.column("storeTimestamp").cast(pa.int64()).to_pylist()]
    middle = times[len(times) // 2]
    index = next(i for i, time in enumerate(times) if time >= middle)
    phys = table.column("commitLogOffset")[index].as_py()
    start = planner(made.root, start_time=middle, include_system_topics=True).initial()
    assert start["log"][BROKER] <= phys
    rows = drained(planner(made.root), start)
    assert rows[0][3] <= phys
    assert len(rows) >= len(times) - index
    with pytest.raises(SegmentOptionError, match="later than every message"):
        planner(made.root, start_time=2**50).initial()
    late = planner(made.root, start_time=2**50, timestamp_strategy="latest")
    assert late.initial() == late.end()


def test_segments_that_go(made: Made, tmp_path: Path) -> None:
    root = image(made.root, tmp_path / BROKER)
    stream = planner(root)
    start = through(stream.initial())
    end = through(stream.latest(start, max_offsets=20))
    log_file(root, 0).unlink()
    with pytest.raises(DataLossError, match=rf"bytes {end['log'][BROKER]} to {LOG_FILE}"):
        stream.latest(end, max_offsets=20)
    with pytest.raises(DataLossError, match=f"to {LOG_FILE} of the log"):
        stream.splits(start, end)
    left = [row for row in made.of("A", "B", "C") if row[3] >= LOG_FILE]
    for limits in ({"max_offsets": 50}, {}):
        on = planner(root, fail_on_data_loss=False)
        assert drained(on, end, **limits) == left


def test_a_stream_that_read_a_segment_whole_loses_nothing_with_it(tmp_path: Path) -> None:
    """Its position is the front of the next segment, not the blank record of this one."""
    with small(tmp_path / BROKER) as store:
        while put(store, "A", 0, b"x" * 1000) < LOG_FILE:
            at = through(planner(tmp_path / BROKER).end())
        rows = rows_of(store)
    root = image(tmp_path / BROKER, tmp_path / "full" / BROKER)
    overwrite(log_file(root, LOG_FILE), 0, bytes(2000))
    stream = planner(root)
    at = through(stream.latest(at))
    assert at["log"] == {BROKER: LOG_FILE}
    log_file(tmp_path / BROKER).unlink()
    assert drained(planner(tmp_path / BROKER), at) == rows[-1:]


def test_other_brokers_than_the_checkpoint_has(made: Made) -> None:
    at = planner(made.root).initial()
    with pytest.raises(CheckpointError, match=r"is of broker broker-a, the stores are of x"):
        planner(made.root, broker_names=["x"]).latest(at)


@pytest.mark.parametrize(
    "value",
    [{}, {"version": 2, "log": {}}, {"version": 1}, {"version": 1, "log": {BROKER: "0"}},
     {"version": 1, "log": {BROKER: -1}}, {"version": 1, "log": [1]}, None, 3,
     {"version": 1, "log": {BROKER: 0}, "from": {"A": {BROKER: {"x": 1}}}}],
    ids=str,
)  # fmt: skip
def test_checkpoints_that_are_none(made: Made, value: Any) -> None:
    with pytest.raises(CheckpointError):
        planner(made.root).splits(value, value)


def test_a_log_that_was_cut(made: Made, tmp_path: Path) -> None:
    root = image(made.root, tmp_path / BROKER)
    stream = planner(root)
    end = through(stream.latest(stream.initial()))
    for path in sorted((root / "commitlog").iterdir())[3:]:
        path.unlink()
    with pytest.raises(DataLossError, match=r"ends at \d+, the stream is at"):
        stream.latest(end)
    with pytest.raises(DataLossError, match="it is another log, or it was cut"):
        stream.splits(stream.initial(), end)
    assert planner(root, fail_on_data_loss=False).latest(end) == end


def test_a_log_that_was_cut_where_no_start_is_given(
    made: Made, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As with PySpark 4.1."""
    root = image(made.root, tmp_path / BROKER)
    strict, stream = planner(root), planner(root, fail_on_data_loss=False)
    end = through(stream.latest(None))
    assert strict.latest(None) == end
    for path in sorted((root / "commitlog").iterdir())[3:]:
        path.unlink()
    with pytest.raises(DataLossError, match=r"ends at \d+, the stream is at"):
        strict.latest(None)
    assert stream.latest(None) == end
    assert "the stream is at" in caplog.text
    again = planner(root)  # after a restart
    with pytest.raises(DataLossError, match=r"ends at \d+, the stream is at"):
        again.splits(end, again.latest(None))


def test_the_start_of_a_query_stays(live: Store, tmp_path: Path) -> None:
    """Spark asks for it again when it plans the first batch."""
    stream = planner(tmp_path / BROKER, starting_offsets="latest")
    early = through(stream.latest(None))
    put(live, "A", 0, b"in front of it")
    start = through(stream.initial())
    assert stream.splits(start, early) == []
    put(live, "A", 0, b"the first")
    end = through(stream.latest(None))
    put(live, "A", 0, b"later")
    assert stream.initial() == start
    assert [row[6] for row in read(stream.splits(stream.initial(), end))] == [b"the first"]


def test_half_a_record_at_the_end_is_left_for_later(live: Store, tmp_path: Path) -> None:
    root = tmp_path / BROKER
    copy = tmp_path / "copy" / BROKER
    stream = planner(root)
    before = through(stream.latest(stream.initial()))
    phys = put(live, "A", 0, b"x" * 500)
    put(live, "A", 1, b"behind")
    image(root, copy)
    path = log_file(copy, phys // LOG_FILE * LOG_FILE)
    whole = path.read_bytes()
    at = phys % LOG_FILE
    path.write_bytes(whole[: at + 300] + bytes(len(whole) - at - 300))
    torn = planner(copy)
    assert torn.latest(before) == before
    overwrite(path, 0, whole)
    assert [row[6] for row in drained(torn, before)] == [b"x" * 500, b"behind"]


def test_two_brokers_share_a_limit(made: Made, tmp_path: Path) -> None:
    other = make(tmp_path / "broker-b", 40)
    stream = planner(made.root, other.root)
    rows, sizes = [], []
    for batch, _ in batches(stream, stream.initial(), max_offsets=100):
        rows += batch
        sizes.append(len(batch))
    assert max(sizes) <= 100
    assert sorted(rows) == sorted(made.of("A", "B", "C") + other.of("A", "B", "C"))
    assert len(sizes) < 2 * len(rows) / 100 + 5
    one = planner(made.root, other.root)
    assert len(list(batches(one, one.initial(), max_bytes=100_000))) < 20


def test_what_belongs_to_a_batch_is_refused(made: Made) -> None:
    with pytest.raises(SegmentOptionError, match="a stream has no end"):
        planner(made.root, ending_offsets={"A": {BROKER: {0: 1}}})
    with pytest.raises(SegmentOptionError, match="a stream has no end"):
        planner(made.root, end_time=5)
    with pytest.raises(SegmentOptionError, match="plan='index'"):
        planner(made.root, mode="index")
    stream = planner(made.root)
    with pytest.raises(SegmentOptionError, match="max_offsets: 0"):
        stream.latest(stream.initial(), max_offsets=0)
    with pytest.raises(SegmentOptionError, match="max_bytes needs the start"):
        stream.latest(None, max_bytes=5)


def test_a_topic_may_come_later(made: Made) -> None:
    stream = planner(made.root, topics=("Later",))
    assert drained(stream, stream.initial()) == []
