"""Real-time mode: rows come while a task runs, positions are exact, stateful operators work."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.version import __version__ as spark_version

from tests.spark.e2e.proof.writer import Writer as Process
from tests.spark.e2e.proof.writer import number_of
from tests.spark.small_store import Sent, Writer
from tests.spark.streams import Query
from tests.support.waiting import eventually

from .test_native_library import NOTHING, held

pytestmark = pytest.mark.spark_versions

LONG = "10 minutes"
"""A micro-batch that does not end by itself within a test."""
STATEFUL = tuple(map(int, spark_version.split(".")[:2])) >= (4, 3)


@pytest.fixture(autouse=True)
def short_batches(spark: SparkSession) -> Iterator[None]:
    """Lets micro-batches end after a second; Spark wants five. All tasks of a query run at once, so
    two cores are enough for a shuffle into one partition."""
    settings = {
        "spark.sql.streaming.realTimeMode.minBatchDuration": "1000ms",
        "spark.sql.shuffle.partitions": "1",
    }
    before = spark.conf.get("spark.sql.shuffle.partitions")
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield
    spark.conf.unset("spark.sql.streaming.realTimeMode.minBatchDuration")
    spark.conf.set("spark.sql.shuffle.partitions", before)


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Writer]:
    made = Writer(tmp_path / "broker-a")
    yield made
    made.close()


def frame(spark: SparkSession, store: Path, **options: str) -> DataFrame:
    stream = spark.readStream.format("rocketmq").option("startingOffsets", "earliest")
    return stream.options(**options).load(str(store))


def rows_into(folder: Path) -> Any:
    """A sink of `foreach`: a file for each micro-batch and partition, written anew if that is
    repeated."""
    where = str(folder)

    class Rows:
        def open(self, partition: int, batch: int) -> bool:
            self.file = open(f"{where}/{batch}-{partition}", "w")  # noqa: SIM115
            return True

        def process(self, row: Any) -> None:
            values = [list(v) if isinstance(v, (bytes, bytearray)) else v for v in row]
            self.file.write(json.dumps(values) + "\n")
            self.file.flush()

        def close(self, error: Exception | None) -> None:
            self.file.close()

    folder.mkdir(exist_ok=True)
    return Rows()


def rows_of(folder: Path) -> list[Any]:
    lines = [line for file in folder.iterdir() for line in file.read_text().splitlines(True)]
    return [json.loads(line) for line in lines if line.endswith("\n")]


class Seen:
    """Rows as they pass an operator of Spark: PySpark gives them to `foreach` in groups.

    `column` keeps the value of an expression in the properties of the JVM."""

    def __init__(self, spark: SparkSession, prefix: str) -> None:
        self._system = spark._jvm.java.lang.System  # type: ignore[union-attr]
        self._prefix = f"{prefix}/"

    def column(self, expression: str) -> str:
        key = f"concat('{self._prefix}', {expression})"
        return f"java_method('java.lang.System', 'setProperty', {key}, '') as seen"

    def values(self) -> set[str]:
        names = self._system.getProperties().stringPropertyNames()
        return {n[len(self._prefix) :] for n in names if n.startswith(self._prefix)}


@pytest.fixture
def seen(spark: SparkSession, tmp_path: Path) -> Seen:
    return Seen(spark, str(tmp_path))


def start(
    rows: DataFrame, folder: Path, trigger: str = LONG, mode: str = "append"
) -> StreamingQuery:
    writer = (
        rows.writeStream.foreach(rows_into(folder / "rows"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .outputMode("update")
    )
    # PySpark 4.1 has no `trigger(realTime=...)`, but its Spark has the trigger.
    triggers = rows.sparkSession._jvm.org.apache.spark.sql.streaming.Trigger  # type: ignore[union-attr]
    writer._jwrite = writer._jwrite.trigger(triggers.RealTime(trigger))
    return writer.start()


def running(query: StreamingQuery) -> bool:
    """Whether it runs. Raises its error."""
    error = query.exception()
    if error is not None:
        raise error
    return query.isActive


def batches(folder: Path) -> int:
    return len(list((folder / "checkpoint" / "offsets").glob("[0-9]*")))


def test_rows_come_while_the_task_runs(
    spark: SparkSession, writer: Writer, tmp_path: Path, seen: Seen
) -> None:
    """What is there at the start, and what comes later, without an end of the micro-batch."""
    first = writer.put(30)
    rows = frame(spark, writer.root).selectExpr(seen.column("commitLogOffset"))
    query = start(rows, tmp_path)
    try:
        for sent in (first, writer.put(500), writer.put(1)):
            wanted = {str(one.physical) for one in writer.sent}
            eventually(lambda: running(query) and seen.values() == wanted, "rows")  # noqa: B023
            assert sent
        assert batches(tmp_path) == 0
    finally:
        query.stop()


def test_the_selection_counts(
    spark: SparkSession, writer: Writer, tmp_path: Path, seen: Seen
) -> None:
    writer.put(1)
    rows = frame(spark, writer.root, subscribe="orders", subExpression="A || C")
    query = start(rows.selectExpr(seen.column("keys")), tmp_path)
    try:
        writer.put(300)
        wanted = {one.key for one in writer.sent if one.topic == "orders" and one.tag != "B"}
        eventually(lambda: running(query) and seen.values() == wanted, "rows")
    finally:
        query.stop()


def test_latest_is_where_it_started_first(
    spark: SparkSession, writer: Writer, tmp_path: Path, seen: Seen
) -> None:
    """It is stopped before its first micro-batch is done: what came since is not missed."""
    writer.put(20)
    rows = frame(spark, writer.root, startingOffsets="latest")
    query = start(rows.selectExpr("commitLogOffset"), tmp_path)
    try:
        eventually(lambda: running(query) and list((tmp_path / "rows").iterdir()), "it runs")
    finally:
        query.stop()
    assert batches(tmp_path) == 0
    wanted = {str(one.physical) for one in writer.put(10)}
    query = start(rows.selectExpr(seen.column("commitLogOffset")), tmp_path)
    try:
        eventually(lambda: running(query) and seen.values() == wanted, "rows")
    finally:
        query.stop()


@pytest.mark.slow
def test_each_row_once(spark: SparkSession, tmp_path: Path) -> None:
    """Stopped and started again under load, with micro-batches of a second; the rest is read in
    micro-batches by the reader in Python."""
    store = tmp_path / "store"
    with Process(store, 10_000_000, 2000) as process:
        for _ in range(3):
            before = batches(tmp_path)
            query = start(frame(spark, store, columns="body").select("body"), tmp_path, "1 second")
            try:
                eventually(lambda: running(query) and batches(tmp_path) >= before + 2, "batches")  # noqa: B023
            finally:
                query.stop()
            assert process.running
        total = process.stop()
    done = batches(tmp_path)
    # What the last, unfinished micro-batch gave comes again.
    numbers = [
        number_of(bytes(row[0]))
        for file in (tmp_path / "rows").iterdir()
        if int(file.name.partition("-")[0]) < done
        for row in map(json.loads, file.read_text().splitlines())
    ]
    rest = Query(spark, store, tmp_path / "checkpoint", "pyrmq")
    assert len(numbers) > 2000
    assert sorted(numbers) == list(range(len(numbers)))
    assert len(rest.run(columns="body,commitLogOffset")) == total - len(numbers)


@pytest.mark.parametrize("name", ["maxOffsetsPerTrigger", "minOffsetsPerTrigger"])
def test_limits_are_refused(spark: SparkSession, writer: Writer, tmp_path: Path, name: str) -> None:
    query = start(frame(spark, writer.root, **{name: "5"}).select("keys"), tmp_path)
    with pytest.raises(Exception, match=f"{name} has no effect in real-time mode"):
        query.awaitTermination(60)


def test_a_topic_that_is_added_needs_a_micro_batch(
    spark: SparkSession, writer: Writer, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    writer.put(40)
    # Of a checkpoint that micro-batches began, Spark 4.3 takes this form alone.
    name = "spark.sql.streaming.stateStore.checkpointFormatVersion"
    spark.conf.set(name, "2")
    request.addfinalizer(lambda: spark.conf.unset(name))
    Query(spark, writer.root, tmp_path / "checkpoint").run(subscribe="orders")
    rows = frame(spark, writer.root, subscribe="orders,payments").select("keys")
    with pytest.raises(Exception, match=r"payments.*availableNow"):
        start(rows, tmp_path).awaitTermination(60)


def damage(root: Path, hurt: Sent) -> None:
    """The magic of a record becomes none."""
    log = max(p for p in (root / "commitlog").iterdir() if int(p.name) <= hurt.physical)
    with open(log, "r+b") as file:
        file.seek(hurt.physical - int(log.name) + 4)
        file.write(b"\xff\xff\xff\xff")


def test_a_damaged_record_ends_the_query(
    spark: SparkSession, writer: Writer, tmp_path: Path
) -> None:
    damage(writer.root, writer.put(100)[30])
    query = start(frame(spark, writer.root).select("keys"), tmp_path)
    with pytest.raises(Exception, match="SegmentDamagedError"):
        query.awaitTermination(60)
    assert not query.isActive
    eventually(lambda: held(spark), "what is held", until=lambda now: now == NOTHING)


def test_a_damaged_record_is_left_out(
    spark: SparkSession, writer: Writer, tmp_path: Path, seen: Seen
) -> None:
    """What stands behind it comes, and what is written later."""
    hurt = writer.put(100)[30]
    damage(writer.root, hurt)
    rows = frame(spark, writer.root, onCorruption="skip").selectExpr(seen.column("keys"))
    query = start(rows, tmp_path)
    try:
        for count in (0, 50):
            writer.put(count)
            wanted = {one.key for one in writer.sent} - {hurt.key}
            eventually(lambda: running(query) and seen.values() == wanted, "rows")  # noqa: B023
    finally:
        query.stop()
    eventually(lambda: held(spark), "what is held", until=lambda now: now == NOTHING)


def test_a_log_that_is_cut_ends_no_jvm(
    spark: SparkSession, writer: Writer, tmp_path: Path, seen: Seen
) -> None:
    """Its file gets shorter than what was read, while a task waits for more."""
    sent = writer.put(100)
    rows = frame(spark, writer.root).selectExpr(seen.column("keys"))
    query = start(rows, tmp_path)
    try:
        eventually(lambda: running(query) and len(seen.values()) == 100, "rows")
        writer.close()
        os.truncate(writer.root / "commitlog" / "00000000000000000000", sent[10].physical + 20)
        with pytest.raises(Exception, match="DataLossError"):
            query.awaitTermination(60)
    finally:
        query.stop()
    eventually(lambda: held(spark), "what is held", until=lambda now: now == NOTHING)


stateful = pytest.mark.skipif(
    not STATEFUL, reason="this Spark has no stateful operators in real-time mode"
)


@stateful
def test_counts_by_key(spark: SparkSession, writer: Writer, tmp_path: Path, seen: Seen) -> None:
    """An aggregation gives a row for each message: the count so far."""
    writer.put(40)  # a store without a segment cannot be read
    counts = frame(spark, writer.root).groupBy("topic", "queueId").agg(F.count("*").alias("n"))
    query = start(counts.selectExpr(seen.column("concat_ws(' ', topic, queueId, n)")), tmp_path)
    try:
        writer.put(40)
        wanted = {f"{topic} {queue} {n}" for topic in ("orders", "payments") for queue in range(4)
                  for n in range(1, 11)}  # fmt: skip
        eventually(lambda: running(query) and seen.values() == wanted, "rows")
        assert batches(tmp_path) == 0
    finally:
        query.stop()


@stateful
def test_duplicates_are_dropped(
    spark: SparkSession, writer: Writer, tmp_path: Path, seen: Seen
) -> None:
    writer.put(1)
    first = frame(spark, writer.root).dropDuplicates(["tags"])
    query = start(first.selectExpr(seen.column("concat_ws(' ', tags, keys)")), tmp_path)
    try:
        writer.put(300)
        eventually(lambda: running(query) and len(seen.values()) >= 3, "rows")
        assert seen.values() == {"A key-0", "B key-1", "C key-2"}
    finally:
        query.stop()
