"""A stream over a store while a broker writes it. The query stops and continues: it neither loses
nor repeats messages.

    python examples/spark/streaming.py
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import trio
from pyspark.sql import DataFrame, SparkSession

import pyrmq.testing
import spark_ext
from pyrmq import Message, Producer

ROUNDS, EACH = 3, 100


class Seen:
    """The rows of the stream, by queue."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, int]] = []

    def take(self, batch: DataFrame, number: int) -> None:
        rows = [(row.queueId, row.queueOffset) for row in batch.collect()]
        self.rows += rows
        print(f"  batch {number}: {len(rows)} messages")


def catch_up(spark: SparkSession, store: str, checkpoint: str, seen: Seen) -> None:
    """Runs the query until it has read everything. The next call is a new query, as in a new
    process: it has only the checkpoint."""
    query = (
        spark.readStream.format("rocketmq")
        .option("subscribe", "Clicks")
        .option("startingOffsets", "earliest")
        .schema("queueId int, queueOffset bigint")
        .load(store)
        .writeStream.foreachBatch(seen.take)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


async def run(spark: SparkSession, folder: Path) -> bool:
    store, seen = folder / "broker-a", Seen()
    async with (
        pyrmq.testing.broker(store) as server,
        Producer("clicks", namesrv=server.namesrv) as producer,
    ):
        for turn in range(ROUNDS):
            for number in range(EACH):
                await producer.send(Message("Clicks", b"click %d" % number))
            print(f"{(turn + 1) * EACH} messages sent, the broker is running")
            await trio.to_thread.run_sync(
                catch_up, spark, str(store), str(folder / "checkpoint"), seen
            )
    good = len(seen.rows) == len(set(seen.rows)) == ROUNDS * EACH
    print("each message came once" if good else f"FAILED: {len(seen.rows)} rows")
    return good


def main() -> None:
    spark = spark_ext.session(SparkSession.builder.appName("streaming example"))
    with TemporaryDirectory(prefix="pyrmq-") as folder:
        sys.exit(0 if trio.run(run, spark, Path(folder)) else 1)


if __name__ == "__main__":
    main()
