"""Offsets of queues: positions in checkpoints, shares of a limit, tasks."""

from __future__ import annotations

import json
import pickle
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrmq.errors import CheckpointError
from pyrmq.model.message import MessageQueue
from spark_ext.broker.pull import QueueRange
from spark_ext.broker.ranges import SMALL_TASK, from_position, into_tasks, share, to_position

queues = st.builds(
    MessageQueue, st.sampled_from(["A", "B", "c"]), st.sampled_from(["x", "y"]), st.integers(0, 11)
)
offsets = st.dictionaries(queues, st.integers(0, 10**12))


@given(offsets)
def test_a_position_comes_back_and_is_always_the_same_text(found: dict[MessageQueue, int]) -> None:
    position = to_position(found)
    assert from_position(json.loads(json.dumps(position))) == found
    backwards = dict(reversed(found.items()))
    assert json.dumps(to_position(backwards)) == json.dumps(position)


@pytest.mark.parametrize(
    ("position", "said"),
    [
        ({"version": 1, "log": {"broker-a": 17}}, "segments"),
        ({"version": 2, "queues": {}}, "another version"),
        ({}, "another version"),
        ({"version": 1, "queues": {"T": {"a": {"x": 1}}}}, "broken"),
        ({"version": 1, "queues": {"T": {"a": 5}}}, "broken"),
        ({"version": 1, "queues": {"T": {"a": {"0": None}}}}, "broken"),
    ],
)
def test_positions_of_others_are_refused(position: dict[str, object], said: str) -> None:
    with pytest.raises(CheckpointError, match=said):
        from_position(position)


@given(st.dictionaries(queues, st.tuples(st.integers(0, 50), st.integers(0, 5000))), st.data())
def test_a_limit_is_shared_by_backlog(
    found: dict[MessageQueue, tuple[int, int]], data: st.DataObject
) -> None:
    limit = data.draw(st.integers(1, 10_000))
    starts = {q: start for q, (start, _) in found.items()}
    ends = {q: start + length for q, (start, length) in found.items()}
    got = share(starts, ends, limit)
    backlog = {q: ends[q] - starts[q] for q in ends}
    taken = {q: got[q] - starts[q] for q in got}
    assert got.keys() == ends.keys()
    assert all(0 <= taken[q] <= backlog[q] for q in taken)
    assert all(taken[q] >= 1 for q in taken if backlog[q])
    # At least one each may pass the limit by the number of queues, no more.
    assert sum(taken.values()) <= limit + len([q for q in backlog if backlog[q]])
    if sum(backlog.values()) <= limit:
        assert taken == backlog
    else:
        for q in taken:
            assert abs(taken[q] - limit * backlog[q] / sum(backlog.values())) <= 1


ranges = st.builds(
    QueueRange,
    st.sampled_from(["A", "B"]),
    st.sampled_from(["x", "y"]),
    st.integers(0, 7),
    st.integers(0, 100),
    st.integers(0, 60_000),
)


@given(
    st.lists(ranges, unique_by=lambda r: (r.topic, r.broker, r.queue_id)),
    st.none() | st.integers(1, 50),
)
def test_tasks_hold_every_offset_once(found: list[QueueRange], wanted: int | None) -> None:
    tasks = into_tasks(found, wanted)
    assert all(task for task in tasks)
    assert all(len({r.broker for r in task}) == 1 for task in tasks)
    got: dict[tuple[str, str, int], list[tuple[int, int]]] = {}
    for task in tasks:
        for r in task:
            got.setdefault((r.topic, r.broker, r.queue_id), []).append((r.start, r.end))
    total = 0
    for r in found:
        parts = got.pop((r.topic, r.broker, r.queue_id), [])
        total += max(0, r.end - r.start)
        if r.end <= r.start:
            assert not parts
            continue
        assert parts[0][0] == r.start
        assert parts[-1][1] == r.end
        assert all(a[1] == b[0] for a, b in pairwise(parts))
    assert not got
    for task in tasks:
        length = sum(r.end - r.start for r in task)
        assert len(task) == 1 or length <= SMALL_TASK
    if wanted is not None and total >= wanted:
        brokers = len({r.broker for r in found if r.end > r.start})
        assert len(tasks) >= wanted // 2
        assert len(tasks) <= 2 * wanted + len(found) + brokers


def test_ranges_travel() -> None:
    r = QueueRange("T", "a", 3, 10, 20)
    assert pickle.loads(pickle.dumps(r)) == r
    assert str(r) == "topic T, broker a, queue 3, offsets 10 to 20"
