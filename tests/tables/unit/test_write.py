"""Runs: each message once, over new messages, new queues and brokers, and changed logs."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest

from pyrmq.errors import UnknownTopicError
from pyrmq.tables.ends import LOST, Ends
from pyrmq.tables.errors import TableLossError, TableSchemaError, TableStoreError
from tests.segments.making import as_rows, put, small
from tests.tables.making import (
    COLUMNS,
    TABLE,
    TOPIC,
    Log,
    Row,
    World,
    check_same,
    run_of,
    source_of,
    write,
)


def test_a_run_adds_what_is_new(world: World, log: Log) -> None:
    assert write(world, log).rows == 60
    assert write(world, log).commits == 0
    log.put(7)
    assert write(world, log).rows == 7
    check_same(world, log)
    assert [q.end for _, _, q in world.ends().queues()] == [23, 22, 22]


def test_commits_of_a_long_log_are_bounded(world: World, log: Log) -> None:
    log.put(600, size=400)
    added = write(world, log, commit_bytes=100_000, step_bytes=50_000)
    assert added.commits >= 3
    check_same(world, log)


def test_a_service_sees_what_came_meanwhile(world: World, log: Log) -> None:
    run = run_of(world, log)
    for _ in range(3):
        run.catch_up()
        check_same(world, log)
        log.put(10, queues=5)
    assert run.added.commits == 3


def test_what_comes_during_a_run_is_left_to_the_next(world: World, log: Log) -> None:
    """A busy topic would else be committed in pieces of a few messages, without an end."""
    run = run_of(world, log)
    batches = run._source.batches

    def busy(*at: Any) -> Any:
        assert len(log.rows) < 75, "the run does not end"
        log.put(3)
        return batches(*at)

    run._source.batches = busy  # type: ignore[method-assign]
    run.catch_up()
    assert (run.added.commits, run.added.rows) == (1, 60)
    run.catch_up()
    assert (run.added.commits, run.added.rows) == (2, 63)
    write(world, log)
    check_same(world, log)


def test_a_stop_ends_between_commits_and_loses_nothing(world: World, log: Log) -> None:
    log.put(600, size=400)
    asked: list[int] = []

    def stop() -> bool:
        asked.append(1)
        return len(asked) > 1

    added = write(world, log, step_bytes=30_000, stop=stop)
    assert added.commits == 1
    assert 0 < added.rows < 660
    write(world, log)
    check_same(world, log)


@pytest.mark.parametrize("partition", [(), ("day",), ("queue",), ("hour", "broker", "queue")])
def test_partitions_prune_files(world: World, log: Log, partition: tuple[str, ...]) -> None:
    write(world, log, partition=partition)
    check_same(world, log)
    scan = world.table().scan(
        row_filter="queueId = 1 and storeTimestamp > '2020-01-01T00:00:00+00:00'"
    )
    if "queue" in partition:
        assert len(list(scan.plan_files())) == 1
        assert len(world.files()) == 3
    assert scan.to_arrow().num_rows == 20
    old = world.table().scan(row_filter="storeTimestamp < '2020-01-01T00:00:00+00:00'")
    assert not list(old.plan_files())


def test_statistics_prune_by_offset(world: World, log: Log) -> None:
    write(world, log)
    log.put(60)
    write(world, log)
    assert len(list(world.table().scan().plan_files())) == 2
    scan = world.table().scan(row_filter="queueOffset >= 25")
    assert len(list(scan.plan_files())) == 1


def test_rows_of_a_file_are_sorted(world: World, log: Log) -> None:
    other = world.log("broker-b")
    other.put(40)
    write(world, other, log)
    found = world.table().scan().to_arrow().select(["brokerName", "queueId", "queueOffset"])
    rows = [tuple(row.values()) for row in found.to_pylist()]
    assert len(world.files()) == 1
    assert rows == sorted(rows)


@pytest.mark.parametrize("partition", [(), ("queue",), ("day", "broker", "queue")])
def test_each_file_is_sorted_however_little_is_held(
    world: World, log: Log, partition: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files continue where that keeps their order, and say to readers that they are sorted."""
    from pyarrow.parquet import ParquetFile

    from pyrmq.tables import parquet

    monkeypatch.setattr(parquet, "FRESH_BYTES", 3_000)
    monkeypatch.setattr(parquet, "HELD_BYTES", 10_000)
    monkeypatch.setattr(parquet, "GROUP_BYTES", 2_000)
    other = world.log("broker-b")
    for _ in range(4):
        other.put(40)
        log.put(40)
    write(world, log, other, partition=partition, step_bytes=5_000)
    check_same(world, log, other)
    several = 0
    for path in (world.folder / "catalog").rglob("*.parquet"):
        file = ParquetFile(path)
        several += file.num_row_groups > 1
        columns = file.read(columns=["brokerName", "queueId", "queueOffset"])
        rows = list(zip(*(column.to_pylist() for column in columns.columns), strict=True))
        assert rows == sorted(rows)
    assert several
    table = world.table()
    assert {t.file.sort_order_id for t in table.scan().plan_files()} == {
        table.sort_order().order_id
    }
    if len(partition) == 3:
        assert len(world.files()) == 6


