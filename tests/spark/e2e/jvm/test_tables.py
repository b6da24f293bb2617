"""Tables of the session catalog with the reader in the JVM, and writes into them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from pyrmq.net.address import format_address
from tests.spark import jvm_jar, small_store
from tests.spark.reading import read_all
from tests.spark.small_store import Sent
from tests.support.server import ServerProcess

pytestmark = pytest.mark.spark_versions
WITHOUT_PYTHON = """
import os
import sys

jar, store, nowhere = sys.argv[1:]
os.environ["PYSPARK_PYTHON"] = nowhere

from pyspark.sql import SparkSession

spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.jars", jar)
    .config("spark.ui.enabled", "false")
    .getOrCreate()
)
read = spark.read.format("rocketmq")
print(read.load(store).where("length(body) > 0").count())
row = spark.sql("SELECT 'x' AS body")
for work in (
    lambda: spark.read.format("rocketmq").option("nameServer", "127.0.0.1:1").load(),
    lambda: spark.read.format("rocketmq").load("s3://bucket/store"),
    lambda: row.write.format("rocketmq").option("nameServer", "127.0.0.1:1").save(),
):
    try:
        work()
    except Exception as error:
        print(str(error).replace("\\n", " "))
"""
"""Arguments: the jar, a store, a Python that is not there."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stores") / "broker-a"


@pytest.fixture(scope="module")
def sent(store: Path) -> list[Sent]:
    return small_store.write(store, 200)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("sink") / "store") as made:
        yield made


@pytest.fixture
def tables(spark: SparkSession) -> Iterator[list[str]]:
    """Names of tables, which are dropped at the end."""
    names: list[str] = []
    yield names
    for name in names:
        spark.sql(f"DROP TABLE IF EXISTS {name}")


def bodies(server: ServerProcess, topic: str) -> list[bytes]:
    return sorted(row.body for row in read_all(server.broker, topic, 4))


def test_a_table_keeps_its_options(
    spark: SparkSession, store: Path, sent: list[Sent], tables: list[str]
) -> None:
    tables += ["kept", "narrow", "typed"]
    orders = [one for one in sent if one.topic == "orders"]
    spark.sql(f"CREATE TABLE kept USING rocketmq OPTIONS (subscribe 'orders') LOCATION '{store}'")
    spark.sql(f"CREATE TABLE narrow USING rocketmq OPTIONS (path '{store}', columns 'topic,tags')")
    spark.sql(
        "CREATE TABLE typed (queueId INT, body BINARY) USING rocketmq "
        f"OPTIONS (subscribe 'orders') LOCATION '{store}'"
    )
    assert spark.table("kept").count() == len(orders)
    assert spark.table("narrow").columns == ["topic", "tags"]
    assert len(spark.table("narrow").collect()) == 200
    rows = sorted((row.queueId, bytes(row.body)) for row in spark.table("typed").collect())
    assert rows == sorted((one.queue, one.body) for one in orders)
    narrowed = spark.sql("SELECT * FROM kept WITH (subExpression = 'A') WHERE queueId = 1")
    assert narrowed.count() == sum(one.tag == "A" and one.queue == 1 for one in orders)


def test_show_create_table_makes_the_same_table(
    spark: SparkSession, store: Path, sent: list[Sent], tables: list[str]
) -> None:
    tables.append("shown")
    spark.sql(
        "CREATE TABLE shown USING rocketmq OPTIONS (subscribe 'orders', subExpression 'A || B') "
        f"COMMENT 'orders' LOCATION '{store}'"
    )
    statement = spark.sql("SHOW CREATE TABLE shown").first()[0]
    before = sorted(row.commitLogOffset for row in spark.table("shown").collect())
    spark.sql("DROP TABLE shown")
    spark.sql(statement)
    assert spark.sql("SHOW CREATE TABLE shown").first()[0] == statement
    assert sorted(row.commitLogOffset for row in spark.table("shown").collect()) == before
    assert before == [s.physical for s in sent if s.topic == "orders" and s.tag in "AB"]
    assert "subExpression" in statement


