"""The sink in Spark queries, onto a broker process of ours."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pyrmq.net.address import format_address
from tests.spark.reading import read_all
from tests.support.client import Client
from tests.support.delays import parked
from tests.support.records import Record
from tests.support.server import ServerProcess
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("sink") / "store") as made:
        yield made


def namesrv(server: ServerProcess) -> str:
    return format_address(server.namesrv)


def write(frame: DataFrame, server: ServerProcess, **options: str) -> None:
    writer = frame.write.format("rocketmq").option("nameServer", namesrv(server))
    writer.options(**options).mode("append").save()


def stored(server: ServerProcess, topic: str) -> list[Record]:
    return read_all(server.broker, topic, 4)


def test_all_columns_arrive(spark: SparkSession, server: ServerProcess) -> None:
    frame = spark.range(2000).selectExpr(
        "cast(concat('body ', id) as binary) as body",
        "if(id % 2 = 0, 'Even', null) as tags",
        "concat('k', id, ' all') as keys",
        "map('n', cast(id as string), 'none', null) as properties",
        "concat('order-', id % 5) as shardingKey",
        "cast(id as int) as flag",
    )
    write(frame, server, topic="Columns")
    rows = stored(server, "Columns")
    assert len(rows) == 2000
    queues: dict[str, set[int]] = {}
    ids = set()
    for row in rows:
        n = int(row.properties["n"])
        assert row.body == f"body {n}".encode()
        assert row.flag == n
        assert row.properties.get("TAGS") == ("Even" if n % 2 == 0 else None)
        assert row.properties["KEYS"] == f"k{n} all"
        assert row.properties["__SHARDINGKEY"] == f"order-{n % 5}"
        assert "none" not in row.properties
        ids.add(row.properties["UNIQ_KEY"])
        queues.setdefault(f"order-{n % 5}", set()).add(row.queue_id)
    assert len(ids) == 2000
    assert all(len(found) == 1 for found in queues.values())


def test_string_bodies_and_topics_of_rows(spark: SparkSession, server: ServerProcess) -> None:
    frame = spark.range(300).selectExpr(
        "concat('b', id) as body", "concat('Rows', id % 3) as topic"
    )
    write(frame, server)
    for n in range(3):
        got = {row.body.decode() for row in stored(server, f"Rows{n}")}
        assert got == {f"b{i}" for i in range(n, 300, 3)}


def test_what_was_read_can_be_written(spark: SparkSession, server: ServerProcess) -> None:
    """Properties as they are read hold what brokers added; the unique keys stay the same."""
    frame = spark.range(500).selectExpr("cast(id as string) as body", "'T1' as tags")
    write(frame, server, topic="First")
    read = (
        spark.read.format("rocketmq")
        .option("nameServer", namesrv(server))
        .option("topic", "First")
        .option("properties", "map")
        .load()
    )
    write(read.select("body", "properties", "flag"), server, topic="Second")
    first, second = stored(server, "First"), stored(server, "Second")
    assert {(r.body, r.properties["UNIQ_KEY"], r.properties["TAGS"]) for r in first} == {
        (r.body, r.properties["UNIQ_KEY"], r.properties["TAGS"]) for r in second
    }
    assert len(second) == 500


def test_rows_with_a_delay_arrive_later(spark: SparkSession, server: ServerProcess) -> None:
    """Level 1 is a second; what has no level, or 0, is there at once."""
    frame = spark.range(20).selectExpr(
        "concat('b', id) as body",
        "case id % 4 when 0 then 1 when 1 then 0 else null end as delayTimeLevel",
    )
    write(frame, server, topic="Waits")
    arrived = eventually(
        lambda: stored(server, "Waits"), "all have arrived", until=lambda rows: len(rows) >= 20
    )
    assert sorted(row.body for row in arrived) == sorted(b"b%d" % n for n in range(20))
    with Client(server.broker) as client:
        waited = {r.body: r.store_timestamp for r in parked(client, 1)}
    assert set(waited) == {b"b%d" % n for n in range(0, 20, 4)}
    for row in arrived:
        if row.body in waited:
            assert row.store_timestamp >= waited[row.body] + 1000
            assert row.properties["DELAY"] == "1"


@pytest.mark.parametrize(
    ("select", "options", "said"),
    [
        (["id"], {"topic": "Bad"}, "column 'id' cannot be written"),
        (["cast(null as binary) as body"], {"topic": "Bad"}, "row 0: the body is null"),
        (["'x' as body", "'a b' as topic"], {}, 'topic "a b" is illegal'),
        (["'x' as body"], {}, "need a topic"),
        (["'x' as body"], {"topic": "Bad", "sendBatchBites": "1"}, "did you mean sendBatchBytes"),
        (["'x' as body", "9 as queueId"], {"topic": "Columns"}, "has no queue 9"),
        (
            ["'x' as body", "map('DELAY', '3') as properties"],
            {"topic": "Columns"},
            "property DELAY is reserved.*use column delayTimeLevel",
        ),
    ],
)
def test_what_cannot_be_written_is_reported(
    spark: SparkSession,
    server: ServerProcess,
    select: list[str],
    options: dict[str, str],
    said: str,
) -> None:
    with pytest.raises(Exception, match=said):
        write(spark.range(1).selectExpr(*select), server, **options)


def test_overwrite_is_refused(spark: SparkSession, server: ServerProcess) -> None:
    writer = spark.range(1).selectExpr("'x' as body").write.format("rocketmq")
    with pytest.raises(Exception, match="cannot be overwritten"):
        writer.option("nameServer", namesrv(server)).option("topic", "T").mode("overwrite").save()


@pytest.mark.spark_versions
def test_a_stream_is_written(spark: SparkSession, server: ServerProcess, tmp_path: Path) -> None:
    """Rows of a folder of JSON files, in two runs of the query."""
    source = tmp_path / "in"
    source.mkdir()

    def run() -> None:
        query = (
            spark.readStream.schema("body string, shardingKey string")
            .json(str(source))
            .writeStream.format("rocketmq")
            .option("nameServer", namesrv(server))
            .option("topic", f"Stream{tmp_path.name}")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    def lines(numbers: range) -> str:
        rows = ({"body": f"b{n}", "shardingKey": f"{n % 4}"} for n in numbers)
        return "".join(json.dumps(row) + "\n" for row in rows)

    topic = f"Stream{tmp_path.name}"
    (source / "1.json").write_text(lines(range(100)))
    run()
    assert len(stored(server, topic)) == 100
    (source / "2.json").write_text(lines(range(100, 250)))
    run()
    run()
    assert sorted(int(r.body[1:]) for r in stored(server, topic)) == list(range(250))


def test_a_broker_killed_in_the_middle(spark: SparkSession, tmp_path: Path) -> None:
    """It comes back while the tasks try again: every row is there, some may be there twice."""
    with ServerProcess(tmp_path / "store") as server:
        write(spark.range(10).selectExpr("'x' as body"), server, topic="Killed")
        count = 200_000
        frame = spark.range(0, count, 1, 2).selectExpr(
            "concat(id, repeat('-', 200)) as body", "concat('k', id % 3) as shardingKey"
        )
        # Spark finds sources by name only in the thread that has the session, so the write is here.
        killer = Killer(server, after=30_000)
        killer.start()
        options = {"retryTimesWhenSendFailed": "40", "sendBatchBytes": "4k"}
        write(frame, server, topic="Killed", **options)
        killer.join()
        assert killer.killed
        got = [int(r.body.partition(b"-")[0]) for r in stored(server, "Killed") if r.body != b"x"]
        assert set(got) == set(range(count))
        assert len(got) < 1.5 * count


class Killer(threading.Thread):
    """Kills a broker once it has stored some rows of topic Killed, and starts it again."""

    def __init__(self, server: ServerProcess, after: int) -> None:
        super().__init__()
        self._server = server
        self._after = after
        self.killed = False

    def run(self) -> None:
        with Client(self._server.broker) as client:
            while sum(client.max_offset("Killed", queue) for queue in range(4)) < self._after:
                pass
        self._server.kill()
        self.killed = True
        self._server.restart()