def test_all_columns_have_the_values_of_a_scan(world: World, log: Log) -> None:
    import pyarrow

    from pyrmq import scan
    from pyrmq.engine import scan_columns

    names = tuple(name for name, _ in scan_columns() if name != "propertiesRaw")
    write(world, log, columns=names)
    order = [("queueId", "ascending"), ("queueOffset", "ascending")]
    want = scan(log.root, topic=TOPIC, columns=names).to_arrow().sort_by(order)
    have = world.table().scan(selected_fields=names).to_arrow().sort_by(order)
    have = pyarrow.table({name: have[name] for name in names})
    assert have.to_pylist() == want.to_pylist()


def test_queues_that_are_added_are_read_from_their_start(world: World, log: Log) -> None:
    write(world, log)
    log.put(20, queues=9)
    write(world, log)
    check_same(world, log)
    assert len(list(world.ends().queues())) == 9


def test_a_broker_is_added_when_it_is_said(world: World, log: Log) -> None:
    write(world, log)
    other = world.log("broker-b")
    other.put(10)
    with pytest.raises(TableStoreError, match=r"broker-a.*broker-b.*--add-broker"):
        write(world, other)
    write(world, other, add_broker=True)
    log.put(5)
    write(world, log)
    check_same(world, log, other)


def test_a_store_that_was_made_anew_and_is_shorter(world: World, log: Log) -> None:
    write(world, log)
    shutil.rmtree(log.root)
    fresh = world.log()
    fresh.put(6)
    with pytest.raises(TableStoreError, match=r"shorter than the table.*made anew"):
        write(world, fresh)
    check_same(world, log)


@pytest.mark.parametrize("count", [60, 120])
def test_a_store_that_was_made_anew_and_is_as_long(world: World, log: Log, count: int) -> None:
    write(world, log)
    shutil.rmtree(log.root)
    fresh = world.log()
    fresh.put(count, size=11)
    with pytest.raises(TableStoreError, match=r"another one there.*made anew"):
        write(world, fresh)
    check_same(world, log)


def test_a_store_that_was_made_anew_while_it_is_read(world: World, log: Log) -> None:
    run = run_of(world, log)
    run.catch_up()
    shutil.rmtree(log.root)
    fresh = world.log()
    fresh.put(300, size=50)
    with pytest.raises(TableStoreError, match="made anew"):
        run.catch_up()
    check_same(world, log)


def test_a_topic_that_was_deleted(world: World, log: Log) -> None:
    write(world, log)
    shutil.rmtree(log.root / "consumequeue" / TOPIC)
    with pytest.raises(TableStoreError, match="it was deleted"):
        write(world, log)
    check_same(world, log)


def test_a_topic_that_is_not_there(world: World, log: Log) -> None:
    found = source_of(log)
    found.topic = "ordersss"
    with pytest.raises(UnknownTopicError, match="did you mean orders"):
        found.start(None)


def lose_first_segment(log: Log) -> None:
    """Retention: the first file of the log is deleted, with what the table had not."""
    first = min((log.root / "commitlog").iterdir())
    first.unlink()
    kept = {(q, o) for _, q, o, _ in _readable(log)}
    log.rows = [row for row in log.rows if row[1:3] in kept]