def test_a_table_of_json_bodies_is_made_again(
    spark: SparkSession, store: Path, sent: list[Sent], tables: list[str]
) -> None:
    """SHOW CREATE TABLE writes texts within a struct as STRING COLLATE UTF8_BINARY."""
    tables.append("bodies")
    spark.sql(
        "CREATE TABLE bodies USING rocketmq OPTIONS (body 'json', columns 'body,queueId', "
        f"bodySchema 'name STRING, list ARRAY<STRING>') LOCATION '{store}'"
    )
    statement = spark.sql("SHOW CREATE TABLE bodies").first()[0]
    spark.sql("DROP TABLE bodies")
    spark.sql(statement)
    assert spark.sql("SELECT body.list FROM bodies").count() == 200
    assert spark.sql("SELECT body.name FROM bodies").first() == (None,)


def test_dropping_a_table_keeps_the_files(
    spark: SparkSession, store: Path, sent: list[Sent]
) -> None:
    for place in (f"LOCATION '{store}'", f"OPTIONS (path '{store}')"):
        spark.sql(f"CREATE TABLE dropped USING rocketmq {place}")
        spark.sql("DROP TABLE dropped")
    assert spark.read.format("rocketmq").load(str(store)).count() == 200


def test_what_a_table_must_not_keep(spark: SparkSession, store: Path, sent: list[Sent]) -> None:
    for options, text in (
        ("storageOptions '{}', path '/x'", "storageOptions would be kept in the catalog"),
        ("nameServer 'a:1', secretKey 'k'", "secretKey would be kept in the catalog"),
        ("path 's3://me:secret@host/x'", "credentials in the location would be kept"),
        ('paths \'["/a", "s3://me:secret@host/x"]\'', "credentials in the location would be kept"),
        (
            "path '/x', history 'mq.a', historyCatalog 'postgresql://me:secret@h/x'",
            "credentials in historyCatalog would be kept",
        ),
        (f"path '{store}', subcribe 'a'", "did you mean subscribe"),
    ):
        with pytest.raises(AnalysisException, match=text):
            spark.sql(f"CREATE TABLE refused USING rocketmq OPTIONS ({options})")
        assert not spark.catalog.tableExists("refused")


def test_insert_into(spark: SparkSession, server: ServerProcess, tables: list[str]) -> None:
    """The table's options name the brokers; reads of it go through them too."""
    tables.append("inserted")
    address = format_address(server.namesrv)
    spark.sql(
        "CREATE TABLE inserted (topic STRING, body BINARY, tags STRING, keys STRING) "
        f"USING rocketmq OPTIONS (nameServer '{address}', topic 'Inserted', batchRows '100')"
    )
    spark.sql(
        "INSERT INTO inserted (body, tags) "
        "SELECT cast(concat('row ', id) AS BINARY), 'T' FROM range(50)"
    )
    assert bodies(server, "Inserted") == sorted(f"row {n}".encode() for n in range(50))
    rows = spark.table("inserted").collect()
    assert {(row.topic, row.tags) for row in rows} == {("Inserted", "T")}
    assert len(rows) == 50
    spark.sql("INSERT INTO inserted BY NAME SELECT cast('more' AS BINARY) AS body")
    assert len(bodies(server, "Inserted")) == 51
    # Without names the columns are those of the table, by their position.
    spark.sql("INSERT INTO inserted VALUES (NULL, cast('last' AS BINARY), 'U', 'k')")
    last = spark.table("inserted").where("tags = 'U'").collect()
    assert [(row.body, row.keys) for row in last] == [(b"last", "k")]
    with pytest.raises(AnalysisException):
        spark.sql("INSERT OVERWRITE inserted (body) VALUES (cast('x' AS BINARY))")
    assert len(bodies(server, "Inserted")) == 52


def test_insert_into_files_is_refused(
    spark: SparkSession, store: Path, sent: list[Sent], tables: list[str]
) -> None:
    tables.append("files")
    spark.sql(f"CREATE TABLE files USING rocketmq LOCATION '{store}'")
    with pytest.raises(AnalysisException, match="has no option nameServer"):
        spark.sql("INSERT INTO files (body) VALUES (cast('x' AS BINARY))")


