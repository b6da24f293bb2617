"""Idempotent writes in Spark queries that fail halfway and run again, onto a broker of ours."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import spark_ext
from pyrmq.net.address import format_address
from tests.spark.reading import read_all
from tests.support.records import Record
from tests.support.server import ServerProcess
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

ROWS = 40_000
"""Four Arrow batches of one task."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("idempotent") / "store") as made:
        yield made


def stored(server: ServerProcess, topic: str) -> list[Record]:
    return read_all(server.broker, topic, 4)


def number(row: Record) -> int:
    return int(row.body.rstrip(b"-")[1:])


def dies_before_the_last_batch(die: str, go: str) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Rows as they come. While the file `die` is there, the worker kills itself before the last
    Arrow batch, once the file `go` is there."""

    def rows(batches: Iterator[Any]) -> Iterator[Any]:
        import os
        import signal
        import time

        for n, batch in enumerate(batches):
            if n == 3 and os.path.exists(die):
                while not os.path.exists(go):
                    time.sleep(0.02)
                os.kill(os.getpid(), signal.SIGKILL)
            yield batch

    return rows


class Job:
    """A streaming query over a folder of JSON files, which writes to a topic of its own."""

    def __init__(self, spark: SparkSession, server: ServerProcess, folder: Path) -> None:
        self._spark = spark
        self._server = server
        self._folder = folder
        self.topic = f"Once{folder.name}"
        self._die, self._go = folder / "die", folder / "go"
        (folder / "in").mkdir()

    def fill(self, numbers: range) -> None:
        """What the first micro-batch reads, also when it runs again."""
        lines = "".join(json.dumps({"body": f"b{n}"}) + "\n" for n in numbers)
        (self._folder / "in" / "1.json").write_text(lines)

    def start(self) -> StreamingQuery:
        rows = self._spark.readStream.schema("body string").json(str(self._folder / "in"))
        # Longer than what pipes between the processes hold: the sink gets whole batches.
        rows = rows.selectExpr("concat(body, repeat('-', 300)) as body")
        dying = rows.mapInArrow(
            dies_before_the_last_batch(str(self._die), str(self._go)), rows.schema
        )
        return (
            dying.writeStream.format("rocketmq")
            .option("nameServer", format_address(self._server.namesrv))
            .option("topic", self.topic)
            .option("idempotent", "true")
            .option("sendBatchBytes", "64k")
            .option("checkpointLocation", str(self._folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )

    def die_halfway(self) -> list[Record]:
        """Runs the query until its task is killed. What is stored then."""
        self._die.touch()
        query = self.start()
        eventually(lambda: stored(self._server, self.topic), "some rows are stored", until=bool)
        self._go.touch()
        with pytest.raises(Exception, match=r"(?i)worker|SIGKILL|crashed"):
            query.awaitTermination(60)
        self._die.unlink()
        return stored(self._server, self.topic)


@pytest.mark.spark_versions
def test_a_micro_batch_killed_halfway_is_stored_once(
    spark: SparkSession, server: ServerProcess, tmp_path: Path
) -> None:
    job = Job(spark, server, tmp_path)
    job.fill(range(ROWS))
    before = job.die_halfway()
    assert 0 < len(before) < ROWS
    job.start().awaitTermination()
    rows = stored(server, job.topic)
    assert sorted(number(r) for r in rows) == list(range(ROWS))
    labels = {r.properties["SPARK_BATCH"] for r in rows}
    assert len(labels) == 1, "both tries are of one query and micro-batch"
    assert labels.pop().endswith("/0")


def test_other_rows_in_a_replay_are_all_stored(
    spark: SparkSession, server: ServerProcess, tmp_path: Path
) -> None:
    """The file is another one when the micro-batch runs again."""
    job = Job(spark, server, tmp_path)
    job.fill(range(ROWS))
    assert job.die_halfway()
    job.fill(range(1, ROWS + 1))
    job.start().awaitTermination()
    assert {number(r) for r in stored(server, job.topic)} >= set(range(1, ROWS + 1))


@pytest.mark.spark_versions
def test_foreach_batch_with_a_name_and_a_number(
    spark: SparkSession, server: ServerProcess, tmp_path: Path
) -> None:
    """The function fails after its write, so Spark runs the micro-batch again."""
    topic, fails = f"Each{tmp_path.name}", [True]
    source = tmp_path / "in"
    source.mkdir()

    def each(frame: DataFrame, batch: int) -> None:
        spark_ext.register(frame.sparkSession)
        (
            frame.write.format("rocketmq")
            .option("nameServer", format_address(server.namesrv))
            .option("topic", topic)
            .option("txnAppId", "orders")
            .option("txnVersion", batch)
            .mode("append")
            .save()
        )
        if fails[0]:
            raise ValueError("after the write")

    def run() -> None:
        (
            spark.readStream.schema("body string")
            .json(str(source))
            .writeStream.foreachBatch(each)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
            .awaitTermination()
        )

    for n in range(2):
        lines = "".join(json.dumps({"body": f"b{n}-{i}"}) + "\n" for i in range(500))
        (source / f"{n}.json").write_text(lines)
        fails[0] = True
        with pytest.raises(Exception, match="after the write"):
            run()
        fails[0] = False
        run()
    rows = stored(server, topic)
    wanted = Counter(b"b%d-%d" % (n, i) for n in range(2) for i in range(500))
    assert Counter(r.body for r in rows) == wanted
    assert {r.properties["SPARK_BATCH"] for r in rows} == {"orders/0", "orders/1"}
