"""The jar on a standalone cluster: what a driver sees, a line of JSON for each part.

    python -m tests.spark.e2e.proof.standalone_driver HOME JAR STORE PART [PART ...]

Run as a process of its own. The workers have no Python: what they read, the JVM reads.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.waiting import eventually

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


SLOW = "reflect('java.lang.Thread', 'sleep', 3L) = 'null'"
"""True, after three milliseconds: a task with some hundred rows runs for a second."""
SPECULATE = {
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.minTaskRuntime": "0ms",
}


def killed(spark: SparkSession, cluster: Standalone, work: Callable[[], Any]) -> dict[str, Any]:
    """Kills one of two executors while tasks of `work` are done, run and wait. What has come."""
    answer: dict[str, Any] = {}

    def run() -> None:
        try:
            answer["sums"] = work()
        except Exception as error:
            answer["error"] = str(error)

    tracker = spark.sparkContext.statusTracker()
    stages: set[int] = set()

    def middle() -> bool:
        assert "error" not in answer, answer
        for stage in tracker.getActiveStageIds():
            info = tracker.getStageInfo(stage)
            if info is not None and info.numTasks > 2:
                stages.add(stage)
                done, all_of = info.numCompletedTasks, info.numTasks
                return info.numActiveTasks == 2 and 0 < done < all_of - 2
        return False

    before = eventually(cluster.executors, "two executors", 120, until=lambda all: len(all) == 2)
    thread = threading.Thread(target=run)
    thread.start()
    eventually(middle, "the middle of a stage", 120)
    os.kill(before[0], signal.SIGKILL)
    thread.join()
    failed = 0
    for stage in stages:
        info = tracker.getStageInfo(stage)
        failed += info.numFailedTasks if info is not None else 0
    after = eventually(cluster.executors, "a new executor", 120, until=lambda all: len(all) == 2)
    return {**answer, "failed": failed, "stayed": len({*before} & {*after})}


def killed_batch(spark: SparkSession, cluster: Standalone, store: str) -> dict[str, Any]:
    return killed(spark, cluster, lambda: sums(frame(spark, store).where(SLOW)))


def killed_stream(spark: SparkSession, cluster: Standalone, store: str) -> dict[str, Any]:
    rows = (
        spark.readStream.format("rocketmq")
        .options(startingOffsets="earliest", maxOffsetsPerTrigger="1200", splitBytes="64k")
        .load(store)
        .where(SLOW)
    )
    out = str(cluster.home / "killed")

    def work() -> list[Any]:
        query = (
            rows.writeStream.format("parquet")
            .option("checkpointLocation", str(cluster.home / "killed-checkpoint"))
            .trigger(availableNow=True)
            .start(out)
        )
        query.awaitTermination()
        return sums(spark.read.parquet(out))

    return killed(spark, cluster, work)


def held(spark: SparkSession, cluster: Standalone) -> dict[int, dict[str, int]]:
    """What the engine holds in each executor."""
    asked = spark.range(0, 8, 1, 8).selectExpr("java_method('pyrmq.spark.Held', 'text')")
    answers = [json.loads(row[0]) for row in asked.collect()]
    return {answer.pop("process"): answer for answer in answers}


def speculation(spark: SparkSession, cluster: Standalone, store: str) -> dict[str, Any]:
    """One partition is slow, so that a second task of it starts; the one that loses is killed."""
    slow = "reflect('java.lang.Thread', 'sleep', if(spark_partition_id() = 0, 20L, 0L)) = 'null'"
    found = sums(frame(spark, store).where(slow))
    nothing = {"tasks": 0, "streams": 0, "batches": 0, "bytes": 0}

    def clean(now: dict[int, dict[str, int]]) -> bool:
        return len(now) == 2 and all(one == nothing for one in now.values())

    eventually(lambda: held(spark, cluster), "nothing is held", until=clean)
    return {"sums": found, "lost": cluster.said().count("another attempt succeeded")}


PARTS = {
    part.__name__: (part, python, settings)
    for part, python, settings in (
        (batch, NO_PYTHON, {}),
        (stream, NO_PYTHON, {}),
        (killed_batch, NO_PYTHON, {}),
        (killed_stream, NO_PYTHON, {}),
        (speculation, NO_PYTHON, SPECULATE),
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
