"""Stores as a catalog of SQL, and the same by JDBC from a thrift server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from tests.spark import small_store
from tests.spark.small_store import Sent

pytestmark = pytest.mark.spark_versions


@pytest.fixture(scope="module")
def sent(stores: tuple[Path, Path]) -> list[Sent]:
    small_store.write(stores[1], 40)
    return small_store.write(stores[0], 300)


@pytest.fixture(scope="module")
def sql(spark: SparkSession, stores: tuple[Path, Path], sent: list[Sent]) -> Any:
    """Runs SQL; the catalog `mq` is about the first store."""
    spark.conf.set("spark.sql.catalog.mq", "pyrmq.spark.RocketMQCatalog")
    spark.conf.set("spark.sql.catalog.mq.path", str(stores[0]))
    return lambda text: [tuple(row) for row in spark.sql(text).collect()]


def test_what_is_there(sql: Any, stores: tuple[Path, Path]) -> None:
    assert [row[1] for row in sql("SHOW TABLES IN mq.default")] == ["orders", "payments"]
    assert sql("SHOW NAMESPACES IN mq") == [("default",)]
    assert [row[1] for row in sql(f"SHOW TABLES IN mq.`{stores[1]}`")] == ["orders", "payments"]
    described = {row[0]: row[1] for row in sql("DESCRIBE mq.default.orders")}
    assert described["body"] == "binary"
    assert described["properties"] == "map<string,string>"
    assert "storeSize" not in described


def test_select(sql: Any, stores: tuple[Path, Path], sent: list[Sent]) -> None:
    orders = [one for one in sent if one.topic == "orders"]
    assert sql("SELECT count(*) FROM mq.default.orders") == [(len(orders),)]
    assert sql("SELECT count(*) FROM mq.orders") == [(len(orders),)]
    assert sql(f"SELECT count(*) FROM mq.`{stores[1]}`.payments") == [(20,)]
    both = f"mq.`{stores[0].parent}/broker-[ab]`.payments"
    assert sql(f"SELECT count(*) FROM {both}") == [(170,)]
    rows = sql("SELECT keys, properties['n'] FROM mq.default.orders WHERE tags = 'B'")
    assert sorted(rows) == sorted(
        (one.key, one.key.removeprefix("key-")) for one in orders if one.tag == "B"
    )
    # A column that SELECT * leaves out can be named.
    total = sql("SELECT sum(bodyLength), max(storeSize) FROM mq.default.orders")
    assert total == [(sum(len(one.body) for one in orders), max(one.size for one in orders))]
    joined = sql(
        "SELECT count(*) FROM mq.default.orders a JOIN mq.default.payments b "
        "ON a.queueId = b.queueId AND a.queueOffset = b.queueOffset"
    )
    pairs = {(one.queue, one.offset) for one in sent if one.topic == "payments"}
    assert joined == [(sum((one.queue, one.offset) in pairs for one in orders),)]


def test_time_travel(sql: Any, sent: list[Sent]) -> None:
    orders = [one for one in sent if one.topic == "orders"]
    middle = orders[len(orders) // 2]
    found = sql(
        f"SELECT commitLogOffset FROM mq.default.orders VERSION AS OF {middle.physical} ORDER BY 1"
    )
    assert [row[0] for row in found] == [s.physical for s in orders if s.physical < middle.physical]
    counted = sql(f"SELECT count(*) FROM mq.default.orders VERSION AS OF {middle.physical}")
    assert counted == [(len(found),)]
    ends = '{"orders": {"broker-a": {"0": 3, "1": 0, "2": 0, "3": 1}}}'
    by_queue = sql(f"SELECT queueId, queueOffset FROM mq.default.orders VERSION AS OF '{ends}'")
    assert sorted(by_queue) == [(0, 0), (0, 1), (0, 2), (3, 0)]
    time = middle.store_time
    found = sql(
        "SELECT count(*) FROM mq.default.orders "
        f"TIMESTAMP AS OF timestamp_millis({time})"
    )  # fmt: skip
    assert found == [(sum(one.store_time < time for one in orders),)]


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        ("SELECT * FROM mq.default.nothing", "TABLE_OR_VIEW_NOT_FOUND"),
        ("SHOW TABLES IN mq.nothing", "SCHEMA_NOT_FOUND"),
        ("DROP TABLE mq.default.orders", "DROP TABLE: the catalog mq shows the files of stores"),
        ("CREATE TABLE mq.default.new (a INT)", "CREATE TABLE: the catalog mq shows the files"),
        ("CREATE NAMESPACE mq.new", "CREATE NAMESPACE: the catalog mq shows the files"),
        ("ALTER TABLE mq.default.orders RENAME TO mq.default.x", "RENAME: the catalog mq shows"),
        ("ALTER TABLE mq.default.orders ADD COLUMN a INT", "ALTER TABLE: the catalog mq shows"),
        ("INSERT INTO mq.default.orders (body) VALUES (x'00')", "does not support append"),
        ("DELETE FROM mq.default.orders WHERE queueId = 1", "does not support deletes"),
        ("SELECT * FROM mq.default.orders VERSION AS OF 'x'", "neither a commit-log offset nor"),
    ],
)
def test_errors(sql: Any, statement: str, text: str) -> None:
    with pytest.raises(AnalysisException, match=text):
        sql(statement)


def test_a_store_that_is_not_there(sql: Any, tmp_path: Path) -> None:
    with pytest.raises(AnalysisException, match=str(tmp_path)):
        sql(f"SELECT * FROM mq.`{tmp_path}/missing`.orders")


@pytest.fixture
def connection(spark: SparkSession, stores: tuple[Path, Path], sent: list[Sent]) -> Iterator[Any]:
    """A JDBC connection to a thrift server of this session, as BI tools open one."""
    jvm = spark._jvm
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    conf.set("hive.server2.thrift.port", "0")
    conf.set("hive.server2.thrift.bind.host", "127.0.0.1")
    conf.set("javax.jdo.option.ConnectionURL", "jdbc:derby:memory:pyrmq;create=true")
    jvm.java.lang.System.setProperty("derby.stream.error.field", "java.lang.System.err")
    started = jvm.org.apache.spark.sql.hive.thriftserver.HiveThriftServer2
    server = started.startWithSparkSession(spark._jsparkSession, False)
    try:
        ports = [s.getPortNumber() for s in server.getServices() if "Thrift" in s.getName()]
        jvm.java.lang.Class.forName("org.apache.hive.jdbc.HiveDriver")
        url = f"jdbc:hive2://127.0.0.1:{ports[0]}/default"
        opened = jvm.java.sql.DriverManager.getConnection(url, "tests", "")
        statement = opened.createStatement()
        statement.execute("SET spark.sql.catalog.mq=pyrmq.spark.RocketMQCatalog")
        statement.execute(f"SET spark.sql.catalog.mq.path={stores[0]}")
        yield opened
        opened.close()
    finally:
        server.stop()


def test_by_jdbc(connection: Any, sent: list[Sent]) -> None:
    statement = connection.createStatement()
    rows = statement.executeQuery(
        "SELECT tags, count(*) AS n, sum(length(body)) AS bytes FROM mq.default.orders "
        "WHERE queueId IN (0, 1) GROUP BY tags ORDER BY tags"
    )
    found = []
    while rows.next():
        found.append((rows.getString("tags"), rows.getLong("n"), rows.getLong("bytes")))
    chosen = [one for one in sent if one.topic == "orders" and one.queue in (0, 1)]
    assert found == [
        (tag, sum(o.tag == tag for o in chosen), sum(len(o.body) for o in chosen if o.tag == tag))
        for tag in "ABC"
    ]
    tables = statement.executeQuery("SHOW TABLES IN mq.default")
    names = []
    while tables.next():
        names.append(tables.getString(2))
    assert names == ["orders", "payments"]
