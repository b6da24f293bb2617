"""The small side of a join narrows what is read of a store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.spark.e2e.jvm.conftest import COUNT
from tests.spark.e2e.jvm.plans import metrics_of, plan_of
from tests.spark.small_store import Sent

pytestmark = pytest.mark.spark_versions


def test_the_small_side_of_a_join(
    spark: SparkSession, stores: tuple[Path, Path], sent: list[Sent]
) -> None:
    both = spark.read.format("rocketmq").load([str(path) for path in stores])
    rows = [("orders", 1, "A", "key-8", "broker-a", 1), ("none", 9, "x", "y", "z", 0)]
    names = "topic string, q int, tag string, key string, broker string, n int"
    small = spark.createDataFrame(rows, names).where("n = 1")
    wanted: list[tuple[Any, Any]] = [
        (both.topic == small.topic, lambda s: s.topic == "orders"),
        (both.queueId == small.q, lambda s: s.queue == 1),
        (both.tags == small.tag, lambda s: s.tag == "A"),
        (both["keys"] == small.key, lambda s: s.key == "key-8"),
        (both.brokerName == small.broker, lambda s: True),
    ]
    for condition, holds in wanted:
        joined = both.join(F.broadcast(small), condition).select("commitLogOffset", "brokerName")
        assert "RuntimeFilters: [dynamicpruning" in plan_of(joined)
        read = metrics_of(joined)["rowsRead"]  # of one execution
        found = [row for row in joined.collect() if row.brokerName == "broker-a"]
        assert sorted(row[0] for row in found) == [s.physical for s in sent if holds(s)]
        assert read == joined.count() < COUNT + 60
    nobody = both.join(F.broadcast(small.where("n = 0")), "topic")
    assert nobody.collect() == []


def test_a_join_with_the_first_rows(frame: DataFrame, sent: list[Sent]) -> None:
    """What a join leaves of them; not the first rows of what it leaves."""
    spark = frame.sparkSession
    small = spark.createDataFrame([("payments", 1)], "topic string, n int").where("n = 1")
    first = frame.orderBy("commitLogOffset").limit(10)
    assert first.join(F.broadcast(small), "topic").count() == 5
    few = frame.limit(10).join(F.broadcast(small), "topic")
    assert "RuntimeFilters: []" in plan_of(few)
    assert few.count() <= 10
