"""RocketMQ segments for Spark: the data source `rocketmq`, its sink, and the pipeline jobs.

    spark_ext.register(spark)
    spark.read.format("rocketmq").option("subscribe", "orders").load("/data/store")

Importing this package loads neither PySpark nor pyarrow nor the engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: SparkSession) -> None:
    """Makes `format("rocketmq")` and `format("pyrmq")` known to a session.

    Needed where PySpark does not find them by itself (it looks once, when the first name is looked
    up, through the modules `pyspark_rocketmq` and `pyspark_pyrmq`), and in a thread other than the
    one that made the session before something is written there: Spark looks for the source of a
    write in the session that is active in the thread. Never wrong.
    """
    from spark_ext.registration import source_by_value

    for name in ("rocketmq", "pyrmq"):
        spark.dataSource.register(source_by_value(name))
    # Of the public methods of a session, this one makes it the active one of the thread.
    spark.createDataFrame([], "x int")
