"""Archives a topic as Parquet, and restores it into another topic of a running broker.

python examples/spark/archive_and_restore.py
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import sample
import trio
from pyspark.sql import SparkSession

import pyrmq.testing
import spark_ext
from spark_ext.jobs import archive as archive_report
from spark_ext.jobs.archive import archive
from spark_ext.jobs.archive_read import verify
from spark_ext.jobs.restore import restore
from spark_ext.jobs.source import Source


async def run(spark: SparkSession, folder: Path) -> bool:
    shop = await sample.fill(folder / "broker-a")
    root = str(folder / "archive")
    added = archive(spark, Source((str(shop.store),)), root, topics=["Orders"])
    print(archive_report.summary(spark, root, added))
    again = archive(spark, Source((str(shop.store),)), root, topics=["Orders"])
    print(f"a second run adds {again.rows}; problems: {verify(spark, root) or 'none'}")

    other = folder / "broker-b"
    async with pyrmq.testing.broker(other, broker_name="broker-b") as server:
        counts = await trio.to_thread.run_sync(
            lambda: restore(spark, root, server.namesrv, to="OrdersAgain")
        )
    print(f"restored: {counts}")
    bodies = (
        spark.read.format("rocketmq").option("subscribe", "OrdersAgain").schema("body binary")
    ).load(str(other))
    found = sorted(bytes(row.body) for row in bodies.collect())
    good = found == sorted(sample.order(number).body for number in range(sample.ORDERS))
    print("every body is there once" if good else f"FAILED: {len(found)} bodies")
    return good


def main() -> None:
    spark = spark_ext.session(SparkSession.builder.appName("archive example"))
    with TemporaryDirectory(prefix="pyrmq-") as folder:
        sys.exit(0 if trio.run(run, spark, Path(folder)) else 1)


if __name__ == "__main__":
    main()
