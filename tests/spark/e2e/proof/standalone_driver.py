"""The jar on a standalone cluster: what a driver sees, a line of JSON for each part.

    python -m tests.spark.e2e.proof.standalone_driver HOME JAR STORE PART [PART ...]

Run as a process of its own. The workers have no Python: what they read, the JVM reads.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .standalone import Standalone

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NO_PYTHON = "/no/python/here"
SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.executor.cores": "1",
    "spark.executor.memory": "1g",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.unix.domain.socket.enabled": "true",
}
BLIND = {"spark.task.maxFailures": "1"}
"""The first task on the worker that does not see the store decides."""


def session(url: str, jar: str, python: str, **more: str) -> SparkSession:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = python
    builder = SparkSession.builder.master(url)
    for key, value in {**SETTINGS, "spark.jars": jar, **more}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def frame(spark: SparkSession, store: str, source: str = "rocketmq") -> DataFrame:
    return spark.read.format(source).options(splitBytes="64k").load(store)


def sums(rows: DataFrame) -> list[Any]:
    """How many rows, how many different ones, and bytes of bodies: all in one pass."""
    text = "count(*)", "count(DISTINCT commitLogOffset)", "sum(length(body))"
    return list(rows.selectExpr(*text).collect()[0])


def batch(spark: SparkSession, cluster: Standalone, store: str) -> dict[str, Any]:
    return {"sums": sums(frame(spark, store))}


def stream(spark: SparkSession, cluster: Standalone, store: str) -> dict[str, Any]:
    rows = (
        spark.readStream.format("rocketmq")
        .options(startingOffsets="earliest", maxOffsetsPerTrigger="700")
        .load(store)
    )
    # What a foreachBatch would do in Python, tables of Parquet do on the executors.
    out = str(cluster.home / "out")
    query = (
        rows.writeStream.format("parquet")
        .option("checkpointLocation", str(cluster.home / "checkpoint"))
        .trigger(availableNow=True)
        .start(out)
    )
    query.awaitTermination(120)
    return {"sums": sums(spark.read.parquet(out)), "batches": len(query.recentProgress)}


def blind(spark: SparkSession, cluster: Standalone, store: str) -> dict[str, Any]:
    """The store is not on one worker: what both sources say."""
    said = {}
    for source in ("rocketmq", "pyrmq"):
        try:
            said[source] = f"no error: {sums(frame(spark, store, source))}"
        except Exception as error:
            said[source] = str(error)
    return said


PARTS = {
    part.__name__: (part, python, settings)
    for part, python, settings in (
        (batch, NO_PYTHON, {}),
        (stream, NO_PYTHON, {}),
        (blind, sys.executable, BLIND),
    )
}


def main(home: Path, jar: str, store: str, *parts: str) -> None:
    hidden = Path(store) if "blind" in parts else None
    with Standalone(home, hidden) as cluster:
        os.environ["SPARK_HOME"] = str(cluster.home)
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        for name in parts:
            part, python, settings = PARTS[name]
            spark = session(cluster.url, jar, python, **settings)
            answer = part(spark, cluster, store)
            print(json.dumps({"part": name, **answer}), flush=True)
            if settings or name == parts[-1]:
                spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
