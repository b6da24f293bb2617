"""What Spark pushes down to the reader in the JVM: the rows are those that Spark would choose, and
the plan shows that Spark has nothing left to do."""

from __future__ import annotations

import re
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


def is_left_to_spark(frame: DataFrame) -> bool:
    return re.search(r"\bFilter\b", plan_of(frame)) is not None


def columns_read(frame: DataFrame) -> list[str]:
    found = re.search(r"ReadSchema: struct<(.*?)>(?: |$|,)", plan_of(frame))
    assert found is not None, plan_of(frame)
    return [part.partition(":")[0] for part in found[1].split(",") if part]


# The condition in SQL, and the same of what was sent.
EXACT: list[tuple[str, Any]] = [
    ("topic = 'orders'", lambda s: s.topic == "orders"),
    ("'orders' = topic", lambda s: s.topic == "orders"),
    ("topic in ('orders', 'none')", lambda s: s.topic == "orders"),
    ("topic = 'none'", lambda s: False),
    ("topic is null", lambda s: False),
    ("topic is not null", lambda s: True),
    ("brokerName = 'broker-a'", lambda s: True),
    ("brokerName = 'broker-b'", lambda s: False),
    ("queueId = 2", lambda s: s.queue == 2),
    ("queueId in (0, 3, 99)", lambda s: s.queue in (0, 3)),
    ("queueId between 1 and 2", lambda s: s.queue in (1, 2)),
    ("queueId > 0 and queueId < 3 and queueId <> 7 - 5 + 3", lambda s: s.queue in (1, 2)),
    ("queueId > 1", lambda s: s.queue > 1),
    ("queueId >= 3", lambda s: s.queue >= 3),
    ("2 > queueId", lambda s: s.queue < 2),
    ("queueId <= 0", lambda s: s.queue == 0),
    ("queueId > 1 and queueId in (0, 1, 2)", lambda s: s.queue == 2),
    ("queueId > 2147483646", lambda s: False),
    ("queueId in (2,3,4,5,6,7,8,9,10,11,12,13,14,15,16)", lambda s: s.queue > 1),
    ("tags in ('A','d','e','f','g','h','i','j','k','l','m','n','o')", lambda s: s.tag == "A"),
    ("queueOffset = 17", lambda s: s.offset == 17),
    ("queueOffset >= 100 and queueOffset < 110", lambda s: 100 <= s.offset < 110),
    ("queueOffset > 100 and queueOffset <= 110", lambda s: 100 < s.offset <= 110),
    ("10 > queueOffset", lambda s: s.offset < 10),
    ("queueOffset > 10 and queueOffset < 5", lambda s: False),
    ("tags = 'A'", lambda s: s.tag == "A"),
    ("tags in ('A', 'C')", lambda s: s.tag in "AC"),
    ("tags = 'A' or tags = 'B'", lambda s: s.tag in "AB"),
    ("tags = 'A' or tags is null", lambda s: s.tag == "A"),
    ("tags is null", lambda s: False),
    ("keys = 'key-42'", lambda s: s.key == "key-42"),
    ("keys in ('key-1', 'key-2', 'key')", lambda s: s.key in ("key-1", "key-2")),
    ("topic = 'orders' and queueId = 1 and tags = 'B'",
     lambda s: (s.topic, s.queue, s.tag) == ("orders", 1, "B")),
]  # fmt: skip


def chosen(frame: DataFrame, condition: str) -> DataFrame:
    return frame.where(condition).select("commitLogOffset")


def places(frame: DataFrame) -> list[int]:
    return sorted(row[0] for row in frame.collect())


@pytest.mark.parametrize(("condition", "holds"), EXACT, ids=[row[0] for row in EXACT])
def test_filters_that_spark_does_not_repeat(
    frame: DataFrame, sent: list[Sent], condition: str, holds: Any
) -> None:
    found = chosen(frame, condition)
    assert places(found) == [one.physical for one in sent if holds(one)]
    if "<>" not in condition:
        assert not is_left_to_spark(found)
        assert columns_read(found) == ["commitLogOffset"], "columns of filters are not built"


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("tags is not null", lambda s: True),
        ("tags <> 'A'", lambda s: s.tag != "A"),
        ("topic like 'ord%'", lambda s: s.topic == "orders"),
        ("queueOffset in (3, 7, 50)", lambda s: s.offset in (3, 7, 50)),
        ("topic = 'orders' and (queueId = 1 or tags = 'B')",
         lambda s: s.topic == "orders" and (s.queue == 1 or s.tag == "B")),
        ("length(body) = 103 and tags = 'A'", lambda s: len(s.body) == 103 and s.tag == "A"),
    ],
)  # fmt: skip
def test_filters_that_spark_checks(
    frame: DataFrame, sent: list[Sent], condition: str, holds: Any
) -> None:
    found = chosen(frame, condition)
    assert places(found) == [one.physical for one in sent if holds(one)]
    assert is_left_to_spark(found)


