"""Batch reads of segments through Spark: rows, selections, columns, views, snapshots."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import spark_ext
from tests.spark import small_store
from tests.spark.small_store import Sent
from tests.support.records import encode_properties as encode

COUNT = 2000
ALL = (
    "topic,flag,body,properties,brokerName,queueId,queueOffset,bornTimestamp,storeTimestamp,tags,"
    "keys,commitLogOffset,bodyLength,sysFlag,storeSize,bodyCRC,reconsumeTimes,"
    "preparedTransactionOffset,msgId,transactionId,bornHost,storeHost,propertiesRaw"
)

pytestmark = pytest.mark.both_readers


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stores") / "broker-a"


@pytest.fixture(scope="module")
def sent(store: Path) -> list[Sent]:
    return small_store.write(store, COUNT)


def read(spark: SparkSession, store: Path | str, **options: str) -> DataFrame:
    return spark.read.format("rocketmq").options(**options).load(str(store))


def places(frame: DataFrame) -> list[int]:
    return sorted(row[0] for row in frame.select("commitLogOffset").collect())


def physical(sent: list[Sent]) -> list[int]:
    return sorted(one.physical for one in sent)


@pytest.mark.spark_versions
def test_every_message_is_a_row(spark: SparkSession, store: Path, sent: list[Sent]) -> None:
    """Found by name alone, from several tasks, with every column of the default schema."""
    frame = read(spark, store, splitBytes="64k", properties="map")
    assert frame.rdd.getNumPartitions() > 2
    rows = {row.commitLogOffset: row for row in frame.collect()}
    assert len(rows) == frame.count() == COUNT
    for number, one in enumerate(sent):
        row = rows[one.physical]
        assert (row.topic, row.queueId, row.queueOffset) == (one.topic, one.queue, one.offset)
        assert bytes(row.body) == one.body
        assert row.properties == {"TAGS": one.tag, "KEYS": one.key, "n": str(number)}
        assert (row.tags, row["keys"], row.brokerName, row.flag) == (
            one.tag,
            one.key,
            "broker-a",
            0,
        )
        assert row.bornTimestamp.timestamp() * 1000 == pytest.approx(number)
        assert row.storeTimestamp.timestamp() * 1000 == pytest.approx(one.store_time)


@pytest.mark.spark_versions
def test_every_column_in_any_order(spark: SparkSession, store: Path, sent: list[Sent]) -> None:
    for names in (ALL.split(","), ALL.split(",")[::-1]):
        frame = read(spark, store, columns=",".join(names))
        assert frame.columns == names
        assert frame.count() == COUNT
    row = frame.orderBy("commitLogOffset").first()
    assert row is not None
    assert row.bodyLength == len(sent[0].body)
    assert row.storeHost == "127.0.0.1:10911"
    assert row.propertiesRaw == encode({"TAGS": "A", "KEYS": "key-0", "n": "0"})
    assert row.preparedTransactionOffset == 0
    assert len(row.msgId) == 32


@pytest.mark.spark_versions
def test_a_schema_selects_columns(spark: SparkSession, store: Path, sent: list[Sent]) -> None:
    frame = spark.read.format("rocketmq").schema("queueId int, topic string").load(str(store))
    assert frame.columns == ["queueId", "topic"]
    counts = Counter((row.topic, row.queueId) for row in frame.collect())
    assert counts == Counter((one.topic, one.queue) for one in sent)


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ("queue int", "unknown column 'queue'.*did you mean queueId.*the columns are: topic"),
        ("queueId bigint", "queueId is bigint in the schema, but must be int"),
        ("body string", "body is string in the schema, but must be binary"),
    ],
)
def test_a_wrong_schema_lists_the_columns(
    spark: SparkSession, store: Path, schema: str, told: str
) -> None:
    frame = spark.read.format("rocketmq").schema(schema).load(str(store))
    with pytest.raises(Exception, match=told):
        frame.collect()


@pytest.mark.parametrize("form", ["json", "raw", "none"])
def test_forms_of_properties(spark: SparkSession, store: Path, form: str) -> None:
    frame = read(spark, store, properties=form).orderBy("commitLogOffset")
    if form == "none":
        assert "properties" not in frame.columns
        return
    row = frame.first()
    assert row is not None
    pairs = {"TAGS": "A", "KEYS": "key-0", "n": "0"}
    if form == "raw":
        assert row.properties == encode(pairs)
    else:
        again = frame.select(F.from_json("properties", "map<string,string>").alias("p")).first()
        assert again is not None
        assert again.p == pairs


@pytest.mark.filterwarnings("default")  # of pandas, not ours
def test_to_pandas(spark: SparkSession, store: Path) -> None:
    pytest.importorskip("pandas")
    found = read(spark, store, columns="QUEUEID,body").toPandas()
    assert (list(found.columns), len(found)) == (["queueId", "body"], COUNT)


def test_a_schema_in_another_case(spark: SparkSession, store: Path) -> None:
    reader = spark.read.format("rocketmq").schema("QUEUEID int, Tags string")
    frame = reader.load(str(store))
    assert frame.columns == ["QUEUEID", "Tags"]
    rows = frame.collect()
    assert len(rows) == COUNT
    assert {row.Tags for row in rows} == {"A", "B", "C"}


SELECTIONS: list[tuple[dict[str, str], Any]] = [
    ({"subscribe": "orders"}, lambda s: s.topic == "orders"),
    ({"topic": "payments"}, lambda s: s.topic == "payments"),
    ({"subscribe": "orders,payments"}, lambda s: True),
    ({"subscribePattern": "pay.*"}, lambda s: s.topic == "payments"),
    (
        {"assign": '{"orders":{"broker-a":[1,3]}}'},
        lambda s: s.topic == "orders" and s.queue in (1, 3),
    ),
    ({"subExpression": "A || C"}, lambda s: s.tag in "AC"),
    ({"subscribe": "orders", "key": "key-42"}, lambda s: s.key == "key-42"),
    (
        {
            "startingOffsets": '{"orders":{"broker-a":{"0":100,"1":-2}}}',
            "endingOffsets": '{"orders":{"broker-a":{"0":120,"2":7,"3":-1}}}',
            "subscribe": "orders",
        },
        lambda s: (
            s.topic == "orders"
            and (s.queue in (1, 3) or (s.queue == 0 and 100 <= s.offset < 120) or s.offset < 7)
            and not (s.queue == 0 and s.offset < 100)
        ),
    ),
]


@pytest.mark.parametrize(("options", "selects"), SELECTIONS)
@pytest.mark.parametrize("plan", ["auto", "scan", "file"])
def test_selections(
    spark: SparkSession,
    store: Path,
    sent: list[Sent],
    options: dict[str, str],
    selects: Any,
    plan: str,
) -> None:
    found = read(spark, store, plan=plan, splitBytes="64k", **options)
    assert places(found) == physical([one for one in sent if selects(one)])


def test_by_index(spark: SparkSession, store: Path, sent: list[Sent]) -> None:
    frame = read(spark, store, plan="index", assign='{"orders":{"broker-a":[2]}}')
    assert places(frame) == physical([s for s in sent if (s.topic, s.queue) == ("orders", 2)])


def test_times(spark: SparkSession, store: Path, sent: list[Sent]) -> None:
    times = sorted({one.store_time for one in sent})
    low, high = times[len(times) // 3], times[-1]
    frame = read(spark, store, startingTimestamp=str(low), endingTimestamp=str(high))
    assert places(frame) == physical([one for one in sent if low <= one.store_time < high])
    assert read(
        spark,
        store,
        startingTimestamp=str(high + 1),
        startingOffsetsByTimestampStrategy="latest",
    ).isEmpty()


@pytest.mark.spark_versions
def test_two_selections_of_one_source(spark: SparkSession, store: Path, sent: list[Sent]) -> None:
    """What `pushFilters` would get wrong: a frame queried twice, a union, a view."""
    frame = read(spark, store)
    first = frame.filter("queueId = 1").count()
    assert first == len([one for one in sent if one.queue == 1])
    assert frame.count() == COUNT
    both = frame.filter("queueId = 1").union(frame.filter("queueId = 2"))
    assert places(both) == physical([one for one in sent if one.queue in (1, 2)])
    options = read(spark, store, subExpression="A").union(read(spark, store, subExpression="B"))
    assert places(options) == physical([one for one in sent if one.tag in "AB"])
    frame.createOrReplaceTempView("messages")
    counts = [
        spark.sql(f"select count(*) n from messages {where}").first().n  # type: ignore[union-attr]
        for where in ("where queueId = 1", "", "where queueId = 3")
    ]
    assert counts == [first, COUNT, len([one for one in sent if one.queue == 3])]


@pytest.mark.spark_versions
def test_sql_view(spark: SparkSession, store: Path, sent: list[Sent]) -> None:
    spark.sql(
        "create or replace temporary view v using rocketmq "
        f"options (path '{store}', subscribe 'orders', splitBytes '128k')"
    )
    found = spark.sql("select queueId, count(*), sum(length(body)) from v group by 1 order by 1")
    rows = [tuple(row) for row in found.collect()]
    of = {q: [s.body for s in sent if (s.topic, s.queue) == ("orders", q)] for q in range(4)}
    assert rows == [(q, len(bodies), sum(map(len, bodies))) for q, bodies in of.items()]


def test_other_names(spark: SparkSession, store: Path, sent: list[Sent]) -> None:
    assert spark.read.format("pyrmq").load(str(store)).count() == COUNT
    spark_ext.register(spark)
    assert spark.read.format("rocketmq").load(str(store)).count() == COUNT
    assert spark.read.format("PYRMQ").load(str(store)).count() == COUNT


def test_places_to_read(spark: SparkSession, store: Path, sent: list[Sent], tmp_path: Path) -> None:
    log = store / "commitlog"
    assert places(read(spark, log)) == physical(sent)
    assert read(spark, log).first().brokerName == "broker-a"  # type: ignore[union-attr]
    first = sorted(log.iterdir())[0]
    assert places(read(spark, first)) == [p for p in physical(sent) if p < first.stat().st_size]
    assert read(spark, f"file://{store}").count() == COUNT
    other = tmp_path / "broker-b"
    small_store.write(other, 30)
    frame = spark.read.format("rocketmq").load([str(store), str(other)])
    assert Counter(row.brokerName for row in frame.collect()) == {"broker-a": COUNT, "broker-b": 30}
    named = spark.read.format("rocketmq").option("brokerName", "x,y").load([str(store), str(other)])
    assert {row.brokerName for row in named.select("brokerName").collect()} == {"x", "y"}


def test_through_fsspec(spark: SparkSession, store: Path, sent: list[Sent]) -> None:
    """`local:` is a scheme that only fsspec knows; tasks open it again in their own process."""
    pytest.importorskip("fsspec")
    options = {"storageOptions": '{"skip_instance_cache": true}', "splitBytes": "128k"}
    assert places(read(spark, f"local://{store}", **options)) == physical(sent)
    with pytest.raises(Exception, match="storageOptions"):
        read(spark, store, storageOptions="{").collect()


@pytest.mark.spark_versions
def test_a_loaded_frame_is_a_snapshot(spark: SparkSession, tmp_path: Path) -> None:
    writer = small_store.Writer(tmp_path / "live")
    writer.put(300)
    frame = read(spark, tmp_path / "live")
    assert frame.count() == 300
    writer.put(300)
    assert frame.count() == 300
    assert frame.filter("tags = 'A'").count() == 100
    assert read(spark, tmp_path / "live").count() == 600
    writer.close()


@pytest.mark.spark_versions
def test_nothing_to_read_is_an_empty_frame(
    spark: SparkSession, store: Path, sent: list[Sent], tmp_path: Path
) -> None:
    unwritten = tmp_path / "empty" / "commitlog" / f"{0:020d}"
    unwritten.parent.mkdir(parents=True)
    unwritten.write_bytes(bytes(small_store.SEGMENT))
    assert read(spark, tmp_path / "empty").collect() == []
    assert read(spark, store, subExpression="none-has-it").collect() == []
    assert read(spark, store, subscribePattern="nothing.*").collect() == []
    ends = '{"orders":{"broker-a":{"0":0,"1":0,"2":0,"3":0}}}'
    assert read(spark, store, subscribe="orders", endingOffsets=ends).count() == 0


def test_patterns_of_paths(spark: SparkSession, tmp_path: Path) -> None:
    """One frame of all stores that match; a store that comes later is not in it."""
    for name in ("store-a", "store-b", "other"):
        small_store.write(tmp_path / name, 10)
    frame = read(spark, tmp_path / "store-*")

    def brokers(frame: DataFrame) -> list[str]:
        return sorted(row.brokerName for row in frame.select("brokerName").distinct().collect())

    assert brokers(frame) == ["store-a", "store-b"]
    assert brokers(read(spark, tmp_path / "{store-[b-z],other}")) == ["other", "store-b"]
    both = spark.read.format("rocketmq").option("brokerName", "x,y,z")
    assert brokers(both.load([str(tmp_path / "other"), str(tmp_path / "store-?")])) == list("xyz")
    with pytest.raises(Exception, match=r"none-\*: nothing matches this pattern .*other, store-a"):
        read(spark, tmp_path / "none-*").collect()
    (tmp_path / "other").rename(tmp_path / "[x]")
    assert brokers(read(spark, tmp_path / "[x]")) == ["[x]"]


def test_a_stream_of_a_pattern(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("store-a", "store-b"):
        small_store.write(tmp_path / name, 10)
    reader = spark.readStream.format("rocketmq").option("startingOffsets", "earliest")
    frame = reader.load(str(tmp_path / "store-*"))
    writer = frame.writeStream.format("memory").queryName("of_a_pattern")
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    assert spark.table("of_a_pattern").groupBy("brokerName").count().count() == 2
