"""`option("history", …)`: a table of the topic and the log behind it, through Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import DataStreamReader

from pyrmq.net.address import format_address
from pyrmq.tables.bodies.plan import BodyPlan
from pyrmq.tables.bodies.spec import spec
from tests.support.client import Client, send_command
from tests.support.server import ServerProcess
from tests.tables.tailing import KEY, TABLE, Log, commit
from tests.tables.tailing import catalog_folder as catalog_folder
from tests.tables.tailing import open_log as open_log

pytestmark = [pytest.mark.both_readers, pytest.mark.slow]


def read(spark: SparkSession, log: Log, catalog: Path, **options: str) -> DataFrame:
    given = {"history": TABLE, "historyCatalog": str(catalog), "brokerName": "b", **options}
    return spark.read.format("rocketmq").options(**given).load(str(log.root))


def bodies(frame: DataFrame) -> dict[Any, bytes]:
    rows = frame.select(*KEY, "body").collect()
    found = {(row.brokerName, row.queueId, row.queueOffset): bytes(row.body) for row in rows}
    assert len(found) == len(rows), "a message is there twice"
    return found


def test_each_message_once(spark: SparkSession, log: Log, catalog: Path) -> None:
    log.put(400)
    commit(catalog, [log.root], most=100)
    commit(catalog, [log.root], most=20)
    log.put(200)
    frame = read(spark, log, catalog, splitBytes="64k")
    before = dict(log.sent)
    assert bodies(frame) == before
    log.put(50)
    commit(catalog, [log.root])
    assert bodies(frame) == before  # a frame is a snapshot
    assert bodies(read(spark, log, catalog)) == log.sent
    row = frame.where("queueId = 1 AND queueOffset = 150").first()
    assert row is not None
    assert row.properties["n"] == str(1 + 150 * 3)
    assert row.topic == "orders"
    frame.createOrReplaceTempView("orders_and_tail")
    query = "SELECT count(*), count(DISTINCT queueOffset) FROM orders_and_tail"
    assert tuple(spark.sql(query).collect()[0]) == (600, 200)


def test_columns_and_rows(spark: SparkSession, log: Log, catalog: Path) -> None:
    log.put(300)
    commit(catalog, [log.root])
    log.put(90)
    assert read(spark, log, catalog, columns="TAGS,queueOffset").columns == ["tags", "queueOffset"]
    tags = read(spark, log, catalog, subExpression="A || B").groupBy("tags").count().collect()
    assert {row.tags: row["count"] for row in tags} == {"A": 132, "B": 129}
    times = sorted(
        row[0]
        for row in read(spark, log, catalog).select(F.unix_millis("storeTimestamp")).collect()
    )
    middle = times[200]
    found = read(spark, log, catalog, startingTimestamp=str(middle)).count()
    assert found == sum(time >= middle for time in times)
    given = {"history": TABLE, "historyCatalog": str(catalog), "brokerName": "b"}
    reader = spark.read.format("rocketmq").schema("queueId int, body binary").options(**given)
    assert reader.load(str(log.root)).columns == ["queueId", "body"]
    for schema, text in (("queueId long", "bigint"), ("nothing int", "does not have: nothing")):
        wrong = spark.read.format("rocketmq").schema(schema).options(**given)
        with pytest.raises(Exception, match=text):
            wrong.load(str(log.root)).collect()


def test_a_table_of_the_session_catalog(spark: SparkSession, log: Log, catalog: Path) -> None:
    log.put(30)
    commit(catalog, [log.root])
    log.put(12)
    spark.sql(
        f"CREATE TABLE orders_now USING rocketmq OPTIONS (path '{log.root}', brokerName 'b', "
        f"history '{TABLE}', historyCatalog '{catalog}')"
    )
    try:
        for _ in range(2):
            query = "SELECT count(*), count(DISTINCT queueOffset) FROM orders_now"
            assert tuple(spark.sql(query).collect()[0]) == (len(log.sent), len(log.sent) // 3)
            commit(catalog, [log.root])
            log.put(3)
    finally:
        spark.sql("DROP TABLE orders_now")


def test_decoded_bodies(spark: SparkSession, log: Log, catalog: Path, tmp_path: Path) -> None:
    schema = tmp_path / "order.json"
    schema.write_text('{"type": "object", "properties": {"n": {"type": "integer"}}}')
    log.put(90)
    commit(catalog, [log.root], bodies=BodyPlan(spec("json", [str(schema)])))
    log.put(60)
    log.put(1, body=b"no JSON")
    frame = read(spark, log, catalog, historyOnError="skip")
    numbers = {row.n for row in frame.select("value.n").collect()}
    assert numbers == {json.loads(body)["n"] for body in log.sent.values() if body != b"no JSON"}
    with pytest.raises(Exception, match="does not fit its schema"):
        read(spark, log, catalog).collect()


def test_through_brokers(spark: SparkSession, tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "store") as server:
        _send(server, 0, 30)
        commit(tmp_path / "catalog", [server.store], broker_names=["broker-a"])
        _send(server, 30, 12)
        frame = (
            spark.read.format("rocketmq")
            .option("history", TABLE)
            .option("historyCatalog", str(tmp_path / "catalog"))
            .option("nameServer", format_address(server.namesrv))
            .load()
        )
        wanted = {("broker-a", 0, n): b"%d" % n for n in range(42)}
        assert bodies(frame) == wanted
        _send(server, 42, 1)
        assert bodies(frame) == wanted


def _send(server: ServerProcess, first: int, count: int) -> None:
    with Client(server.broker) as client:
        for number in range(first, first + count):
            command = send_command("orders", b"%d" % number, queue_id=0)
            assert client.request(command).code == 0


def test_what_retention_deleted_first_is_an_error(
    spark: SparkSession, log: Log, catalog: Path
) -> None:
    log.put(300)
    commit(catalog, [log.root])
    log.put(1500)
    assert log.delete_first_files(3) == 3
    with pytest.raises(
        Exception, match=r"offset 100 of topic orders, broker b, queue \d is delete"
    ):
        read(spark, log, catalog).collect()
    rest = bodies(read(spark, log, catalog, failOnDataLoss="false"))
    assert rest.items() < log.sent.items()


def test_bad_input(spark: SparkSession, log: Log, catalog: Path) -> None:
    log.put(30)
    commit(catalog, [log.root])
    for options, text in (
        ({"subscribe": "orders"}, "option subscribe is not for a read with history"),
        ({"startingOffsets": "earliest"}, "option startingOffsets is not for"),
        ({"body": "utf8"}, "option body is not for"),
        ({"properties": "json"}, "properties=json is not for"),
        ({"columns": "nothing"}, "has no columns nothing"),
        ({"history": "mq.other"}, "has no table mq.other"),
        ({"historyCatalog": "postgresql://user:word@host/db"}, "write them into"),
        ({"historyOnError": "perhaps"}, "historyOnError"),
    ):
        with pytest.raises(Exception, match=text) as caught:
            read(spark, log, catalog, **options).collect()
        assert "user:word" not in str(caught.value)
    with pytest.raises(Exception, match="go together"):
        spark.read.format("rocketmq").option("history", TABLE).load(str(log.root)).collect()
    stream = spark.readStream.format("rocketmq").option("history", TABLE)
    with pytest.raises(Exception, match="does not belong to a streaming read"):
        _run(stream, log, catalog)


def _run(stream: DataStreamReader, log: Log, catalog: Path) -> None:
    """A stream of a store, to its end."""
    frame = stream.option("historyCatalog", str(catalog)).load(str(log.root))
    query = frame.writeStream.format("noop").trigger(availableNow=True).start()
    query.awaitTermination()


def test_the_reader_in_the_jvm_alone_refuses(
    spark: SparkSession, log: Log, catalog: Path, reader: str
) -> None:
    log.put(30)
    commit(catalog, [log.root])
    text = (
        "only the source in Python has option history" if reader == "jvm" else "jar of that reader"
    )
    with pytest.raises(Exception, match=text):
        read(spark, log, catalog, reader="jvm").collect()
