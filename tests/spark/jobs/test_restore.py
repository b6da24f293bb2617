"""What an archive sends back, and what it does not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trio

import pyrmq.testing
from spark_ext.jobs.archive import archive
from spark_ext.jobs.archive_manifest import Head
from spark_ext.jobs.errors import JobError
from spark_ext.jobs.restore import check_head, check_topics, counted, messages, restore
from spark_ext.jobs.source import Source
from spark_ext.schema import WITH_PROPERTIES
from tests.spark.jobs.conftest import Frame
from tests.spark.small_store import QUEUES, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = "topic brokerName queueId commitLogOffset queueOffset tags keys properties body flag"


def test_rows_for_the_sink(spark_frame: Frame) -> None:
    properties = {
        "TAGS": "A", "KEYS": "k", "UNIQ_KEY": "U", "DELAY": "3", "TRAN_MSG": "true",
        "REAL_TOPIC": "X", "PGROUP": "g", "WAIT": "true", "colour": "red", "__SHARDINGKEY": "s",
    }  # fmt: skip
    rows = [
        ("T", "a", queue, 1000 - 10 * n, n, "A", "k", properties, bytearray(b"%d" % n), 5)
        for queue in range(2)
        for n in range(3)
    ]
    sent = messages(spark_frame(COLUMNS, *rows), "Other", keep_queues=True)
    assert sent.columns == ["topic", "tags", "keys", "properties", "body", "flag", "queueId"]
    parts = sent.rdd.glom().collect()
    found: dict[int, list[bytes]] = {}
    for row in (row for part in parts for row in part):
        assert (row.topic, row.tags, row.keys, row.flag) == ("Other", "A", "k", 5)
        assert row.properties == {"colour": "red", "__SHARDINGKEY": "s"}
        found.setdefault(row.queueId, []).append(bytes(row.body))
    # The log's order, which the rows were not made in.
    assert found == {0: [b"2", b"1", b"0"], 1: [b"2", b"1", b"0"]}
    assert {len({row.queueId for row in part}) for part in parts if part} <= {1, 2}
    plain = messages(spark_frame(COLUMNS, *rows))
    assert {row.topic for row in plain.collect()} == {"T"}
    assert "queueId" not in plain.columns


async def test_back_into_a_broker(spark: SparkSession, tmp_path: Path) -> None:
    sent = write(tmp_path / "broker-a", 200)
    root, other = str(tmp_path / "archive"), tmp_path / "broker-b"
    archive(spark, Source((str(tmp_path / "broker-a"),)), root)
    async with pyrmq.testing.broker(other, broker_name="broker-b") as server:

        def send() -> dict[str, int]:
            return restore(
                spark, root, server.namesrv, to="again", topics=["orders"], keep_queues=True
            )

        assert await trio.to_thread.run_sync(send) == {"orders": 100}
    columns = "queueId int, queueOffset bigint, tags string, keys string, body binary, "
    reader = spark.read.format("rocketmq").option("subscribe", "again")
    reader = reader.schema(columns + "properties map<string,string>")
    rows = reader.load(str(other)).orderBy("queueId", "queueOffset").collect()
    orders = [message for message in sent if message.topic == "orders"]
    assert len({message.queue for message in orders}) == QUEUES
    orders.sort(key=lambda message: (message.queue, message.offset))
    assert [(r.queueId, r.queueOffset, r.tags, r.keys, bytes(r.body)) for r in rows] == [
        (m.queue, m.offset, m.tag, m.key, m.body) for m in orders
    ]
    assert [row.properties["n"] for row in rows] == [m.key.removeprefix("key-") for m in orders]


def test_what_cannot_be_restored(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "broker-a", 10)
    source, root = Source((str(tmp_path / "broker-a"),)), str(tmp_path / "archive")
    archive(spark, source, root, columns=["topic", "body"])
    with pytest.raises(JobError, match="made without tags, keys, properties, flag"):
        restore(spark, root, "127.0.0.1:1")
    whole = str(tmp_path / "whole")
    archive(spark, source, whole)
    with pytest.raises(JobError, match="has no topic Orders: orders, payments"):
        restore(spark, whole, "127.0.0.1:1", topics=["Orders"])


@pytest.mark.parametrize("given", [{"decompress": "False"}, {"DECOMPRESS": " false "}])
def test_bodies_that_may_be_compressed_are_not_sent(given: dict[str, str]) -> None:
    with pytest.raises(JobError, match="made with decompress=false"):
        check_head(Head(given, WITH_PROPERTIES), "root")


def test_decompressed_bodies_are_sent() -> None:
    check_head(Head({"subscribe": "A", "decompress": "TRUE"}, WITH_PROPERTIES), "root")
    check_head(Head({}, WITH_PROPERTIES), "root")


def test_the_brokers_own_topics_are_not_sent_to() -> None:
    check_topics(["A", "%RETRY%g", "RMQ_SYS_TRACE_TOPIC"])
    check_topics(["SCHEDULE_TOPIC_XXXX"], "A")
    with pytest.raises(JobError, match="may not send to RMQ_SYS_TRANS_HALF_TOPIC, SCHEDULE_TOPIC"):
        check_topics(["SCHEDULE_TOPIC_XXXX", "A", "RMQ_SYS_TRANS_HALF_TOPIC"])
    with pytest.raises(JobError, match="may not send to SCHEDULE_TOPIC_XXXX"):
        check_topics(["A"], "SCHEDULE_TOPIC_XXXX")


def test_what_no_broker_takes_is_left_out(
    spark_frame: Frame, caplog: pytest.LogCaptureFixture
) -> None:
    properties = {"": "x", "colour": "red"}
    rows = [
        ("T", "a", 0, n, n, None, None, properties, body, 0)
        for n, body in enumerate((bytearray(b"x"), bytearray(), None))
    ]
    archived = spark_frame(COLUMNS, *rows)
    assert counted(archived) == {"T": 1}
    assert "2 messages have no body" in caplog.text
    (sent,) = messages(archived).collect()
    assert (bytes(sent.body), sent.properties) == (b"x", {"colour": "red"})
