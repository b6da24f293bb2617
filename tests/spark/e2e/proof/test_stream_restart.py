"""Queries in one session that fail or are stopped and go on from their checkpoint.

PYRMQ_SPARK_ROUNDS: how many times. PYRMQ_SEED: after how many batches, and in which way from the
fourth time on.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tests.support.thorough import seeds, size

from .test_stream_kill import assert_is_the_log
from .writer import Writer, body_of, opened, put

pytestmark = pytest.mark.both_readers
ROUNDS = size("PYRMQ_SPARK_ROUNDS", 1, 50)
MOMENTS = ["after", "before", "stop"]
"""A query fails after it has done a batch, so that the batch comes again, or before that; or it is
stopped. The first moment is the one that a single round shows."""
COLUMNS = ["topic", "queueId", "queueOffset", "commitLogOffset", "body"]


class Chaos(Exception):
    """The failure that a test brings about."""


class Sink:
    """foreachBatch: keeps the rows of each batch, and looks that a repeated batch is the same."""

    def __init__(self) -> None:
        self.batches: dict[int, list[dict[str, Any]]] = {}
        self.repeated = 0
        self.fail: Callable[[str], bool] = lambda moment: False

    def __call__(self, frame: DataFrame, number: int) -> None:
        if self.fail("before"):
            raise Chaos(f"before batch {number}")
        rows = [row.asDict() for row in frame.collect()]
        for row in rows:
            row["body"] = bytes(row["body"])
        rows.sort(key=lambda row: row["commitLogOffset"])
        if number in self.batches:
            self.repeated += 1
            assert rows == self.batches[number], f"batch {number} has other rows than before"
        self.batches[number] = rows
        if self.fail("after"):
            raise Chaos(f"after batch {number}")

    @property
    def rows(self) -> list[dict[str, Any]]:
        """In the order of the batches, which is that of the log."""
        return [row for number in sorted(self.batches) for row in self.batches[number]]


def start(
    spark: SparkSession, store: Path, folder: Path, sink: Sink, now: bool = False, **options: Any
) -> StreamingQuery:
    frame = spark.readStream.format("rocketmq").options(
        path=str(store), **{"startingOffsets": "earliest", **options}
    )
    writer = (
        frame.load()
        .select(*COLUMNS)
        .writeStream.foreachBatch(sink)
        .option("checkpointLocation", str(folder / "checkpoint"))
    )
    trigger = {"availableNow": True} if now else {"processingTime": "0 seconds"}
    return writer.trigger(**trigger).start()  # type: ignore[arg-type]


def finish(spark: SparkSession, store: Path, folder: Path, sink: Sink, **options: Any) -> None:
    """Reads what is there, to the end."""
    query = start(spark, store, folder, sink, now=True, **options)
    assert query.awaitTermination(120)


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds("spark-stream-stop"))
def test_fails_or_is_stopped(spark: SparkSession, tmp_path: Path, seed: int):
    chance, sink = random.Random(seed), Sink()
    store = tmp_path / "store"
    with Writer(store, 10_000_000, 1000) as writer:
        for number in range(ROUNDS):
            left = chance.randrange(1, 8)
            moment = MOMENTS[number] if number < len(MOMENTS) else chance.choice(MOMENTS)

            def fail(now: str, moment: str = moment) -> bool:
                nonlocal left
                left -= now == "after"
                return now == moment and left <= 0

            sink.fail = fail
            query = start(spark, store, tmp_path, sink, maxOffsetsPerTrigger=500)
            if moment == "stop":
                while left > 0:
                    assert not query.awaitTermination(0.05), "it does not end by itself"
                query.stop()
            else:
                with pytest.raises(StreamingQueryException, match="Chaos"):
                    query.awaitTermination(300)
            assert writer.running
        total = writer.stop()
    sink.fail = lambda moment: False
    finish(spark, store, tmp_path, sink, maxOffsetsPerTrigger=5000)
    assert sink.repeated > 0, "the batch behind which a query failed has come again"
    assert all(len(rows) <= 5000 for rows in sink.batches.values())
    assert_is_the_log(sink.rows, total)


def test_topics_and_queues_that_appear_later(spark: SparkSession, tmp_path: Path):
    sink, store = Sink(), tmp_path / "store"
    options = {"subscribePattern": "New.*|Old"}
    with _engine(store) as engine:
        for number in range(10):
            engine.put("Old", 0, body_of(number))
        finish(spark, store, tmp_path, sink, **options)
        assert len(sink.rows) == 10
        engine.put("Old", 3, b"a queue that was not there")
        engine.put("New1", 0, b"a topic that was not there")
        engine.put("Other", 0, b"not asked for")
        engine.put("New2", 2, b"both")
        finish(spark, store, tmp_path, sink, **options)
    found = [(row["topic"], row["queueId"], row["queueOffset"]) for row in sink.rows[10:]]
    assert found == [("Old", 3, 0), ("New1", 0, 0), ("New2", 2, 0)]


def _engine(store: Path) -> Any:
    import contextlib

    return contextlib.closing(opened(store))


def _fill(store: Path, first: int, count: int) -> None:
    with _engine(store) as engine:
        for number in range(first, first + count):
            put(engine, number)


@pytest.mark.thorough("segments in front of and behind the query are deleted in short")
def test_segments_deleted_under_the_query(spark: SparkSession, tmp_path: Path):
    """Rows that it has not read are gone: an error, or on from what is there when that is asked."""
    sink, store = Sink(), tmp_path / "store"
    _fill(store, 0, 500)
    finish(spark, store, tmp_path, sink)
    assert_is_the_log(sink.rows, 500)
    _fill(store, 500, 5000)
    log = sorted((store / "commitlog").iterdir())
    assert len(log) > 4
    for path in log[:3]:
        path.unlink()
    kept = shutil.copytree(tmp_path / "checkpoint", tmp_path / "kept" / "checkpoint")
    with pytest.raises(StreamingQueryException, match="failOnDataLoss"):
        finish(spark, store, tmp_path, sink)
    assert len(sink.rows) == 500
    finish(spark, store, Path(kept).parent, sink, failOnDataLoss="false")
    first = int(log[3].name)
    rest = sink.rows[500:]
    assert rest[0]["commitLogOffset"] == first
    assert [row["body"] for row in rest] == [body_of(n) for n in range(5500 - len(rest), 5500)]


def test_segments_deleted_behind_the_query(spark: SparkSession, tmp_path: Path):
    """Retention of what was read is no loss."""
    sink, store = Sink(), tmp_path / "store"
    _fill(store, 0, 4000)
    finish(spark, store, tmp_path, sink)
    log = sorted((store / "commitlog").iterdir())
    for path in log[:-1]:
        path.unlink()
    _fill(store, 4000, 100)
    finish(spark, store, tmp_path, sink)
    assert_is_the_log(sink.rows, 4100)
