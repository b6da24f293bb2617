"""What an archive sends back, and what it does not."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, cast

import pytest
import trio

import pyrmq
import pyrmq.testing
from spark_ext.jobs.archive import archive
from spark_ext.jobs.archive_manifest import Head
from spark_ext.jobs.engine import Engine, engine_of
from spark_ext.jobs.errors import JobError
from spark_ext.jobs.local import LocalEngine, Row
from spark_ext.jobs.restore import check_head, check_topics, counted, restore
from spark_ext.jobs.source import Source
from spark_ext.schema import WITH_PROPERTIES
from tests.spark.e2e.jobs.conftest import Frame
from tests.spark.small_store import QUEUES, write

COLUMNS = "topic brokerName queueId commitLogOffset queueOffset tags keys properties body flag"
COLUMNS_SENT = ("topic", "tags", "keys", "properties", "body", "flag")


def sent_by_spark(archived: Any, keep_queues: bool = False) -> list[list[Any]]:
    """Rows for the sink, by task."""
    from spark_ext.jobs.restore_spark import messages

    made = messages(archived, None, keep_queues)
    assert made.columns == [*COLUMNS_SENT, "queueId"][: 6 + keep_queues]
    return cast(list[list[Any]], made.rdd.glom().collect())


def sent_by_local(archived: Any, keep_queues: bool = False) -> list[list[Any]]:
    from spark_ext.jobs.restore_local import messages

    batches = list(messages(archived.engine, archived, keep_queues))
    assert batches[0].schema.names == [*COLUMNS_SENT, "queueId"][: 6 + keep_queues]
    found = [row for b in batches for row in b.to_pylist(maps_as_pydicts="strict")]
    return [[Row(row) for row in found]]


def sent_of(archived: Any, keep_queues: bool = False) -> list[list[Any]]:
    by = sent_by_local if isinstance(engine_of(archived), LocalEngine) else sent_by_spark
    return by(archived, keep_queues)


def test_rows_for_the_sink(frame: Frame) -> None:
    properties = {
        "TAGS": "A", "KEYS": "k", "UNIQ_KEY": "U", "DELAY": "3", "TRAN_MSG": "true",
        "REAL_TOPIC": "X", "PGROUP": "g", "WAIT": "true", "colour": "red", "__SHARDINGKEY": "s",
    }  # fmt: skip
    rows = [
        ("T", "a", queue, 1000 - 10 * n, n, "A", "k", properties, bytearray(b"%d" % n), 5)
        for queue in range(2)
        for n in range(3)
    ]
    parts = sent_of(frame(COLUMNS, *rows), keep_queues=True)
    found: dict[int, list[bytes]] = {}
    for row in (row for part in parts for row in part):
        assert (row.topic, row.tags, row.keys, row.flag) == ("T", "A", "k", 5)
        assert row.properties == {"colour": "red", "__SHARDINGKEY": "s"}
        found.setdefault(row.queueId, []).append(bytes(row.body))
    # The log's order, which the rows were not made in.
    assert found == {0: [b"2", b"1", b"0"], 1: [b"2", b"1", b"0"]}


async def test_back_into_a_broker(engine: Engine, tmp_path: Path) -> None:
    sent = write(tmp_path / "broker-a", 200)
    root, other = str(tmp_path / "archive"), tmp_path / "broker-b"
    archive(engine, Source((str(tmp_path / "broker-a"),)), root)
    async with pyrmq.testing.broker(other, broker_name="broker-b") as server:

        def send() -> dict[str, int]:
            return restore(
                engine, root, server.namesrv, to="again", topics=["orders"], keep_queues=True
            )

        assert await trio.to_thread.run_sync(send) == {"orders": 100}
    columns = ["queueId", "queueOffset", "tags", "keys", "body", "properties"]
    table = pyrmq.scan(other, topic="again", columns=columns).to_arrow()
    rows = [Row(row) for row in table.to_pylist(maps_as_pydicts="strict")]
    rows.sort(key=lambda row: (row.queueId, row.queueOffset))
    orders = [message for message in sent if message.topic == "orders"]
    assert len({message.queue for message in orders}) == QUEUES
    orders.sort(key=lambda message: (message.queue, message.offset))
    assert [(r.queueId, r.queueOffset, r.tags, r.keys, bytes(r.body)) for r in rows] == [
        (m.queue, m.offset, m.tag, m.key, m.body) for m in orders
    ]
    assert [row.properties["n"] for row in rows] == [m.key.removeprefix("key-") for m in orders]


async def test_few_messages_go_to_all_queues(tmp_path: Path) -> None:
    write(tmp_path / "broker-a", 20)
    root, other, here = str(tmp_path / "archive"), tmp_path / "broker-b", LocalEngine()
    archive(here, Source((str(tmp_path / "broker-a"),)), root)
    async with pyrmq.testing.broker(other, broker_name="broker-b") as server:

        def send() -> dict[str, int]:
            return restore(here, root, server.namesrv, to="again", topics=["orders"])

        assert await trio.to_thread.run_sync(send) == {"orders": 10}
    found = pyrmq.scan(other, topic="again", columns=["queueId"]).to_arrow()
    counts = Counter(found.column(0).to_pylist())
    assert len(counts) == QUEUES
    assert set(counts.values()) == {2, 3}


def test_what_cannot_be_restored(engine: Engine, tmp_path: Path) -> None:
    write(tmp_path / "broker-a", 10)
    source, root = Source((str(tmp_path / "broker-a"),)), str(tmp_path / "archive")
    archive(engine, source, root, columns=["topic", "body"])
    with pytest.raises(JobError, match="made without tags, keys, properties, flag"):
        restore(engine, root, "127.0.0.1:1")
    whole = str(tmp_path / "whole")
    archive(engine, source, whole)
    with pytest.raises(JobError, match="has no topic Orders: orders, payments"):
        restore(engine, whole, "127.0.0.1:1", topics=["Orders"])


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


def test_what_no_broker_takes_is_left_out(frame: Frame, caplog: pytest.LogCaptureFixture) -> None:
    properties = {"": "x", "colour": "red"}
    rows = [
        ("T", "a", 0, n, n, None, None, properties, body, 0)
        for n, body in enumerate((bytearray(b"x"), bytearray(), None))
    ]
    archived = frame(COLUMNS, *rows)
    assert counted(archived) == {"T": 1}
    assert "2 messages without a body are left out" in caplog.text
    ((sent,),) = [part for part in sent_of(archived) if part]
    assert (bytes(sent.body), sent.properties) == (b"x", {"colour": "red"})