def _readable(log: Log) -> list[Row]:
    from pyrmq import scan

    return as_rows(scan(log.root, topic=TOPIC).to_arrow(), COLUMNS)


def test_retention_that_overtakes_is_an_error_with_the_range(world: World, log: Log) -> None:
    write(world, log)
    before = list(log.rows)
    log.put(600, size=200)
    lose_first_segment(log)
    with pytest.raises(TableLossError, match=r"retention overtook.*offset 20 .*on-data-loss"):
        write(world, log)
    added = write(world, log, fail_on_data_loss=False)
    assert {gap.start for gap in added.gaps} == {20}
    lost = json.loads(world.table().current_snapshot().summary[LOST])
    assert [gap["queue"] for gap in sorted(lost, key=lambda gap: gap["queue"])] == [0, 1, 2]
    log.rows = before + [row for row in log.rows if row not in before]
    check_same(world, log)


def new_queue(log: Log, count: int) -> None:
    """Messages in a queue that had none."""
    with small(log.root) as store:
        for number in range(count):
            put(store, TOPIC, 7, b"new" * 70)
            log.rows.append((log.broker, 7, number, b"new" * 70))


def test_retention_that_overtakes_a_queue_that_is_new_is_recorded(world: World, log: Log) -> None:
    """The other queues have lost nothing. Whether the new one had these messages before the table
    was begun, nobody knows: no error, but a range."""
    write(world, log)
    before = list(log.rows)
    new_queue(log, 600)
    lose_first_segment(log)
    first = min(row[2] for row in log.rows if row[1] == 7)
    added = write(world, log)
    assert [(gap.queue, gap.start, gap.end) for gap in added.gaps] == [(7, 0, first)]
    assert json.loads(world.table().current_snapshot().summary[LOST]) == [
        {"broker": log.broker, "queue": 7, "start": 0, "end": first}
    ]
    log.rows = before + [row for row in log.rows if row[1] == 7]
    check_same(world, log)
    assert not write(world, log).gaps


def test_what_was_deleted_before_the_table_was_begun_is_not_missing(world: World, log: Log) -> None:
    new_queue(log, 600)
    lose_first_segment(log)
    with small(log.root) as store:
        put(store, "others", 0, b"x")
    assert not write(world, log, commit_bytes=1, step_bytes=5_000).gaps
    check_same(world, log)


def test_retention_of_what_the_table_has_is_no_loss(world: World, log: Log) -> None:
    log.put(600, size=200)
    write(world, log)
    everything = list(log.rows)
    first = min((log.root / "commitlog").iterdir())
    first.unlink()
    log.put(9)
    added = write(world, log)
    assert added.rows == 9
    assert not added.gaps
    log.rows = everything + log.rows[-9:]
    check_same(world, log)


def test_stored_times_that_step_back_do_not_matter(world: World, log: Log) -> None:
    """Order and ends are those of offsets, whatever the clock of the broker said."""
    run = run_of(world, log)
    times = iter([5_000_000_000_000, 1_000, -1_000, 2**40])

    def stepped(batch: Any) -> Any:
        import pyarrow

        at = batch.schema.get_field_index("storeTimestamp")
        made = pyarrow.array([next(times) * 1000] * batch.num_rows, batch.schema.field(at).type)
        return batch.set_column(at, batch.schema.field(at), made)

    found = run._source.batches
    run._source.batches = lambda *at: map(stepped, found(*at))  # type: ignore[method-assign]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("pyrmq.tables.source.anchors", lambda *args: {})
        for _ in range(4):
            run.catch_up()
            log.put(5)
    log.rows = log.rows[:-5]
    check_same(world, log)
    assert [one.last.storeTimestamp for _, _, one in world.ends().queues()] == [2**40] * 3
    assert len(world.files()) == 4


def test_a_table_of_another_topic_is_refused(world: World, log: Log) -> None:
    write(world, log)
    found = source_of(log)
    found.topic = "others"
    from pyrmq.tables.write import create_table

    with pytest.raises(TableSchemaError, match="of topic orders, not of others"):
        create_table(world.catalog, TABLE, "others", found.schema)


