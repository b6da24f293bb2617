"""RocketMQ segments for Spark: the data source `rocketmq`, its sink, and the pipeline jobs.

    spark = spark_ext.session()
    spark.read.format("rocketmq").option("subscribe", "orders").load("/data/store")

Importing this package loads neither PySpark nor pyarrow nor the engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_ext.errors import SparkSetupError
from spark_ext.warnings_shown import show

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SparkSetupError", "register", "session"]

show()


def session(builder: SparkSession.Builder | None = None) -> SparkSession:
    """A session that finds the source and runs it fast: the one that there is, or a new one.

        spark = spark_ext.session()
        spark = spark_ext.session(SparkSession.builder.master("local[4]").appName("orders"))

    Workers run the Python of this program unless PYSPARK_PYTHON or spark.pyspark.python names
    another one; further settings are in docs/spark.md. What the builder, spark-submit or
    spark-defaults.conf set stays. Calls `register`; SparkSetupError says what is missing.
    """
    from spark_ext.setup import session as made

    return made(builder)


def register(spark: SparkSession) -> None:
    """Makes `format("rocketmq")` and `format("pyrmq")` known to a session, in this thread.

    Needed where PySpark does not find them by itself: its look-up runs in a Python of its own, and
    once; and in a thread other than the one that made the session before something is written
    there, as Spark looks for the source of a write in the session that is active in the thread.
    Never wrong. SparkSetupError where the workers' Python has not this version of the package, says
    so and what to do; on one machine, where nobody chose that Python, this program's is taken.
    """
    from spark_ext.registration import register as made

    made(spark)
