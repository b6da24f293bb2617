"""Streaming reads: restarts, limits, AvailableNow, starts, what a checkpoint holds, data loss."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_ext.worker import ADMISSION
from tests.spark import small_store
from tests.spark.small_store import Sent, Writer
from tests.spark.streams import Query

pytestmark = pytest.mark.both_readers
newer = pytest.mark.skipif(not ADMISSION, reason="this PySpark has no limits in Python sources")


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Writer]:
    made = Writer(tmp_path / "broker-a")
    yield made
    made.close()


@pytest.fixture
def query(spark: SparkSession, writer: Writer, tmp_path: Path) -> Query:
    return Query(spark, writer.root, tmp_path / "checkpoint")


def physical(sent: list[Sent]) -> list[int]:
    return sorted(one.physical for one in sent)


@pytest.mark.spark_versions
def test_each_run_reads_what_is_new(query: Query, writer: Writer) -> None:
    first = writer.put(500)
    assert query.run(splitBytes="64k") == physical(first)
    assert query.run() == []
    second = writer.put(700)
    assert query.run() == physical(second)
    last = writer.sent[-1]
    assert query.position() == {"log": {"broker-a": last.physical + last.size}, "version": 1}


@newer
@pytest.mark.spark_versions
def test_limit_of_messages(query: Query, writer: Writer) -> None:
    sent = writer.put(250)
    assert query.run(maxOffsetsPerTrigger="100") == physical(sent)
    assert [len(rows) for rows in query.batches] == [100, 100, 50]
    assert query.batches[0] == physical(sent)[:100]


@newer
@pytest.mark.spark_versions
def test_limit_of_bytes(query: Query, writer: Writer) -> None:
    sent = writer.put(300)
    size = sent[1].physical - sent[0].physical
    assert query.run(maxBytesPerTrigger=str(100 * size)) == physical(sent)
    assert max(len(rows) for rows in query.batches) in range(90, 111)
    assert len(query.batches) in (3, 4)
    more = writer.put(3)
    assert query.run(maxBytesPerTrigger="1") == physical(more)
    assert query.batches[-3:] == [[one.physical] for one in more]


@newer
def test_the_smaller_limit_wins(query: Query, writer: Writer) -> None:
    sent = writer.put(60)
    size = sent[1].physical - sent[0].physical
    limits = {"maxOffsetsPerTrigger": "40", "maxBytesPerTrigger": str(20 * size)}
    assert query.run(**limits) == physical(sent)
    assert max(len(rows) for rows in query.batches) <= 21


@newer
def test_a_limit_counts_what_is_selected(query: Query, writer: Writer) -> None:
    sent = writer.put(200)
    orders = [one for one in sent if one.topic == "orders"]
    assert query.run(subscribe="orders", maxOffsetsPerTrigger="30") == physical(orders)
    assert [len(rows) for rows in query.batches] == [30, 30, 30, 10]


@pytest.mark.skipif(ADMISSION, reason="this PySpark has limits")
@pytest.mark.spark_versions
@pytest.mark.parametrize("name", ["maxOffsetsPerTrigger", "maxBytesPerTrigger"])
def test_before_42_a_limit_is_refused(query: Query, writer: Writer, name: str) -> None:
    writer.put(10)
    with pytest.raises(Exception, match=f"{name} needs PySpark 4.2 or later"):
        query.run(**{name: "5"})


@newer
def test_available_now_stops_at_the_end_it_saw(query: Query, writer: Writer) -> None:
    """More is written while the query runs: that is for the next run."""
    sent = writer.put(100)
    late: list[Sent] = []

    def write_more(batch: DataFrame, number: int) -> None:
        query.batches.append([row[0] for row in batch.select("commitLogOffset").collect()])
        late.extend(writer.put(10))

    running = (
        query.frame(maxOffsetsPerTrigger="50")
        .writeStream.foreachBatch(write_more)
        .option("checkpointLocation", str(query.checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    running.awaitTermination()
    assert query.batches == [physical(sent)[:50], physical(sent)[50:]]
    assert query.run() == physical(late)


@pytest.mark.spark_versions
def test_topics_and_queues_that_appear_later(query: Query, writer: Writer) -> None:
    writer.put(1)
    assert len(query.run(subscribe="orders,payments")) == 1
    sent = writer.put(40)
    assert query.run(subscribe="orders,payments") == physical(sent)


def test_a_stream_has_columns_by_schema(spark: SparkSession, query: Query, writer: Writer) -> None:
    sent = writer.put(30)
    stream = spark.readStream.format("rocketmq").option("startingOffsets", "earliest")
    frame = stream.schema("keys string, queueId int").load(str(writer.root))
    rows: list[tuple[str, int]] = []
    (
        frame.writeStream.foreachBatch(lambda b, _: rows.extend(tuple(r) for r in b.collect()))
        .option("checkpointLocation", str(query.checkpoint))
        .trigger(availableNow=True)
        .start()
        .awaitTermination()
    )
    assert sorted(rows) == sorted((one.key, one.queue) for one in sent)


def test_starting_at_offsets(query: Query, writer: Writer) -> None:
    sent = writer.put(400)
    offsets = '{"orders":{"broker-a":{"0":30,"1":-1}}}'
    started = {"startingOffsets": offsets, "subscribe": "orders"}
    want = [
        one
        for one in sent
        if one.topic == "orders" and (one.queue > 1 or (one.queue == 0 and one.offset >= 30))
    ]
    assert query.run(**started) == physical(want)
    more = writer.put(80)
    assert query.run(**started) == physical([one for one in more if one.topic == "orders"])


def test_latest_is_where_a_stream_starts(spark: SparkSession, query: Query, writer: Writer) -> None:
    writer.put(50)
    stream = spark.readStream.format("rocketmq").load(str(writer.root))
    rows: list[int] = []

    def take(batch: DataFrame, _: int) -> None:
        rows.extend(row[0] for row in batch.select("commitLogOffset").collect())

    running = (
        stream.writeStream.foreachBatch(take)
        .option("checkpointLocation", str(query.checkpoint))
        .start()
    )
    try:
        running.processAllAvailable()
        assert rows == []
        more = writer.put(20)
        running.processAllAvailable()
        assert sorted(rows) == physical(more)
        last = running.lastProgress
        assert last is not None
        source = last["sources"][0]
        assert json.loads(source["endOffset"])["log"]["broker-a"] > more[-1].physical
    finally:
        running.stop()


def failing(run: Callable[[], object], told: str) -> None:
    with pytest.raises(Exception, match=told):
        run()


def test_a_checkpoint_of_another_broker_is_refused(query: Query, writer: Writer) -> None:
    writer.put(10)
    query.run()
    failing(lambda: query.run(brokerName="broker-b"), "broker-a.*broker-b")


def delete_first_segment(store: Path) -> int:
    """As retention does it; returns where the log begins then."""
    first, second, *_ = sorted((store / "commitlog").iterdir())
    first.unlink()
    return int(second.name)


def test_segments_deleted_in_front_of_the_query(query: Query, writer: Writer) -> None:
    writer.put(10)
    query.run()
    sent = writer.put(900)
    writer.close()
    begin = delete_first_segment(writer.root)
    failing(lambda: query.run(), "failOnDataLoss")
    left = [one for one in sent if one.physical >= begin]
    assert query.run(failOnDataLoss="false") == physical(left)


def test_a_store_that_tasks_cannot_see_is_not_passed(
    spark: SparkSession, query: Query, writer: Writer, tmp_path: Path
) -> None:
    """Planned where it is there, read where it is not, as on an executor without the mount."""
    sent = writer.put(900)
    writer.close()  # its flusher would miss the folder as well
    away = tmp_path / "away"

    def unmount(batch: DataFrame, _: int) -> None:
        writer.root.rename(away)
        try:
            batch.collect()
        finally:
            away.rename(writer.root)

    stream = query.frame(failOnDataLoss="false").writeStream.foreachBatch(unmount)
    started = stream.option("checkpointLocation", str(query.checkpoint)).start()
    with pytest.raises(Exception, match="is not there on host") as caught:
        started.awaitTermination()
    assert f"there is no folder {writer.root} " in str(caught.value)
    assert "failOnDataLoss" not in str(caught.value)
    assert query.run(failOnDataLoss="false") == physical(sent)


@pytest.mark.thorough("proof/test_shipped.py reads what was shipped; the other streams grow too")
def test_segments_that_are_shipped_one_by_one(query: Query, writer: Writer, tmp_path: Path) -> None:
    """As docs/spark.md says for a cluster: closed log files, renamed into a folder per broker."""
    sent = writer.put(900)
    # A file that the engine has allocated in front of the log's end is not written yet.
    end = sent[-1].physical + sent[-1].size
    files = sorted((writer.root / "commitlog").iterdir())
    *closed, open_one = [file for file in files if int(file.name) < end]
    assert len(closed) == 3
    query.store = tmp_path / "shipped" / "broker-a"
    (query.store / "commitlog").mkdir(parents=True)
    for file in closed:
        incoming = query.store / "incoming"
        shutil.copy(file, incoming)
        incoming.rename(query.store / "commitlog" / file.name)
        low, high = int(file.name), int(file.name) + small_store.SEGMENT
        assert query.run() == [s.physical for s in sent if low <= s.physical < high]
    assert query.run() == []
    rest = [one for one in sent if one.physical >= int(open_one.name)]
    writer.close()
    shutil.copy(open_one, query.store / "commitlog")
    assert query.run() == physical(rest)


@pytest.mark.spark_versions
def test_a_log_that_was_cut(spark: SparkSession, query: Query, tmp_path: Path) -> None:
    """The store is put back as it was some time ago: its log ends in front of the checkpoint."""
    for name, count in (("now", 700), ("then", 300)):
        small_store.write(tmp_path / name / "broker-a", count)
    query.store = tmp_path / "now" / "broker-a"
    assert len(query.run()) == 700
    query.store = tmp_path / "then" / "broker-a"
    failing(lambda: query.run(), "failOnDataLoss")


def test_a_damaged_record(query: Query, writer: Writer) -> None:
    sent = writer.put(900)
    hurt = sent[300]
    log = next(
        p
        for p in sorted((writer.root / "commitlog").iterdir(), reverse=True)
        if int(p.name) <= hurt.physical
    )
    with open(log, "r+b") as file:
        file.seek(hurt.physical - int(log.name) + 4)
        file.write(b"\xff\xff\xff\xff")
    failing(lambda: query.run(), f"{log.name}.*{hurt.physical}")
    left = [one for one in sent if one is not hurt]
    assert query.run(onCorruption="skip") == physical(left)
