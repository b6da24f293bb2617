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

__all__ = ["SparkSetupError", "jar_path", "reader", "register", "session"]

show()


def session(builder: SparkSession.Builder | None = None, *, reader: str = "auto") -> SparkSession:
    """Returns the existing session, or a new one, which finds the source and runs it fast.

        spark = spark_ext.session()
        spark = spark_ext.session(SparkSession.builder.master("local[4]").appName("orders"))

    Workers run the Python of this program unless PYSPARK_PYTHON or spark.pyspark.python names
    another one; docs/spark.md lists the other settings. Settings of the builder, spark-submit or
    spark-defaults.conf stay as they are. It calls `register`; SparkSetupError says what is missing.

    `reader`: `auto` adds the package's jar to a new session if it fits this Spark and this machine,
    so that Spark's JVM reads the segments; `jvm` raises SparkSetupError where it does not fit;
    `python` leaves it out. `spark_ext.reader(spark)` says which it is.
    """
    from spark_ext.setup import session as made

    return made(builder, reader=reader)


def reader(spark: SparkSession) -> str:
    """Who reads `format("rocketmq")` in this session: `jvm` or `python`. Of a session of Spark
    Connect it is always `python`, because the class path of the server is not visible."""
    from spark_ext.jar import reader_of

    return reader_of(spark)


def jar_path() -> str:
    """The path of the jar, for `spark-submit --jars` and `spark.jars`; also printed by
    `python -m spark_ext`. SparkSetupError if this installation has no jar."""
    from spark_ext.jar import path

    return path()


def register(spark: SparkSession) -> None:
    """Registers `format("rocketmq")` and `format("pyrmq")` with a session, in this thread.

    Call it if PySpark does not find the formats by itself: it looks only once, in a Python process
    of its own. Call it also before a write in another thread than the one that created the session,
    because Spark looks for the source of a write in the thread's active session. An unnecessary
    call does no harm.

    Raises SparkSetupError, which says what to do, if the workers' Python lacks this version of the
    package. If Spark runs only on this machine and nobody chose that Python, the Python of this
    program is used instead.
    """
    from spark_ext.registration import register as made

    made(spark)