def test_many_values(frame: DataFrame, sent: list[Sent]) -> None:
    """Up to 10,000 go to the engine with each task; of more it gets bounds at most."""
    for count, left in ((10_000, False), (10_001, True)):
        numbers = ",".join(map(str, range(2, 2 + count)))
        found = chosen(frame, f"queueId in ({numbers})")
        assert places(found) == [one.physical for one in sent if one.queue >= 2]
        assert is_left_to_spark(found) is left
        keys = ",".join(f"'key-{number}'" for number in range(count))
        found = chosen(frame, f"keys in ({keys})")
        assert places(found) == [one.physical for one in sent]
        assert is_left_to_spark(found) is left


def test_places_and_times(frame: DataFrame, sent: list[Sent]) -> None:
    low, high = sent[200].physical, sent[900].physical
    found = chosen(frame, f"commitLogOffset >= {low} and commitLogOffset < {high}")
    assert places(found) == [s.physical for s in sent if low <= s.physical < high]
    middle = sent[COUNT // 2].store_time
    for sign, holds in (
        ("<", lambda t: t < middle),
        ("<=", lambda t: t <= middle),
        (">", lambda t: t > middle),
        (">=", lambda t: t >= middle),
        ("=", lambda t: t == middle),
    ):
        found = chosen(frame, f"storeTimestamp {sign} timestamp_millis({middle})")
        assert places(found) == [s.physical for s in sent if holds(s.store_time)], sign
        assert not is_left_to_spark(found)
    # Within a millisecond: no message has that time, but those before and behind it are told apart.
    between = f"timestamp_micros({middle * 1000 + 500})"
    assert places(chosen(frame, f"storeTimestamp = {between}")) == []
    for sign, holds in (("<", lambda t: t <= middle), (">=", lambda t: t > middle)):
        found = chosen(frame, f"storeTimestamp {sign} {between}")
        assert places(found) == [s.physical for s in sent if holds(s.store_time)], sign
    born = chosen(
        frame, "bornTimestamp >= timestamp_millis(100) and bornTimestamp < timestamp_millis(200)"
    )
    assert places(born) == [s.physical for s in sent[100:200]]
    assert not is_left_to_spark(born)


def test_a_frame_that_is_queried_twice(frame: DataFrame, sent: list[Sent]) -> None:
    """Filters of one action are not those of the next."""
    for condition, holds in EXACT[:12] * 2:
        assert frame.where(condition).count() == sum(map(holds, sent)), condition
    assert frame.count() == COUNT


def test_columns(frame: DataFrame, sent: list[Sent]) -> None:
    assert columns_read(frame.select("queueId", "body")) in (
        ["body", "queueId"],
        ["queueId", "body"],
    )
    total = frame.agg(F.sum(F.length("body")))
    assert columns_read(total) == ["body"]
    assert total.first()[0] == sum(len(one.body) for one in sent)
    rows = frame.select("tags", "queueOffset").collect()
    assert sorted(map(tuple, rows)) == sorted((s.tag, s.offset) for s in sent)
    # A query that needs no column still has all rows.
    assert len(frame.where("length(body) > 0").selectExpr("1").collect()) == COUNT


def test_aggregates_of_queues(
    spark: SparkSession, stores: tuple[Path, Path], sent: list[Sent], frame: DataFrame
) -> None:
    """count, min and max come from the entries of the queues: a plan without a scan."""
    both = spark.read.format("rocketmq").load([str(path) for path in stores])
    counted = both.groupBy("brokerName", "topic", "queueId").agg(
        F.count("*").alias("n"),
        F.min("queueOffset").alias("low"),
        F.max("queueOffset").alias("high"),
    )
    assert "BatchScan" not in plan_of(counted)
    expected = {}
    for one in sent:
        n, low, high = expected.get(("broker-a", one.topic, one.queue), (0, one.offset, one.offset))
        expected["broker-a", one.topic, one.queue] = (
            n + 1, min(low, one.offset), max(high, one.offset)
        )  # fmt: skip
    rows = {(r.brokerName, r.topic, r.queueId): (r.n, r.low, r.high) for r in counted.collect()}
    assert {k: v for k, v in rows.items() if k[0] == "broker-a"} == expected
    assert sum(n for (broker, *_), (n, _, _) in rows.items() if broker == "broker-b") == 60
    assert both.count() == COUNT + 60
    assert "BatchScan" not in plan_of(frame.where("topic = 'orders'").groupBy().count())
    assert frame.where("topic = 'orders' and queueId in (1, 2)").count() == sum(
        s.topic == "orders" and s.queue in (1, 2) for s in sent
    )
    nothing = frame.where("topic = 'none'").agg(F.count("*"), F.max("queueOffset")).first()
    assert tuple(nothing) == (0, None)
    assert frame.where("topic = 'none'").groupBy("topic").count().collect() == []
    assert sorted(r[0] for r in frame.select("topic").distinct().collect()) == [
        "orders",
        "payments",
    ]


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("tags = 'A'", lambda s: s.tag == "A"),
        ("keys = 'key-7'", lambda s: s.key == "key-7"),
        ("queueOffset >= 20 and queueOffset < 30", lambda s: 20 <= s.offset < 30),
        ("queueId > 2", lambda s: s.queue > 2),
        ("bornTimestamp < timestamp_millis(300)", lambda s: int(s.body.split()[0]) < 300),
    ],
)
def test_aggregates_with_filters(
    frame: DataFrame, sent: list[Sent], condition: str, holds: Any
) -> None:
    found = frame.where(condition).groupBy("topic").count().collect()
    expected: dict[str, int] = {}
    for one in filter(holds, sent):
        expected[one.topic] = expected.get(one.topic, 0) + 1
    assert dict(map(tuple, found)) == expected


