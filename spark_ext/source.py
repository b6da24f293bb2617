"""The data source `rocketmq`: the class that PySpark finds by name.

PySpark imports this module in each program that uses any format, so what is heavy is loaded when a
query comes: `spark_ext.queries` chooses the reader or writer. No reader here defines `pushFilters`:
up to Spark 4.3 it gives wrong rows once a loaded frame is queried twice
(tests/spark/e2e/test_api_facts.py fails when that changes), so selection is by options, which
belong to one load."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from pyspark.sql.datasource import DataSource, DataSourceStreamReader

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType


class FailedStreamReader(DataSourceStreamReader):
    """The reader of a stream that cannot be read as asked: its methods raise the error.

    The process that PySpark has for a stream (up to 4.3) answers an error of
    `DataSource.streamReader` with an UnboundLocalError of its own, which hides the real one. An
    error of the methods of a reader comes through as it is.
    """

    def __init__(self, error: Exception) -> None:
        self._error = error

    def _raise(self) -> NoReturn:
        raise self._error from None

    def initialOffset(self) -> Any:
        self._raise()

    def latestOffset(self, *start_and_limit: Any) -> Any:  # with parameters since PySpark 4.2
        self._raise()

    def getDefaultReadLimit(self) -> Any:
        self._raise()

    def reportLatestOffset(self) -> Any:
        self._raise()

    def partitions(self, start: Any, end: Any) -> Any:
        self._raise()

    def read(self, partition: Any) -> Any:
        self._raise()

    def commit(self, end: Any) -> None:
        self._raise()


class RocketMQDataSource(DataSource):
    """Found by PySpark through `pyspark_rocketmq`."""

    schema_asked: bool = False
    """Whether Spark asked for a schema: then the user gave none."""

    @classmethod
    def name(cls) -> str:
        return "rocketmq"

    def schema(self) -> StructType:
        """Of a read without a user's schema; also the first place where a typo can be reported."""
        from spark_ext import queries

        self.schema_asked = True
        return queries.schema_of(self.options)

    def reader(self, schema: StructType) -> DataSourceReader:
        from spark_ext import queries

        return queries.reader(self.options, schema, self.schema_asked)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from spark_ext import queries

        try:
            return queries.stream_reader(self.options, schema, self.schema_asked)
        except Exception as error:
            return FailedStreamReader(error)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from spark_ext import queries

        return queries.writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from spark_ext import queries

        return queries.stream_writer(self.options, schema, overwrite)


class PyrmqDataSource(RocketMQDataSource):
    """The same under its other name, found through `pyspark_pyrmq`."""

    @classmethod
    def name(cls) -> str:
        return "pyrmq"
