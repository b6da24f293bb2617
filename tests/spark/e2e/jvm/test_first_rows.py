"""LIMIT, and ORDER BY a column with LIMIT: the rows are those of Spark, and fewer are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.spark import small_store
from tests.spark.e2e.jvm.conftest import COUNT
from tests.spark.e2e.jvm.plans import metrics_of, plan_of, tasks_of
from tests.spark.small_store import Sent

pytestmark = pytest.mark.spark_versions


def test_limits(frame: DataFrame, sent: list[Sent]) -> None:
    limited = frame.limit(7)
    assert "PushedLimit: 7" in plan_of(limited)
    assert len(limited.collect()) == 7
    assert len(frame.where("tags = 'B'").limit(5).collect()) == 5
    assert frame.limit(0).collect() == []
    assert len(frame.limit(10 * COUNT).collect()) == COUNT
    first = frame.orderBy("commitLogOffset").limit(9)
    assert "PushedLimit: 9" in plan_of(first)
    assert [row.commitLogOffset for row in first.collect()] == [s.physical for s in sent[:9]]
    by_queues = frame.where("topic = 'orders'").orderBy("commitLogOffset").limit(9)
    orders = [s.physical for s in sent if s.topic == "orders"]
    assert [row.commitLogOffset for row in by_queues.collect()] == orders[:9]
    last = frame.orderBy(F.desc("commitLogOffset")).limit(9)
    assert [row.commitLogOffset for row in last.collect()] == [
        s.physical for s in reversed(sent[-9:])
    ]
    assert "PushedLimit: 9" in plan_of(last)
    # Spark has to filter first: the tasks must not stop before.
    assert len(frame.where("body like '%7 x%'").limit(50).collect()) == 50


@pytest.mark.parametrize("plan", ["scan", "index", "file"])
def test_the_first_rows_by_any_plan(
    spark: SparkSession, stores: tuple[Path, Path], sent: list[Sent], plan: str
) -> None:
    """Tasks of all plans give rows in the order of the log, which their limit counts on."""
    reader = spark.read.format("rocketmq").options(plan=plan, subscribe="orders")
    first = reader.load(str(stores[0])).orderBy("commitLogOffset").limit(30)
    assert "PushedLimit: 30" in plan_of(first)
    orders = [one.physical for one in sent if one.topic == "orders"]
    assert [row.commitLogOffset for row in first.collect()] == orders[:30]


def test_the_last_rows_of_a_snapshot(spark: SparkSession, tmp_path: Path) -> None:
    """They are read from the end of the log, as it was at the first action."""
    writer = small_store.Writer(tmp_path / "broker-a")
    before = [one.physical for one in writer.put(4000)]
    reader = spark.read.format("rocketmq").option("splitBytes", "64k")
    frame = reader.load(str(writer.root))
    last = frame.orderBy(F.desc("commitLogOffset")).limit(5).select("commitLogOffset", "body")
    assert [row.commitLogOffset for row in last.collect()] == before[:-6:-1]
    assert tasks_of(last) < tasks_of(frame)
    after = [one.physical for one in writer.put(50)]
    again = frame.orderBy(F.desc("commitLogOffset")).limit(5).select("commitLogOffset")
    assert [row.commitLogOffset for row in again.collect()] == before[:-6:-1]
    new = reader.load(str(writer.root)).orderBy(F.desc("commitLogOffset")).limit(5)
    assert [row.commitLogOffset for row in new.collect()] == after[:-6:-1]
    writer.close()


ORDERS: list[tuple[str, Any]] = [
    ("", lambda s: True),
    ("topic = 'orders'", lambda s: s.topic == "orders"),
    ("topic = 'payments' and queueId >= 2", lambda s: s.topic == "payments" and s.queue >= 2),
    ("queueOffset >= 20 and queueOffset < 100", lambda s: 20 <= s.offset < 100),
    ("tags = 'B'", lambda s: s.tag == "B"),
    ("topic = 'none'", lambda s: False),
]


@pytest.mark.parametrize(("condition", "holds"), ORDERS, ids=[row[0] for row in ORDERS])
@pytest.mark.parametrize("column", ["queueOffset", "commitLogOffset"])
def test_the_first_rows_by_a_column(
    frame: DataFrame, sent: list[Sent], column: str, condition: str, holds: Any
) -> None:
    """Spark sorts what the tasks give, also by further columns."""
    chosen = frame.where(condition) if condition else frame
    name = {"queueOffset": "offset", "commitLogOffset": "physical"}[column]
    every = [(getattr(s, name), s.physical) for s in sent if holds(s)]
    for ascending in (True, False):
        sign = 1 if ascending else -1
        expected = sorted(every, key=lambda row: (sign * row[0], -row[1]))[:30]
        order = F.col(column).asc() if ascending else F.col(column).desc()
        found = chosen.orderBy(order, F.desc("commitLogOffset")).limit(30)
        assert f"PushedLimit: 30 by {column}" in plan_of(found)
        rows = [(row[column], row.commitLogOffset) for row in found.collect()]
        assert rows == expected


def test_the_last_rows_of_queues_are_read_alone(frame: DataFrame, sent: list[Sent]) -> None:
    last = frame.where("topic = 'orders'").orderBy(F.desc("queueOffset")).limit(8)
    last = last.select("queueOffset")
    assert metrics_of(last)["rowsRead"] == 8
    assert [row[0] for row in last.collect()] == [149] * 4 + [148] * 4