def test_save_modes(spark: SparkSession, server: ServerProcess) -> None:
    """Spark's default mode sends; modes that ask what is there do not."""
    rows = spark.createDataFrame([("one",), ("two",)], "body string")
    address = format_address(server.namesrv)
    writer = rows.write.format("rocketmq").option("nameServer", address)
    writer.option("topic", "Modes").save()
    writer.mode("append").save()
    assert bodies(server, "Modes") == [b"one", b"one", b"two", b"two"]
    for mode in ("overwrite", "ignore"):
        with pytest.raises(AnalysisException, match=f"save mode {mode}: a log only grows"):
            writer.mode(mode).save()
    assert len(bodies(server, "Modes")) == 4
    with pytest.raises(Exception, match="needs option nameServer"):
        rows.write.format("rocketmq").option("topic", "Modes").save()


def test_streams_write(spark: SparkSession, server: ServerProcess, tmp_path: Path) -> None:
    address = format_address(server.namesrv)
    source = tmp_path / "broker-a"
    small_store.write(source, 60)
    frame = spark.readStream.format("rocketmq").option("startingOffsets", "earliest")
    loaded = frame.load(str(source)).select("body")
    for mode in ("append", "update"):
        query = (
            loaded.writeStream.format("rocketmq")
            .options(nameServer=address, topic=f"Stream-{mode}")
            .option("checkpointLocation", str(tmp_path / mode))
            .outputMode(mode)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        assert len(bodies(server, f"Stream-{mode}")) == 60


def test_through_brokers(spark: SparkSession, server: ServerProcess) -> None:
    """nameServer is read by the source in Python; option reader can forbid it."""
    address = format_address(server.namesrv)
    rows = spark.range(40).selectExpr("cast(id as string) as body")
    rows.write.format("rocketmq").options(nameServer=address, topic="Brokers").save()
    reader = spark.read.format("rocketmq").options(nameServer=address, topic="Brokers")
    frame = reader.load()
    assert sorted(int(bytes(row.body)) for row in frame.collect()) == list(range(40))
    assert frame.where("queueId = 1").count() < frame.count() == 40
    with pytest.raises(AnalysisException, match="option reader is jvm, but only the source in"):
        reader.option("reader", "jvm").load()


def test_the_reader_is_chosen(spark: SparkSession, store: Path, sent: list[Sent]) -> None:
    reader = spark.read.format("rocketmq")
    plans = {}
    for name in ("auto", "jvm", "python"):
        frame = reader.option("reader", name).load(str(store))
        assert frame.count() == 200
        plans[name] = frame._jdf.queryExecution().executedPlan().toString()
    assert "RocketMQScan" in plans["jvm"]
    assert "RocketMQScan" in plans["auto"]
    assert "RocketMQScan" not in plans["python"]
    with pytest.raises(AnalysisException, match="option reader must be auto, jvm or python"):
        reader.option("reader", "rust").load(str(store))


def test_a_spark_of_another_line(spark: SparkSession) -> None:
    check = spark._jvm.pyrmq.spark.SparkLine.check
    for fits in (spark.version, "4.1.0", "4.3.7"):
        check(fits)
    for other in ("3.5.1", "4.0.1", "4.10.0", "5.0.0"):
        with pytest.raises(AnalysisException, match=f"here runs Spark {other}"):
            check(other)


def test_without_python(store: Path, sent: list[Sent], tmp_path: Path) -> None:
    """Files are read all the same; the rest says what is missing."""
    program = tmp_path / "program.py"
    program.write_text(WITHOUT_PYTHON)
    done = subprocess.run(
        [sys.executable, str(program), str(jvm_jar.built()), str(store), str(tmp_path / "none")],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
    )
    assert done.returncode == 0, done.stderr[-4000:]
    count, *told = done.stdout.splitlines()
    assert count == "200"
    assert len(told) == 3
    for line in told:
        assert "need a Python with the package pyrmq-broker" in line
        assert "PYSPARK_PYTHON" in line
