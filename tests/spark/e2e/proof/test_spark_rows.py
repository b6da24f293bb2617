"""Through Spark: the rows that were pulled, in every plan, by every selection.

The finer matrix is that of test_plans.py, which needs no JVM.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from .material import Material, image
from .planned import MODES
from .rows import ALL, DEFAULT, Row, assert_same, from_arrow, in_order, narrowed

pytestmark = pytest.mark.both_readers


def load(spark: SparkSession, *paths: Path, **options: Any) -> DataFrame:
    """includeSystemTopics and all columns, unless told otherwise."""
    given = {"includeSystemTopics": "true", "columns": ",".join(ALL), **options}
    reader = spark.read.format("rocketmq").options(**{k: v for k, v in given.items() if v != ""})
    return reader.load([str(path) for path in paths] if len(paths) > 1 else str(paths[0]))


def rows_of(frame: DataFrame) -> list[Row]:
    return in_order(from_arrow(frame.toArrow()))


@pytest.mark.parametrize("mode", MODES)
def test_everything(spark: SparkSession, material: Material, mode: str):
    frame = load(spark, material.root, plan=mode, splitBytes="64k")
    assert_same(rows_of(frame), material.rows, mode)
    assert frame.count() == sum(end - first for first, end in material.queues.values())


def test_the_default_schema(spark: SparkSession, material: Material):
    frame = load(spark, material.root, columns="", includeSystemTopics="", properties="map")
    assert tuple(frame.columns) == DEFAULT
    assert_same(rows_of(frame), narrowed(material.user_rows, DEFAULT), "default columns")
    frame = load(spark, material.root, columns="", includeSystemTopics="")
    assert tuple(frame.columns) == tuple(name for name in DEFAULT if name != "properties")


def test_a_narrow_schema(spark: SparkSession, material: Material):
    wanted = ["queueOffset", "brokerName", "commitLogOffset", "tags"]
    frame = (
        spark.read.format("rocketmq")
        .schema("queueOffset bigint, brokerName string, commitLogOffset bigint, tags string")
        .load(str(material.root))
    )
    assert_same(rows_of(frame), narrowed(material.user_rows, wanted), "narrow schema")


@pytest.mark.parametrize("mode", MODES)
def test_selections(spark: SparkSession, material: Material, mode: str):
    times = sorted({row["storeTimestamp"] for row in material.rows})
    low, high = times[len(times) // 3], times[len(times) // 2]
    offsets = {"Orders": {material.broker: {"0": 5, "1": 7}}}
    selections: list[tuple[dict[str, Any], Any]] = [
        ({"subscribe": "Orders,Packed"}, lambda r: r["topic"] in ("Orders", "Packed")),
        ({"topic": "RMQ_SYS_TRANS_HALF_TOPIC", "includeSystemTopics": ""},
         lambda r: r["topic"] == "RMQ_SYS_TRANS_HALF_TOPIC"),
        ({"subscribePattern": "%RETRY%.*"}, lambda r: r["topic"].startswith("%RETRY%")),
        ({"assign": json.dumps({"Load": {material.broker: [1, 3]}})},
         lambda r: r["topic"] == "Load" and r["queueId"] in (1, 3)),
        ({"subExpression": "TagA || 标签"}, lambda r: r["tags"] in ("TagA", "标签")),
        ({"topic": "Orders", "key": "key-7"},
         lambda r: r["topic"] == "Orders" and "key-7" in (r["keys"] or "").split()),
        ({"startingTimestamp": low, "endingTimestamp": high},
         lambda r: low <= r["storeTimestamp"] < high),
        ({"subscribe": "Orders", "startingOffsets": json.dumps(offsets)},
         lambda r: r["topic"] == "Orders"
         and r["queueOffset"] >= {0: 5, 1: 7}.get(r["queueId"], 0)),
    ]  # fmt: skip
    for options, wanted in selections:
        expected = [row for row in material.rows if wanted(row)]
        assert expected, options
        found = rows_of(load(spark, material.root, plan=mode, **options))
        assert_same(found, expected, f"{options}, {mode}")


def test_two_brokers(spark: SparkSession, ours: Material, apache: Material):
    frame = load(spark, ours.root, apache.root, splitBytes="64k")
    assert_same(rows_of(frame), [*apache.rows, *ours.rows], "two brokers")
    counted = {
        (row["brokerName"], row["topic"], row["queueId"]): row["count"]
        for row in frame.groupBy("brokerName", "topic", "queueId").count().collect()
    }
    expected = {
        (m.broker, *queue): end - first
        for m in (ours, apache)
        for queue, (first, end) in m.queues.items()
    }
    assert counted == expected


def test_what_spark_computes_on_it(spark: SparkSession, material: Material):
    """Joins and aggregates see the values that a consumer sees."""
    frame = load(spark, material.root)
    sums = frame.groupBy("topic").agg(
        F.sum(F.length("body")).alias("bytes"), F.max("storeTimestamp").alias("last")
    )
    found = {row["topic"]: row["bytes"] for row in sums.collect()}
    expected: Counter[str] = Counter()
    for row in material.rows:
        expected[row["topic"]] += len(row["body"])
    assert found == dict(expected)
    number = frame.where("properties['number'] = '17'").count()
    assert number == sum(row["properties"].get("number") == "17" for row in material.rows)


def test_a_view(spark: SparkSession, material: Material):
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW orders USING rocketmq "
        f"OPTIONS (path '{material.root}', subscribe 'Orders')"
    )
    found = spark.sql("SELECT queueId, count(*) AS n FROM orders GROUP BY queueId").collect()
    expected = Counter(r["queueId"] for r in material.rows if r["topic"] == "Orders")
    assert {row["queueId"]: row["n"] for row in found} == dict(expected)


def test_a_deleted_head(spark: SparkSession, material: Material, tmp_path: Path):
    root = image(material.root, tmp_path / "store")
    for path in sorted((root / "commitlog").iterdir())[:2]:
        path.unlink()
    first = int(min(p.name for p in (root / "commitlog").iterdir()))
    frame = load(spark, root, brokerName=material.broker)
    assert_same(
        rows_of(frame), [r for r in material.rows if r["commitLogOffset"] >= first], "headless"
    )


def test_damage_is_reported_or_skipped(spark: SparkSession, material: Material, tmp_path: Path):
    root = tmp_path / "store"
    shutil.copytree(material.root, root)
    victim = material.rows[len(material.rows) // 2]
    path = max(
        p for p in (root / "commitlog").iterdir() if int(p.name) <= victim["commitLogOffset"]
    )
    at = victim["commitLogOffset"] - int(path.name)
    data = bytearray(path.read_bytes())
    data[at + 30] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises((PySparkException, Py4JJavaError)) as told:
        load(spark, root).collect()
    assert path.name in str(told.value)
    assert str(victim["commitLogOffset"]) in str(told.value)
    frame = load(spark, root, brokerName=material.broker, onCorruption="skip")
    kept = [r for r in material.rows if r["commitLogOffset"] != victim["commitLogOffset"]]
    assert_same(rows_of(frame), kept, "skipping")


def test_a_frame_is_a_snapshot(spark: SparkSession, tmp_path: Path):
    """What a frame shows does not change while the log grows; a new load sees more."""
    from .writer import opened, put

    store = opened(tmp_path / "store")
    try:
        for number in range(500):
            put(store, number)
        frame = load(spark, tmp_path / "store")
        assert frame.count() == 500
        for number in range(500, 700):
            put(store, number)
        assert frame.count() == 500
        assert load(spark, tmp_path / "store").count() == 700
    finally:
        store.close()
