"""Option body: bodies as bytes, as text and as the columns of JSON objects."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from pyrmq.engine import Store
from tests.spark import small_store

pytestmark = pytest.mark.both_readers

BODIES = [
    b'{"id": 7, "names": ["a", "b"], "at": {"x": 1.5}, "other": 1}',
    "ä".encode(),
    b"\xff{",
    b'{"id": "no number", "names": null}',
]
DDL = "id BIGINT, names ARRAY<STRING>, at STRUCT<x: DOUBLE>"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("bodies") / "broker-a"
    made = Store(root, commit_log_file_size=small_store.SEGMENT, store_host="127.0.0.1:10911")
    for body in BODIES:
        made.put("T", 0, body, "")
    made.close()
    return root


def read(spark: SparkSession, store: Path, **options: str) -> DataFrame:
    frame = spark.read.format("rocketmq").options(**options).load(str(store))
    return frame.orderBy("commitLogOffset").select("body")


def test_bodies_as_text(spark: SparkSession, store: Path) -> None:
    frame = read(spark, store, body="utf8")
    assert frame.schema.simpleString() == "struct<body:string>"
    assert [row.body for row in frame.collect()] == [
        BODIES[0].decode(), "ä", "\ufffd{", BODIES[3].decode(),
    ]  # fmt: skip


def test_bodies_of_json(spark: SparkSession, store: Path) -> None:
    frame = read(spark, store, body="json", bodySchema=DDL, columns="body,commitLogOffset")
    kind = "struct<id:bigint,names:array<string>,at:struct<x:double>>"
    assert frame.schema.simpleString() == f"struct<body:{kind}>"
    found = [row.body.asDict(recursive=True) for row in frame.collect()]
    nothing = {"id": None, "names": None, "at": None}
    assert found == [
        {"id": 7, "names": ["a", "b"], "at": {"x": 1.5}}, nothing, nothing, nothing,
    ]  # fmt: skip


def test_as_from_json(spark: SparkSession, store: Path) -> None:
    read(spark, store).createOrReplaceTempView("bytes")
    theirs = spark.sql(f"SELECT from_json(CAST(body AS STRING), '{DDL}') AS body FROM bytes")
    ours = read(spark, store, body="json", bodySchema=DDL)
    assert ours.collect() == theirs.collect()


def test_decimals(spark: SparkSession, tmp_path: Path) -> None:
    root = tmp_path / "broker-a"
    made = Store(root, commit_log_file_size=small_store.SEGMENT, store_host="127.0.0.1:10911")
    for small, large in [("1.5", "9" * 38), ("-0.05", "-" + "9" * 38), ("null", "-1"), ("7", "0")]:
        made.put("T", 0, f'{{"small": {small}, "large": {large}}}'.encode(), "")
    made.close()
    ddl = "small DECIMAL(8,2), large DECIMAL(38,0)"
    found = read(spark, root, body="json", bodySchema=ddl).select("body.*").collect()
    assert [(str(row.small), str(row.large)) for row in found] == [
        ("1.50", "9" * 38), ("-0.05", "-" + "9" * 38), ("None", "-1"), ("7.00", "0"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"body": "json"}, "option body=json needs option bodySchema"),
        ({"bodySchema": "a INT"}, "give body=json too"),
        ({"body": "json", "bodySchema": "a SMALLINT"}, "has the type 'smallint' for a"),
        ({"body": "xml"}, "option body must be binary, utf8 or json, not 'xml'"),
    ],
)
def test_what_is_wrong(
    spark: SparkSession, store: Path, options: dict[str, str], told: str
) -> None:
    with pytest.raises(Exception, match=told):
        read(spark, store, **options).collect()
