"""The stores of two brokers in one DataFrame on a cluster of two worker processes.

    python -m tests.spark.e2e.proof.cluster HOME PATH,PATH [PATH,PATH ...]

Run as a process of its own: an application has one Spark. HOME becomes Spark's home, so that the
work folders of the executors land there. Prints a line of JSON for each pair of paths.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def spark_home(folder: Path) -> Path:
    """The pip package as Spark's home, but for what executors write: they get their launcher from
    SPARK_HOME/bin and keep jars and logs in SPARK_HOME/work."""
    import pyspark

    folder.mkdir(parents=True, exist_ok=True)
    package = Path(pyspark.__file__).parent
    for name in ("bin", "sbin", "jars", "python"):
        if (package / name).exists() and not (folder / name).exists():
            (folder / name).symlink_to(package / name)
    return folder


def executor() -> str:
    """Which executor runs this: executors work in folders work/APPLICATION/NUMBER."""
    return os.path.basename(os.getcwd())


def session() -> SparkSession:
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master("local-cluster[2,1,1024]")
        .config("spark.driver.memory", "1g")
        .config("spark.executor.memory", "1g")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.python.unix.domain.socket.enabled", "true")
        .config("spark.scheduler.minRegisteredResourcesRatio", "1.0")
        .config("spark.scheduler.maxRegisteredResourcesWaitingTime", "120s")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def read(spark: SparkSession, paths: list[str]) -> dict[str, Any]:
    """What is in the stores, by broker, topic and queue, and who has read it."""
    from pyspark.sql import functions as F

    frame = (
        spark.read.format("rocketmq")
        .options(includeSystemTopics="true", splitBytes="64k")
        .load(paths)
    )
    where = F.udf(executor).asNondeterministic()
    counts = frame.groupBy("brokerName", "topic", "queueId").agg(
        F.count("*").alias("rows"),
        F.sum(F.length("body")).alias("bytes"),
        F.max("commitLogOffset").alias("last"),
    )
    return {
        "counts": [list(row) for row in counts.collect()],
        "executors": {
            row["executor"]: row["count"]
            for row in frame.withColumn("executor", where()).groupBy("executor").count().collect()
        },
        "partitions": frame.select(F.spark_partition_id()).distinct().count(),
    }


if __name__ == "__main__":
    os.environ["SPARK_HOME"] = str(spark_home(Path(sys.argv[1])))
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    spark = session()
    for pair in sys.argv[2:]:
        print(json.dumps(read(spark, pair.split(","))), flush=True)
    spark.stop()
