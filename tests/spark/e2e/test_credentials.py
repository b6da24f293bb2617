"""Credentials and TLS in a session: reads through brokers, the sink, a table; what Spark shows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.certificates import Authority
from tests.support.scripted.cluster import ScriptedCluster
from tests.support.signatures import is_signed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECRET = "s3cret-words"


@pytest.fixture
def ca(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def cluster(ca: Authority) -> Iterator[ScriptedCluster]:
    made = ScriptedCluster({"T": {"a": 2}}, secure=ca.issue("127.0.0.1").serving())
    with made.serving():
        yield made


def plans(frame: Any) -> str:
    return str(frame._jdf.queryExecution().toString())


def test_rows_there_and_back(spark: SparkSession, cluster: ScriptedCluster, ca: Authority) -> None:
    options = {
        "nameServer": cluster.address,
        "accessKey": "me",
        "secretKey": SECRET,
        "tlsCaFile": str(ca.file),
    }
    rows = spark.createDataFrame([(b"x",), (b"y",)], "body binary")
    rows.write.format("rocketmq").options(topic="T", **options).mode("append").save()
    assert sorted(cluster.bodies()) == [b"x", b"y"]
    read = spark.read.format("rocketmq").options(subscribe="T", **options).load()
    assert sorted(bytes(row.body) for row in read.collect()) == [b"x", b"y"]
    assert SECRET not in plans(read)
    assert {c.code for c in cluster.asked} >= {105, 310, 11, 30, 31}
    assert all(is_signed(c, "me", SECRET) for c in cluster.asked)


def test_a_table(
    spark: SparkSession, cluster: ScriptedCluster, ca: Authority, tmp_path: Path
) -> None:
    """The catalog keeps where the key is, and not the key."""
    cluster.put(b"x")
    key = tmp_path / "key"
    key.write_text(SECRET)
    key.chmod(0o600)
    common = f"nameServer '{cluster.address}', accessKey 'me', tlsCaFile '{ca.file}'"
    with pytest.raises(Exception, match="secretKey would be kept in the catalog"):
        spark.sql(f"CREATE TABLE secret USING rocketmq OPTIONS ({common}, secretKey '{SECRET}')")
    spark.sql(f"CREATE TABLE signed USING rocketmq OPTIONS ({common}, secretKeyFile '{key}')")
    try:
        found = spark.sql("SELECT body FROM signed")
        assert [bytes(row.body) for row in found.collect()] == [b"x"]
        shown = str(spark.sql("SHOW CREATE TABLE signed").collect())
        shown += str(spark.sql("DESCRIBE EXTENDED signed").collect()) + plans(found)
        assert SECRET not in shown
    finally:
        spark.sql("DROP TABLE signed")
    assert all(is_signed(c, "me", SECRET) for c in cluster.asked)