def test_totals_of_tasks(spark: SparkSession, stores: tuple[Path, Path], sent: list[Sent]) -> None:
    """The engine adds up while it reads; Spark adds up what the tasks give."""
    options = {"columns": "*", "splitBytes": "64k"}
    every = spark.read.format("rocketmq").options(**options).load(str(stores[0]))
    totals = every.groupBy("tags").agg(
        F.count("*"), F.sum("bodyLength"), F.avg("bodyLength"), F.max("storeTimestamp")
    )
    plan = plan_of(totals)
    assert "PushedAggregates: [COUNT(*), SUM(bodyLength), COUNT(bodyLength)" in plan
    assert tasks_of(every) > 1
    expected = {}
    for tag in {one.tag for one in sent}:
        own = [one for one in sent if one.tag == tag]
        length = sum(len(one.body) for one in own)
        expected[tag] = (len(own), length, length / len(own), max(one.store_time for one in own))
    found = {
        row[0]: (row[1], row[2], row[3], round(row[4].timestamp() * 1000))
        for row in totals.collect()
    }
    assert found == expected


def test_totals_of_nothing(frame: DataFrame) -> None:
    figures = [F.count("*"), F.sum("queueId"), F.min("storeTimestamp")]
    for clause in ("topic = 'none'", "tags = 'none'", "queueOffset < 0"):
        assert tuple(frame.where(clause).agg(*figures).head() or ()) == (0, None, None)
        assert frame.where(clause).groupBy("tags").agg(*figures).collect() == []


@pytest.mark.parametrize(
    "figure",
    ["count(distinct tags)", "count(length(body))", "count(body)", "sum(queueOffset)",
     "sum(queueId + 1)", "max(tags)", "first(queueId)", "sum(queueId) filter (where queueId > 1)"],
)  # fmt: skip
def test_totals_that_spark_works_out(frame: DataFrame, figure: str) -> None:
    found = frame.groupBy("topic").agg(F.expr(figure))
    assert "PushedAggregates" not in plan_of(found)
    assert found.count() == 2


def test_a_frame_of_a_pattern_is_a_snapshot(spark: SparkSession, tmp_path: Path) -> None:
    small_store.write(tmp_path / "store-a", 40)
    reader = spark.read.format("rocketmq")
    frame = reader.load(str(tmp_path / "store-*"))
    assert frame.count() == 40
    small_store.write(tmp_path / "store-b", 40)
    assert frame.where("topic = 'orders'").count() == 20
    assert len(frame.where("queueId >= 2").collect()) == 20
    assert reader.load(str(tmp_path / "store-*")).count() == 80


def test_explain_names_what_is_pushed(frame: DataFrame) -> None:
    text = plan_of(frame.where("topic = 'orders' and tags in ('A', 'B')").select("keys"))
    assert "PushedFilters: [topic = 'orders', tags IN ('A', 'B')" in text
    assert "ReadSchema: struct<keys:string>" in text


def test_statistics(spark: SparkSession, frame: DataFrame, sent: list[Sent]) -> None:
    """A small selection is broadcast by itself, which needs its size."""
    size = int(frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes())
    assert sum(s.size for s in sent) * 0.9 <= size <= sum(s.size for s in sent) * 1.1
    one = frame.where("topic = 'orders' and queueId = 1").select("queueOffset")
    joined = one.join(spark.range(10_000_000), F.col("id") == F.col("queueOffset"))
    assert "BroadcastHashJoin" in plan_of(joined)


def test_metrics(spark: SparkSession, frame: DataFrame, sent: list[Sent]) -> None:
    """What the tasks have read, by the names that Spark's UI shows."""
    value = metrics_of(frame.where("tags = 'A'").select("body"))
    assert value["messagesExamined"] == COUNT
    assert value["rowsRead"] == sum(s.tag == "A" for s in sent)
    assert value["bytesRead"] == sum(s.size for s in sent)
    assert (value["bytesSkipped"], value["damagedParts"]) == (0, 0)
