"""Registering the source with a session, as a class that travels by value.

Spark plans a query in a Python of its own, the one that PYSPARK_PYTHON names, and sends the
registered class there. If that Python has no wheel, a class that is referred to by its module
would fail with "No module named 'spark_ext'"; this one brings along what says what to do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource

from pyrmq import __version__
from pyrmq.escape import escape
from spark_ext import interpreter
from spark_ext.errors import SparkSetupError
from spark_ext.worker import make_check

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType


NAMES = ("rocketmq", "pyrmq")


def register(spark: SparkSession) -> None:
    """See `spark_ext.register`."""
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        _register_remote(spark)
        return
    context = spark.sparkContext
    if context._jsc is None:
        raise SparkSetupError("this Spark session was stopped: make another one, and register it")
    given = context.pythonExec
    try:
        # The class keeps the Python that the context has when it is registered.
        context.pythonExec = interpreter.for_source(context)
        for name in NAMES:
            spark.dataSource.register(source_by_value(name))
    finally:
        context.pythonExec = given
    # Of the public methods of a session, this one makes it the active one of the thread.
    spark.createDataFrame([], "x int")


def _register_remote(spark: SparkSession) -> None:
    """Through Spark Connect: the server's Python is asked by planning a read, of no file yet."""
    from pyspark.errors import PySparkException

    for name in NAMES:
        spark.dataSource.register(source_by_value(name))
    try:
        _ = spark.read.format(NAMES[0]).load("/").schema
    except PySparkException as error:
        said = str(error).strip().splitlines()
        told = [line for line in said if "pyrmq-broker" in line] or said[:1] or [""]
        raise SparkSetupError(
            "the server of Spark Connect cannot run the source; its Python (PYSPARK_PYTHON where "
            "the server was started) needs pip install "
            f"'pyrmq-broker[spark]=={__version__}': {escape(told[-1][:1000])}"
        ) from None


def source_by_value(format_name: str) -> type[DataSource]:
    """A class for `spark.dataSource.register`, of this format name."""
    check = make_check()
    version = __version__

    class RocketMQ(DataSource):
        schema_asked = False

        @classmethod
        def name(cls) -> str:
            return format_name

        def _real(self) -> Any:
            check(version)
            from spark_ext.source import RocketMQDataSource

            real = RocketMQDataSource(self.options)
            real.schema_asked = self.schema_asked
            return real

        def schema(self) -> StructType | str:
            self.schema_asked = True  # this object is pickled, and comes back for the reader
            found: StructType | str = self._real().schema()
            return found

        def reader(self, schema: StructType) -> DataSourceReader:
            found: DataSourceReader = self._real().reader(schema)
            return found

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:
            found: DataSourceStreamReader = self._real().streamReader(schema)
            return found

        def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
            found: DataSourceWriter = self._real().writer(schema, overwrite)
            return found

        def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
            found: DataSourceStreamWriter = self._real().streamWriter(schema, overwrite)
            return found

    return RocketMQ
