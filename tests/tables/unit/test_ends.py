"""The ends of a table: their JSON, and which snapshot says them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrmq.tables.ends import ENDS, MAX_QUEUES, Anchor, Ends, QueueEnd, ends_of
from pyrmq.tables.errors import TableError
from tests.tables.making import Log, World, write


def queue_end(start: int, end: int) -> QueueEnd:
    return QueueEnd(start, end, Anchor(end - 1, 17, 1000))


numbers = st.integers(0, 2**63 - 1)
queue_ends = st.tuples(numbers, numbers, numbers, numbers).filter(lambda n: n[0] < n[1])
some_ends = st.builds(
    Ends,
    st.text(),
    st.dictionaries(
        st.text(),
        st.dictionaries(
            st.integers(0, 2**31 - 1),
            queue_ends.map(lambda n: QueueEnd(n[0], n[1], Anchor(n[1] - 1, n[2], n[3]))),
        ),
    ),
)


@given(some_ends)
def test_json_gives_the_same_ends(ends: Ends) -> None:
    assert Ends.from_json(ends.to_json()) == ends


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "1", "{", "[" * 100_000, '{"v":2,"topic":"a","brokers":{}}',
        '{"v":1,"topic":1,"brokers":{}}', '{"v":1,"topic":"a","brokers":[]}',
        '{"v":1,"topic":"a","brokers":{"b":[]}}',
        '{"v":1,"topic":"a","brokers":{"b":{"x":[0,1,2,3]}}}',
        '{"v":1,"topic":"a","brokers":{"b":{"-1":[0,1,2,3]}}}',
        '{"v":1,"topic":"a","brokers":{"b":{"2147483648":[0,1,2,3]}}}',
        '{"v":1,"topic":"a","brokers":{"b":{"0":[0,1,2]}}}',
        '{"v":1,"topic":"a","brokers":{"b":{"0":[1,1,2,3]}}}',
        '{"v":1,"topic":"a","brokers":{"b":{"0":[0,1.0,2,3]}}}',
        '{"v":1,"topic":"a","brokers":{"b":{"0":[0,true,2,3]}}}',
        '{"v":1,"topic":"a","brokers":{"b":{"0":[0,9223372036854775808,2,3]}}}',
        " " * (9 << 20),
    ],
)  # fmt: skip
def test_what_pyrmq_did_not_write_is_an_error(text: str) -> None:
    with pytest.raises(TableError, match=r"pyrmq\.ends of the table"):
        Ends.from_json(text)


def test_more_queues_than_a_table_may_have_are_an_error() -> None:
    many = {queue: queue_end(0, 1) for queue in range(MAX_QUEUES + 1)}
    with pytest.raises(TableError, match="at most 65536"):
        Ends("t", {"b": many}).to_json()
    text = json.dumps(
        {"v": 1, "topic": "t", "brokers": {"b": {str(q): [0, 1, 2, 3] for q in many}}}
    )
    with pytest.raises(TableError, match="more than 65536"):
        Ends.from_json(text)


def test_a_commit_moves_the_ends_and_keeps_the_starts() -> None:
    before = Ends("t", {"a": {0: queue_end(5, 10)}, "b": {0: queue_end(0, 1)}})
    after = before.plus(
        {"a": {0: queue_end(12, 20), 1: queue_end(3, 4)}, "c": {7: queue_end(0, 2)}}
    )
    assert after.queue("a", 0) == queue_end(5, 20)
    assert after.queue("a", 1) == queue_end(3, 4)
    assert after.queue("b", 0) == queue_end(0, 1)
    assert after.offsets() == {"t": {"a": {0: 20, 1: 4}, "b": {0: 1}, "c": {7: 2}}}
    assert before.queue("a", 0) == queue_end(5, 10)


def test_an_offset_that_is_in_the_table_is_not_added_again() -> None:
    before = Ends("t", {"a": {0: queue_end(0, 10)}})
    with pytest.raises(TableError, match="again"):
        before.plus({"a": {0: queue_end(9, 20)}})


def test_a_snapshot_of_others_has_the_ends_of_its_ancestor(world: World, log: Log) -> None:
    write(world, log, partition=())
    ends = world.ends()
    table = world.table()
    table.delete("queueId = 1")
    assert ENDS not in table.current_snapshot().summary.additional_properties
    assert ends_of(world.table()) == ends


def test_a_table_that_was_rolled_back_has_the_ends_of_that_time(world: World, log: Log) -> None:
    write(world, log, partition=())
    first = world.ends(), world.table().current_snapshot().snapshot_id
    log.put(6)
    write(world, log, partition=())
    assert world.ends() != first[0]
    world.table().manage_snapshots().rollback_to_snapshot(first[1]).commit()
    assert world.ends() == first[0]


def test_without_ancestors_the_property_has_the_ends(world: World, log: Log) -> None:
    write(world, log, partition=())
    ends = world.ends()
    old = world.table().current_snapshot().snapshot_id
    world.table().delete("queueId = 1")
    world.table().maintenance.expire_snapshots().by_id(old).commit()
    assert len(world.table().metadata.snapshots) == 1
    assert world.ends() == ends


def test_a_table_that_was_rolled_back_before_its_ancestors_were_expired(
    world: World, log: Log
) -> None:
    """The property is of the commit that was rolled back: its messages are not in the table."""
    write(world, log, partition=())
    first = world.ends(), world.table().current_snapshot().snapshot_id
    log.put(6)
    write(world, log, partition=())
    world.table().manage_snapshots().rollback_to_snapshot(first[1]).commit()
    world.table().delete("queueId = 1")
    table = world.table()
    for snapshot in table.metadata.snapshots:
        if snapshot.snapshot_id != table.metadata.current_snapshot_id:
            world.table().maintenance.expire_snapshots().by_id(snapshot.snapshot_id).commit()
    assert len(world.table().metadata.snapshots) == 1
    assert world.ends() == first[0]


def test_without_earlier_metadata_files_the_property_has_the_ends(world: World, log: Log) -> None:
    write(world, log, partition=())
    ends = world.ends()
    old = world.table().current_snapshot().snapshot_id
    world.table().delete("queueId = 1")
    world.table().maintenance.expire_snapshots().by_id(old).commit()
    for entry in world.table().metadata.metadata_log:
        Path(entry.metadata_file.removeprefix("file://")).unlink()
    assert world.ends() == ends
