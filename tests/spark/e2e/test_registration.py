"""`spark_ext.register`: what is needed where PySpark does not find the formats by itself."""

from __future__ import annotations

import threading
from collections.abc import Callable

from pyspark.sql import SparkSession

import spark_ext


def error_of_write(spark: SparkSession, first: Callable[[], object]) -> str:
    """What a write in a thread of its own ends with that lacks the option nameServer."""
    told: list[str] = []

    def work() -> None:
        first()
        try:
            spark.range(1).selectExpr("'x' body").write.format("rocketmq").mode("append").save()
        except Exception as error:
            told.append(str(error))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert len(told) == 1
    return told[0]


def test_a_write_from_another_thread(spark: SparkSession) -> None:
    spark_ext.register(spark)
    assert "DATA_SOURCE_NOT_FOUND" in error_of_write(spark, lambda: None), (
        "Spark finds the source in any thread now: register need not make the session active"
    )
    assert "nameServer" in error_of_write(spark, lambda: spark_ext.register(spark))
