"""Reading through a broker in Spark queries, from a broker process of ours."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pyrmq.net.address import format_address
from spark_ext.worker import ADMISSION
from tests.spark.reading import read_all
from tests.support.client import Client, send_command
from tests.support.records import Record, encode_batch
from tests.support.server import ServerProcess

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

SEND_BATCH = 320


class Filled:
    """A server with topics of four queues."""

    def __init__(self, server: ServerProcess) -> None:
        self.server = server
        self.namesrv = format_address(server.namesrv)
        self.sent: dict[str, int] = {}

    def fill(self, topic: str, count: int) -> None:
        """Messages `topic n` with tags A, B and C in turn, by batches over the queues."""
        start = self.sent.get(topic, 0)
        with Client(self.server.broker) as client:
            for queue in range(4):
                numbers = [n for n in range(start, start + count) if n % 4 == queue]
                for at in range(0, len(numbers), 500):
                    batch = [
                        (f"{topic} {n}".encode(), {"TAGS": "ABC"[n % 3], "KEYS": f"key{n}"})
                        for n in numbers[at : at + 500]
                    ]
                    command = send_command(
                        topic, encode_batch(batch), queue_id=queue, batch=True, code=SEND_BATCH
                    )
                    assert client.request(command).code == 0
        self.sent[topic] = start + count

    def records(self, topic: str) -> list[Record]:
        return read_all(self.server.broker, topic, 4)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Filled]:
    with ServerProcess(tmp_path_factory.mktemp("read") / "store") as server:
        made = Filled(server)
        made.fill("Alpha", 10_000)
        made.fill("Beta", 50)
        yield made


def load(spark: SparkSession, filled: Filled, schema: str = "", **options: str) -> DataFrame:
    reader = spark.read.format("rocketmq").option("nameServer", filled.namesrv)
    if schema:
        reader = reader.schema(schema)
    return reader.options(**options).load()


def places(frame: DataFrame) -> set[tuple[str, int, int]]:
    rows = frame.select("topic", "queueId", "queueOffset").collect()
    found = {(r.topic, r.queueId, r.queueOffset) for r in rows}
    assert len(found) == len(rows), "no row twice"
    return found


@pytest.mark.spark_versions
def test_every_row_with_its_columns(spark: SparkSession, filled: Filled) -> None:
    rows = load(spark, filled, topic="Alpha", includeHeaders="true").collect()
    assert len(rows) == 10_000
    expected = {(r.queue_id, r.queue_offset): r for r in filled.records("Alpha")}
    for row in rows:
        record = expected.pop((row.queueId, row.queueOffset))
        assert bytes(row.body) == record.body
        assert row.properties == record.properties
        assert row.topic == "Alpha"
        assert row.brokerName == "broker-a"
        assert row.tags == record.properties["TAGS"]
        assert row.keys == record.properties["KEYS"]
        assert row.commitLogOffset == record.physical_offset
        assert round(row.storeTimestamp.timestamp() * 1000) == record.store_timestamp
        assert round(row.bornTimestamp.timestamp() * 1000) == record.born_timestamp
    assert not expected


def test_narrow_schemas(spark: SparkSession, filled: Filled) -> None:
    frame = load(spark, filled, "bodyLength int, msgId string, queueId int", topic="Alpha")
    assert frame.columns == ["bodyLength", "msgId", "queueId"]
    assert frame.select("msgId").distinct().count() == 10_000
    columns = load(spark, filled, topic="Beta", columns="tags,storeSize").collect()
    assert {r.tags for r in columns} == {"A", "B", "C"}
    assert min(r.storeSize for r in columns) > 91


def test_topics_by_name_pattern_and_all(spark: SparkSession, filled: Filled) -> None:
    both = {("Alpha", 10_000), ("Beta", 50)}

    def counts(**options: str) -> set[tuple[str, int]]:
        frame = load(spark, filled, "topic string", **options)
        return {(r["topic"], r["count"]) for r in frame.groupBy("topic").count().collect()}

    assert counts(subscribe="Alpha,Beta") == both
    assert counts(subscribePattern="A.*|B.*a") == both
    assert counts(subscribePattern="B.*") == {("Beta", 50)}
    assert counts() == both, "the broker's own topics are left out"


def test_assigned_queues(spark: SparkSession, filled: Filled) -> None:
    queues = json.dumps({"Alpha": {"broker-a": [1, 3]}, "Beta": {"broker-a": [0]}})
    found = places(load(spark, filled, assign=queues))
    assert {(t, q) for t, q, _ in found} == {("Alpha", 1), ("Alpha", 3), ("Beta", 0)}
    assert len(found) == 5000 + 13


def test_offsets(spark: SparkSession, filled: Filled) -> None:
    starts = json.dumps({"Alpha": {"broker-a": {"0": 100, "1": -2}}})
    ends = json.dumps({"Alpha": {"broker-a": {"0": 110, "1": 5, "2": 0, "3": -1}}})
    found = places(load(spark, filled, topic="Alpha", startingOffsets=starts, endingOffsets=ends))
    assert found == {
        *(("Alpha", 0, n) for n in range(100, 110)),
        *(("Alpha", 1, n) for n in range(5)),
        *(("Alpha", 3, n) for n in range(2500)),
    }


def test_times(spark: SparkSession, filled: Filled) -> None:
    records = filled.records("Alpha")
    times = sorted({r.store_timestamp for r in records})
    low, high = times[len(times) // 4], times[-1]
    found = places(
        load(spark, filled, topic="Alpha", startingTimestamp=str(low), endingTimestamp=str(high))
    )
    assert found == {
        ("Alpha", r.queue_id, r.queue_offset) for r in records if low <= r.store_timestamp < high
    }
    late = str(times[-1] + 1)
    with pytest.raises(Exception, match="later than every message"):
        load(spark, filled, topic="Alpha", startingTimestamp=late).count()
    late_frame = load(
        spark,
        filled,
        topic="Alpha",
        startingTimestamp=late,
        startingOffsetsByTimestampStrategy="latest",
    )
    assert late_frame.count() == 0


def test_tags(spark: SparkSession, filled: Filled) -> None:
    frame = load(spark, filled, topic="Alpha", subExpression="A || C")
    rows = frame.select("body", "tags").collect()
    assert {r.tags for r in rows} == {"A", "C"}
    numbers = sorted(int(bytes(r.body).split()[1]) for r in rows)
    assert numbers == [n for n in range(10_000) if n % 3 != 1]


def test_more_partitions(spark: SparkSession, filled: Filled) -> None:
    frame = load(spark, filled, topic="Alpha", minPartitions="16", pullBatchSize="32")
    assert frame.rdd.getNumPartitions() >= 16
    assert len(places(frame)) == 10_000


def test_a_loaded_frame_is_a_snapshot(spark: SparkSession, filled: Filled) -> None:
    filled.fill("Growing", 40)
    frame = load(spark, filled, topic="Growing")
    assert frame.count() == 40
    filled.fill("Growing", 8)
    assert frame.count() == 40
    assert load(spark, filled, topic="Growing").count() == 48


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"topic": "Alfa"}, "topic 'Alfa' is not in the cluster.*did you mean Alpha"),
        ({"assign": '{"Alpha": {"broker-a": [9]}}'}, "no queue 9 of topic Alpha.*with 4 queues"),
        ({"assign": '{"Alpha": {"broker-x": [0]}}'}, "on broker broker-x"),
        (
            {"topic": "Alpha", "startingOffsets": '{"Alpha": {"broker-a": {"0": 99999}}}'},
            "startingOffsets names 99999 for topic Alpha, broker broker-a, queue 0, which has 0 to",
        ),
        (
            {"topic": "Alpha", "endingOffsets": '{"Alpha": {"broker-a": {"0": 99999}}}'},
            "endingOffsets names 99999",
        ),
        (
            {"topic": "Alpha", "startingOffsets": '{"Beta": {"broker-a": {"0": 0}}}'},
            "'Beta', which is not selected",
        ),
        ({"topic": "Alpha", "startingOffsets": "latest"}, "cannot be latest"),
        ({"topic": "Alpha", "maxBytesPerTrigger": "1m"}, "does not belong to a batch read through"),
        ({"topic": "Alpha", "splitBytes": "1m"}, "does not belong to a batch read through"),
        ({"topic": "Alpha", "pullBatchSiz": "1"}, "did you mean pullBatchSize"),
        ({"topic": "Alpha", "path": "/x"}, "both path and nameServer"),
    ],
)
def test_what_cannot_be_read_is_reported(
    spark: SparkSession, filled: Filled, options: dict[str, str], said: str
) -> None:
    with pytest.raises(Exception, match=f"(?s){said}"):
        load(spark, filled, **options).count()


def test_a_cluster_that_is_not_there(spark: SparkSession) -> None:
    frame = spark.read.format("rocketmq").option("topic", "T")
    given = {"nameServer": "127.0.0.1:1;127.0.0.1:2", "fetchOffset.numRetries": "0"}
    with pytest.raises(Exception, match="no name server of nameServer=127"):
        frame.options(**given).load().count()
    with pytest.raises(Exception, match=r"nameServer is not HOST:PORT\[;HOST:PORT\]"):
        frame.option("nameServer", "nonsense").load().count()


# -- streams ------------------------------------------------------------------------------------


class Sink:
    """Collects what micro-batches hold, as places of rows."""

    def __init__(self) -> None:
        self.batches: list[list[tuple[str, int, int]]] = []

    def __call__(self, frame: Any, number: int) -> None:
        rows = frame.select("topic", "queueId", "queueOffset").collect()
        self.batches.append([(r.topic, r.queueId, r.queueOffset) for r in rows])

    @property
    def rows(self) -> list[tuple[str, int, int]]:
        return [row for batch in self.batches for row in batch]


def stream(
    spark: SparkSession, filled: Filled, checkpoint: Path, sink: Sink, **options: str
) -> StreamingQuery:
    given = {"nameServer": filled.namesrv, "startingOffsets": "earliest", **options}
    return (
        spark.readStream.format("rocketmq")
        .schema("topic string, queueId int, queueOffset bigint")
        .options(**given)
        .load()
        .writeStream.foreachBatch(sink)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )


def all_of(filled: Filled, *topics: str) -> list[tuple[str, int, int]]:
    return sorted((t, r.queue_id, r.queue_offset) for t in topics for r in filled.records(t))


@pytest.mark.spark_versions
def test_a_stream_goes_on_where_it_stopped(
    spark: SparkSession, filled: Filled, tmp_path: Path
) -> None:
    filled.fill("Flow", 400)
    sink = Sink()
    stream(spark, filled, tmp_path, sink, topic="Flow").awaitTermination()
    assert sorted(sink.rows) == all_of(filled, "Flow")
    filled.fill("Flow", 30)
    for _ in range(2):
        stream(spark, filled, tmp_path, sink, topic="Flow").awaitTermination()
    assert sorted(sink.rows) == all_of(filled, "Flow")


@pytest.mark.skipif(not ADMISSION, reason="needs PySpark 4.2")
def test_a_limit_makes_small_batches(spark: SparkSession, filled: Filled, tmp_path: Path) -> None:
    filled.fill("Limited", 1000)
    sink = Sink()
    options = {"topic": "Limited", "maxOffsetsPerTrigger": "300"}
    stream(spark, filled, tmp_path, sink, **options).awaitTermination()
    assert sorted(sink.rows) == all_of(filled, "Limited")
    assert len(sink.batches) >= 4
    assert max(len(batch) for batch in sink.batches) <= 304


def test_topics_that_come_later(spark: SparkSession, filled: Filled, tmp_path: Path) -> None:
    filled.fill("Later1", 100)
    sink = Sink()
    stream(spark, filled, tmp_path, sink, subscribePattern="Later.*").awaitTermination()
    assert len(sink.rows) == 100
    filled.fill("Later2", 60)
    filled.fill("Later1", 8)
    stream(spark, filled, tmp_path, sink, subscribePattern="Later.*").awaitTermination()
    assert sorted(sink.rows) == all_of(filled, "Later1", "Later2")


def test_latest_is_the_default_start(spark: SparkSession, filled: Filled, tmp_path: Path) -> None:
    filled.fill("Latest", 100)
    sink = Sink()
    options = {"topic": "Latest", "startingOffsets": "latest"}
    stream(spark, filled, tmp_path, sink, **options).awaitTermination()
    assert sink.rows == []
    filled.fill("Latest", 20)
    stream(spark, filled, tmp_path, sink, **options).awaitTermination()
    assert len(sink.rows) == 20


@pytest.mark.spark_versions
def test_a_stream_that_stops_in_its_first_batch_goes_on_from_its_start(
    spark: SparkSession, filled: Filled, tmp_path: Path
) -> None:
    filled.fill("Stopped", 100)
    begun = len(all_of(filled, "Stopped"))
    options = {"topic": "Stopped", "startingOffsets": "latest"}

    class Failing(Sink):
        def __call__(self, frame: Any, number: int) -> None:
            filled.fill("Stopped", 8)
            raise RuntimeError("stopped in the first batch")

    for _ in range(2):
        with pytest.raises(Exception, match="stopped in the first batch"):
            stream(spark, filled, tmp_path, Failing(), **options).awaitTermination()
    sink = Sink()
    stream(spark, filled, tmp_path, sink, **options).awaitTermination()
    assert len(sink.rows) == len(all_of(filled, "Stopped")) - begun == 16


def test_bytes_cannot_limit_a_stream_through_brokers(
    spark: SparkSession, filled: Filled, tmp_path: Path
) -> None:
    with pytest.raises(Exception, match="maxBytesPerTrigger does not belong to a streaming read"):
        stream(
            spark, filled, tmp_path, Sink(), topic="Alpha", maxBytesPerTrigger="1m"
        ).awaitTermination()


def test_a_checkpoint_of_segments_is_refused(
    spark: SparkSession, filled: Filled, tmp_path: Path
) -> None:
    filled.fill("Flow2", 10)
    stream(spark, filled, tmp_path, Sink(), topic="Flow2").awaitTermination()
    [offsets] = (tmp_path / "offsets").glob("0")
    text = offsets.read_text()
    position = json.dumps({"log": {"broker-a": 5}, "version": 1})
    lines = text.splitlines()
    offsets.write_text("\n".join([*lines[:-1], position]))
    (tmp_path / "offsets" / ".0.crc").unlink()
    filled.fill("Flow2", 10)
    with pytest.raises(Exception, match="read segments"):
        stream(spark, filled, tmp_path, Sink(), topic="Flow2").awaitTermination()


def test_a_broker_that_restarts_under_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "store") as server:
        own = Filled(server)
        own.fill("Up", 200)
        sink = Sink()
        stream(spark, own, tmp_path / "cp", sink, topic="Up").awaitTermination()
        server.kill()
        options = {"topic": "Up", "fetchOffset.numRetries": "0"}
        with pytest.raises(Exception, match=r"no name server|broker broker-a"):
            stream(spark, own, tmp_path / "cp", sink, **options).awaitTermination()
        server.restart()
        own.fill("Up", 100)
        stream(spark, own, tmp_path / "cp", sink, topic="Up").awaitTermination()
        assert sorted(sink.rows) == all_of(own, "Up")
