"""What users of Spark's Kafka source expect, in real queries: times, tables, metrics, topics."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import spark_partition_id
from pyspark.sql.streaming.query import StreamingQuery

from spark_ext.listener import Metrics, StreamMetrics, metrics_of
from spark_ext.worker import ADMISSION
from tests.spark import small_store
from tests.spark.small_store import Sent, Writer

newer = pytest.mark.skipif(not ADMISSION, reason="this PySpark has no limits in Python sources")


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Writer]:
    made = Writer(tmp_path / "broker-a")
    yield made
    made.close()


def started(frame: DataFrame, checkpoint: Path, rows: list[int], **trigger: Any) -> StreamingQuery:
    def take(batch: DataFrame, _: int) -> None:
        rows.extend(row[0] for row in batch.select("commitLogOffset").collect())

    made = frame.writeStream.foreachBatch(take).option("checkpointLocation", str(checkpoint))
    return made.trigger(**trigger).start()


def stream(spark: SparkSession, store: Path, **options: str) -> DataFrame:
    given = {"startingOffsets": "earliest", "columns": "commitLogOffset", **options}
    return spark.readStream.format("rocketmq").options(**given).load(str(store))


def physical(sent: list[Sent], *topics: str) -> list[int]:
    return [one.physical for one in sent if not topics or one.topic in topics]


@pytest.mark.spark_versions
def test_a_batch_by_time_with_small_tasks(spark: SparkSession, tmp_path: Path) -> None:
    sent = small_store.write(tmp_path / "broker-a", 400)
    middle = sent[200].store_time
    times = {"orders": {"broker-a": {"1": middle}}}
    frame = spark.read.format("rocketmq").options(
        subscribe="orders",
        columns="commitLogOffset",
        startingOffsetsByTimestamp=json.dumps(times),
        maxRecordsPerPartition="50",
    )
    loaded = frame.load(str(tmp_path / "broker-a"))
    orders = [one for one in sent if one.topic == "orders"]
    expected = [one.physical for one in orders if one.queue != 1 or one.store_time >= middle]
    rows = loaded.select("commitLogOffset", spark_partition_id()).collect()
    assert sorted(place for place, _ in rows) == expected
    assert max(Counter(part for _, part in rows).values()) <= 50


@pytest.mark.spark_versions
def test_tables_of_the_catalog(spark: SparkSession, tmp_path: Path) -> None:
    """Spark hands a source none of the options of such a table; its schema brings them."""
    store = tmp_path / "broker-a"
    sent = small_store.write(store, 100)
    orders = len(physical(sent, "orders"))
    spark.sql(
        f"CREATE TABLE rmq_orders USING rocketmq OPTIONS (subscribe 'orders') LOCATION '{store}'"
    )
    spark.sql(f"CREATE TABLE rmq_all USING rocketmq OPTIONS (path '{store}', columns 'topic,tags')")
    spark.sql(f"CREATE TEMPORARY VIEW rmq_view USING rocketmq OPTIONS (location '{store}')")
    spark.sql(f"CREATE TABLE rmq_typed (topic STRING) USING rocketmq LOCATION '{store}'")
    try:
        assert spark.table("rmq_orders").count() == orders
        assert spark.sql("SELECT * FROM rmq_view").count() == 100
        assert spark.table("rmq_all").columns == ["topic", "tags"]
        by_topic = dict(spark.sql("SELECT topic, count(*) FROM rmq_all GROUP BY 1").collect())
        assert by_topic == {"orders": orders, "payments": 100 - orders}
        narrowed = spark.sql("SELECT * FROM rmq_orders WITH (subExpression = 'A')")
        assert narrowed.count() == sum(o.topic == "orders" and o.tag == "A" for o in sent)
        with pytest.raises(Exception, match="loses its options in Spark: create it without"):
            spark.table("rmq_typed").collect()
        with pytest.raises(Exception, match="storageOptions would be kept in the catalog"):
            spark.sql("CREATE TABLE rmq_x USING rocketmq OPTIONS (storageOptions '{}', path '/x')")
        with pytest.raises(Exception, match="did you mean subscribe"):
            spark.sql("CREATE TABLE rmq_x USING rocketmq OPTIONS (subcribe 'a', path '/x')")
    finally:
        for table in ("rmq_orders", "rmq_all", "rmq_typed"):
            spark.sql(f"DROP TABLE {table}")
        spark.catalog.dropTempView("rmq_view")
    assert spark.read.format("rocketmq").load(str(store)).count() == 100  # it is still there


@pytest.mark.spark_versions
def test_a_stream_raises_its_own_error(spark: SparkSession, writer: Writer, tmp_path: Path) -> None:
    writer.put(1)
    text = "endingTimestamp does not belong to a streaming read"
    with pytest.raises(Exception, match=text) as caught:
        started(
            stream(spark, writer.root, endingTimestamp="2026-01-31"),
            tmp_path / "c",
            [],
            availableNow=True,
        ).awaitTermination()
    assert "UnboundLocalError" not in str(caught.value)


@newer
@pytest.mark.spark_versions
def test_a_topic_that_is_added(spark: SparkSession, writer: Writer, tmp_path: Path) -> None:
    """It starts at its beginning, and the least of a micro-batch holds up nothing."""
    rows: list[int] = []
    sent = writer.put(100)
    for topics in ("orders", "orders,payments"):
        frame = stream(
            spark, writer.root, subscribe=topics, minOffsetsPerTrigger="80", maxTriggerDelay="1h"
        )
        started(frame, tmp_path / "c", rows, availableNow=True).awaitTermination()
        assert sorted(rows) == physical(sent, *topics.split(","))


@newer
@pytest.mark.spark_versions
def test_waiting_and_metrics(spark: SparkSession, writer: Writer, tmp_path: Path) -> None:
    heard: list[Metrics] = []
    listener = StreamMetrics(lambda name, sources: heard.extend(sources))
    spark.streams.addListener(listener)
    rows: list[int] = []
    writer.put(100)
    frame = stream(
        spark,
        writer.root,
        subscribe="orders",
        maxOffsetsPerTrigger="40",
        minOffsetsPerTrigger="20",
    )
    query = started(frame, tmp_path / "c", rows, processingTime="0 seconds")
    try:
        query.processAllAvailable()
        assert len(rows) == 40  # the ten that are left are too few
        (found,) = metrics_of(query.lastProgress)
        assert (found["messagesBehindLatest"], found["maxOffsetsBehindLatest"]) == (10, 3)
        assert found["bytesBehindLatest"] > 1000
        writer.put(20)
        until = time.monotonic() + 30
        while len(rows) < 60 and time.monotonic() < until:
            query.processAllAvailable()
        assert len(rows) == 60
        while len(heard) < 2 and time.monotonic() < until:
            time.sleep(0.05)
        assert [one["messagesBehindLatest"] for one in heard][:2] == [10, 0]
    finally:
        query.stop()
        spark.streams.removeListener(listener)
