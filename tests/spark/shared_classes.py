"""An archive of Spark's classes: a session that starts with it needs ten seconds of CPU less. It is
made once for each PySpark, beside what the interop tests build."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.spark.worker_python import worker_python
from tests.system.interop import toolchain

SOME_OF_ALL = """
import sys
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[2]")
for pair in sys.argv[2:]:
    builder = builder.config(*pair.split("=", 1))
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
frame = spark.range(100).selectExpr("id", "cast(id as string) name", "array(id) ids")
frame.write.parquet(sys.argv[1] + "/parquet")
again = spark.read.parquet(sys.argv[1] + "/parquet")
again.filter("id > 3").groupBy("name").count().orderBy("name").toPandas()
again.join(frame, "id").mapInArrow(lambda batches: batches, again.schema).collect()
again.createOrReplaceTempView("t")
spark.sql("SELECT max(id), count(*) FROM t WHERE name LIKE '1%'").collect()
stream = spark.readStream.schema(again.schema).parquet(sys.argv[1] + "/parquet").writeStream
stream = stream.trigger(availableNow=True).option("checkpointLocation", sys.argv[1] + "/check")
stream.format("parquet").start(sys.argv[1] + "/out").awaitTermination()
spark.stop()
"""
"""What loads most of what the tests need. Arguments: a folder, and settings."""


def _folder() -> Path:
    """One for each PySpark and its place: an archive counts for the very same jars."""
    found = importlib.util.find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    return toolchain.BUILD / f"spark-{hashlib.sha256(found.origin.encode()).hexdigest()[:12]}"


def options(make: bool, settings: Sequence[str] = ()) -> list[str]:
    """Options of a JVM with the archive; none if there is none and it is not to be made."""
    archive = _folder() / "spark.jsa"
    if not make and not archive.exists():
        return []
    archive.parent.mkdir(parents=True, exist_ok=True)
    program = [sys.executable, "-c", SOME_OF_ALL, str(archive.parent / "work"), *settings]
    return toolchain.with_shared_classes(
        program,
        archive,
        through="SPARK_SUBMIT_OPTS",
        env={**os.environ, "PYSPARK_PYTHON": worker_python(), "SPARK_LOCAL_IP": "127.0.0.1"},
    )
