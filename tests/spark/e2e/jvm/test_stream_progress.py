"""What the progress of a query says of a stream: how far it is behind, and what it left out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_ext.listener import metrics_of
from tests.spark.small_store import Sent, Writer
from tests.spark.streams import Query

pytestmark = pytest.mark.spark_versions


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Writer]:
    made = Writer(tmp_path / "broker-a")
    yield made
    made.close()


@pytest.fixture
def query(spark: SparkSession, writer: Writer, tmp_path: Path) -> Query:
    return Query(spark, writer.root, tmp_path / "checkpoint", "rocketmq")


def sources(query: Query) -> list[dict[str, Any]]:
    """Of the micro-batches that had rows."""
    assert query.last is not None
    found = [one["sources"][0] for one in query.last.recentProgress if one["numInputRows"]]
    assert found
    return found


def test_behind(query: Query, writer: Writer) -> None:
    sent = writer.put(100)
    query.run(maxOffsetsPerTrigger="40")
    left = [one["metrics"] for one in sources(query)]
    assert [int(one["messagesBehindLatest"]) for one in left] == [60, 20, 0]
    end = sent[-1].physical + sent[-1].size
    assert [int(one["bytesBehindLatest"]) for one in left] == [
        end - sent[40].physical, end - sent[80].physical, 0
    ]  # fmt: skip
    # 60 messages over eight queues.
    assert left[0]["minOffsetsBehindLatest"] == "7"
    assert left[0]["avgOffsetsBehindLatest"] == "7.5"
    assert left[0]["maxOffsetsBehindLatest"] == "8"
    assert {int(one[key]) for one in left for key in ("skippedBytes", "lostBytes")} == {0}


def test_the_listener_has_the_same(query: Query, writer: Writer) -> None:
    writer.put(100)
    query.run(maxOffsetsPerTrigger="40")
    assert query.last is not None
    first = next(one for one in query.last.recentProgress if one["numInputRows"])
    told = metrics_of(first)[0]
    for name, value in first["sources"][0]["metrics"].items():
        if name in told:
            assert told[name] == float(value)
    assert told["messagesBehindLatest"] == 60


def test_what_is_skipped(query: Query, writer: Writer) -> None:
    hurt = writer.put(100)[30]
    _damage(writer.root, hurt)
    assert len(query.run(onCorruption="skip")) == 99
    metrics = sources(query)[-1]["metrics"]
    assert (metrics["skippedBytes"], metrics["damagedParts"]) == (str(hurt.size), "1")


def _damage(root: Path, hurt: Sent) -> None:
    log = max(p for p in (root / "commitlog").iterdir() if int(p.name) <= hurt.physical)
    with open(log, "r+b") as file:
        file.seek(hurt.physical - int(log.name) + 4)
        file.write(b"\xff\xff\xff\xff")


def test_what_is_lost(query: Query, writer: Writer) -> None:
    writer.put(10)
    query.run()
    at = query.position()["log"]["broker-a"]
    writer.put(900)
    writer.close()
    first, second, *_ = sorted((writer.root / "commitlog").iterdir())
    first.unlink()
    query.run(failOnDataLoss="false")
    assert sources(query)[-1]["metrics"]["lostBytes"] == str(int(second.name) - at)


def test_offsets_are_json(query: Query, writer: Writer) -> None:
    sent = writer.put(10)
    query.run()
    # Of the JVM: PySpark 4.1 makes the text of a dict of Python of it.
    told = [json.loads(one.json()) for one in query.last._jsq.recentProgress()]  # type: ignore[union-attr]
    source = next(one["sources"][0] for one in reversed(told) if one["numInputRows"])
    end = sent[-1].physical + sent[-1].size
    assert source["endOffset"]["log"] == {"broker-a": end}
    latest = source["latestOffset"]
    assert latest["log"] == {"broker-a": end}
    assert latest["behind"]["messages"] == 0
