"""Values that nobody should give: versions and times of time travel, and names with hidden
characters, which stand in no plan and in no error as they are."""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from tests.spark import small_store
from tests.spark.small_store import Sent

HIDDEN = "\x1b[31m\r\x07\u202e\u2028\x85"
"""What colours, overwrites, rings, turns around and ends lines."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hostile") / "broker-a"


@pytest.fixture(scope="module")
def sent(store: Path) -> list[Sent]:
    return small_store.write(store, 100)


@pytest.fixture(scope="module")
def sql(spark: SparkSession, store: Path, sent: list[Sent]) -> Any:
    spark.conf.set("spark.sql.catalog.hostile", "pyrmq.spark.RocketMQCatalog")
    spark.conf.set("spark.sql.catalog.hostile.path", str(store))
    return lambda text: spark.sql(text).collect()


def hidden(text: str) -> set[str]:
    """Characters that a terminal does not show as themselves."""
    return {
        c for c in text if c not in "\n\t" and unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp")
    }


@pytest.mark.parametrize(
    "version",
    [
        *("", " ", "-1", "+1", "1.5", "1e3", "0x10", "latest", "9" * 19, "9" * 5000, "\u0661"),
        *("null", "[]", "{", "{}x", '{"orders": 5}', '{"orders": {"broker-a": 7}}'),
        '{"orders": {"broker-a": {"x": 1}}}',
        '{"orders": {"broker-a": {"0": -9}}}',
        '{"orders": {"broker-a": {"0": 1e400}}}',
        '{"payments": {"broker-a": {"0": 1}}}',
        '{"a":' * 5000,
    ],
    ids=lambda text: text[:40],
)
def test_versions(sql: Any, version: str) -> None:
    text = version.replace("'", "\\'")
    with pytest.raises(AnalysisException) as raised:
        sql(f"SELECT count(*) FROM hostile.default.orders VERSION AS OF '{text}'")
    said = str(raised.value)
    assert "Error: " in said
    assert len(said) < 2000
    assert not hidden(said)


@pytest.mark.parametrize("version", [0, 10**17, 10**18 - 1])
def test_versions_at_the_ends(sql: Any, sent: list[Sent], version: int) -> None:
    right = sum(one.topic == "orders" for one in sent) if version else 0
    rows = sql(f"SELECT count(*) FROM hostile.default.orders VERSION AS OF {version}")
    assert rows == [(right,)]


@pytest.mark.parametrize(
    ("time", "all_of_them"),
    [
        ("'1969-12-31 23:59:59.999999'", False),
        ("'0001-01-01'", False),
        ("'1970-01-01 00:00:00'", False),
        ("'-290000-01-01'", False),
        ("'9999-12-31'", True),
        ("'+290000-01-01'", True),
        ("timestamp_micros(9223372036854775807)", True),
        ("timestamp_micros(-9223372036854775808)", False),
    ],
)
def test_times_at_the_ends(sql: Any, sent: list[Sent], time: str, all_of_them: bool) -> None:
    right = sum(one.topic == "orders" for one in sent) if all_of_them else 0
    rows = sql(f"SELECT count(*) FROM hostile.default.orders TIMESTAMP AS OF {time}")
    assert rows == [(right,)]


@pytest.mark.parametrize("time", ["'yesterdayish'", "NULL", "''"])
def test_times_that_are_none(sql: Any, time: str) -> None:
    with pytest.raises(AnalysisException):
        sql(f"SELECT count(*) FROM hostile.default.orders TIMESTAMP AS OF {time}")


def test_a_version_with_hidden_characters(sql: Any) -> None:
    with pytest.raises(AnalysisException) as raised:
        sql(f"SELECT count(*) FROM hostile.default.orders VERSION AS OF '{HIDDEN}'")
    assert not hidden(str(raised.value)), ascii(str(raised.value))


def scan_of(plan: str) -> str:
    """What we say of the scan: the rest of a plan is Spark's."""
    found = [line for line in plan.split("\n") if "RocketMQ" in line]
    assert found, ascii(plan)
    return "\n".join(line[line.index("RocketMQ") :] for line in found)


def test_explain(spark: SparkSession, store: Path, sent: list[Sent]) -> None:
    frame = spark.read.format("rocketmq").load(str(store))
    for column in ("topic", "tags", "keys", "brokerName"):
        wanted = frame.where(frame[column] == f"a{HIDDEN}b")
        for query in (wanted.select("body"), wanted.groupBy("topic").count()):
            plan = str(query._jdf.queryExecution().executedPlan().toString())
            if "RocketMQ" in plan:
                said = scan_of(plan)
                assert "\\u001b[31m" in said
                assert not hidden(said), ascii(said)
        assert wanted.count() == 0


def test_a_store_with_a_hidden_name(spark: SparkSession, tmp_path: Path, sql: Any) -> None:
    root = tmp_path / f"a{HIDDEN}b"
    written = small_store.write(root, 10)
    frame = spark.read.format("rocketmq").load(str(root))
    assert frame.count() == 10
    said = scan_of(str(frame._jdf.queryExecution().executedPlan().toString()))
    assert not hidden(said), ascii(said)
    table = spark.sql(f"SELECT body FROM hostile.`{root}`.orders")
    assert len(table.collect()) == 5
    said = scan_of(str(table._jdf.queryExecution().executedPlan().toString()))
    assert not hidden(said), ascii(said)
    with open(root / "commitlog" / "00000000000000000000", "r+b") as file:
        file.seek(written[4].physical + 4)
        file.write(b"\xff" * 4)
    with pytest.raises(Exception, match="SegmentDamagedError") as raised:
        spark.read.format("rocketmq").load(str(root)).select("body").collect()
    first = str(raised.value).split("SegmentDamagedError", 1)[1].split("\n")[0]
    assert not hidden(first), ascii(first)


def test_options_with_hidden_characters(spark: SparkSession, store: Path, sent: list[Sent]) -> None:
    for name in ("reader", "startingOffsets", "onCorruption", "columns", "subscribe", f"x{HIDDEN}"):
        with pytest.raises(AnalysisException) as raised:
            spark.read.format("rocketmq").option(name, f"a{HIDDEN}").load(str(store)).collect()
        assert not hidden(str(raised.value)), (name, ascii(str(raised.value)))