def test_a_table_that_pyrmq_did_not_make_is_refused(world: World, log: Log) -> None:
    from pyrmq.tables.schema import iceberg_schema

    world.catalog.create(TABLE, iceberg_schema(source_of(log).schema))
    with pytest.raises(TableSchemaError, match="not made by pyrmq"):
        write(world, log)


def test_a_table_without_a_column_is_refused(world: World, log: Log) -> None:
    write(world, log, columns=("body",))
    with pytest.raises(TableSchemaError, match="has no columns bornTimestamp"):
        write(world, log)
    log.put(3)
    write(world, log, columns=("body",))
    check_same(world, log)


def test_a_column_that_others_added_is_null(world: World, log: Log) -> None:
    from pyiceberg.types import StringType

    write(world, log)
    with world.table().update_schema() as update:
        update.add_column("note", StringType())
        update.rename_column("tags", "labels")
    with world.table().update_schema() as update:
        update.rename_column("labels", "tags")
    log.put(3)
    write(world, log)
    check_same(world, log)
    assert set(world.table().scan().to_arrow().column("note").to_pylist()) == {None}


def test_a_column_of_another_type_is_refused(world: World, log: Log) -> None:
    from pyiceberg.types import LongType

    write(world, log)
    with world.table().update_schema() as update:
        update.update_column("queueId", LongType())
    with pytest.raises(TableSchemaError, match=r"queueId of table mq\.orders is long, not int"):
        write(world, log)


def test_partitions_that_the_writer_does_not_know_are_refused(world: World, log: Log) -> None:
    from pyiceberg.transforms import BucketTransform

    write(world, log)
    with world.table().update_spec() as update:
        update.add_field("keys", BucketTransform(4), "by_key")
    log.put(3)
    with pytest.raises(TableSchemaError, match=r"partitioned by bucket\[4\] of keys"):
        write(world, log)


def test_a_gap_inside_of_a_queue_is_said(world: World) -> None:
    import pyarrow

    from pyrmq.tables.counting import Counted, Gap

    counted = Counted(Ends(TOPIC))
    counted.add(batch_of([(0, 5), (1, 0), (0, 6), (0, 9)]))
    counted.add(batch_of([(0, 12), (1, 1)]))
    assert counted.gaps == [Gap("b", 0, 7, 9), Gap("b", 0, 10, 12)]
    assert [(q, e.start, e.end) for _, q, e in counted.ends().queues()] == [(0, 5, 13), (1, 0, 2)]
    assert isinstance(pyarrow.__version__, str)


@pytest.mark.parametrize("rows", [[(0, 1), (0, 1)], [(0, 3), (0, 2)]])
def test_an_offset_that_comes_twice_is_an_error(rows: list[tuple[int, int]]) -> None:
    from pyrmq.tables.counting import Counted

    with pytest.raises(TableStoreError, match="again"):
        Counted(Ends(TOPIC)).add(batch_of(rows))


@pytest.mark.parametrize("row", [(-1, 0), (0, -1)])
def test_a_record_of_no_queue_is_an_error(row: tuple[int, int]) -> None:
    """Ends with such a queue could not be read again."""
    from pyrmq.tables.counting import Counted

    with pytest.raises(TableStoreError, match=f"queue {row[0]}, offset {row[1]}: it is damaged"):
        Counted(Ends(TOPIC)).add(batch_of([(0, 1), row]))


def batch_of(rows: list[tuple[int, int]]) -> Any:
    import pyarrow

    return pyarrow.record_batch(
        {
            "brokerName": ["b"] * len(rows),
            "queueId": pyarrow.array([queue for queue, _ in rows], pyarrow.int32()),
            "queueOffset": pyarrow.array([offset for _, offset in rows], pyarrow.int64()),
            "commitLogOffset": pyarrow.array([0] * len(rows), pyarrow.int64()),
            "storeTimestamp": pyarrow.array([0] * len(rows), pyarrow.timestamp("us", "UTC")),
        }
    )


def test_messages_of_other_topics_do_not_matter(world: World, log: Log) -> None:
    write(world, log)
    with small(log.root) as store:
        for _ in range(50):
            put(store, "others", 1, b"x" * 100)
    assert write(world, log).commits == 0
