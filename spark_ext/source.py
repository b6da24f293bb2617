"""The data source `rocketmq`: which reader or writer a query gets.

`path` is a read of segments, `nameServer` without it a read through a broker; a write is always
through a broker. What belongs to one of them is loaded only for it. No reader here defines
`pushFilters`: up to Spark 4.3 it gives wrong rows once a loaded frame is queried twice
(tests/spark/e2e/test_api_facts.py fails when that changes), so selection is by options, which
belong to one load."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from pyspark.sql.datasource import DataSource, DataSourceStreamReader

from pyrmq.engine import scan_through_brokers
from spark_ext import catalog, column_hint
from spark_ext import schema as schemas
from spark_ext.option import Query
from spark_ext.options import Options
from spark_ext.worker import ADMISSION

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
        self.schema_asked = True
        table = catalog.of_statement(self.options)
        if table is None:
            return schemas.of_options(Options(self.options, None))
        return catalog.remembering(schemas.of_options(Options(table, None)), table)

    def reader(self, schema: StructType) -> DataSourceReader:
        self._take_table(schema)
        if self._through_broker():
            from spark_ext.broker.read import BrokerBatchReader

            return BrokerBatchReader(*self._checked(Query.BROKER_BATCH, schema))
        from spark_ext.readers import SegmentBatchReader

        return SegmentBatchReader(*self._checked(Query.BATCH, schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        try:
            return self._stream_reader(schema)
        except Exception as error:
            return FailedStreamReader(error)

    def _stream_reader(self, schema: StructType) -> DataSourceStreamReader:
        self._take_table(schema)
        if self._through_broker():
            from spark_ext.broker.read import BrokerStreamReader, BrokerStreamReader41

            broker_class = BrokerStreamReader if ADMISSION else BrokerStreamReader41
            return broker_class(*self._checked(Query.BROKER_STREAM, schema))
        options, schema = self._checked(Query.STREAM, schema)
        if ADMISSION:
            from spark_ext.admission import LimitedStreamReader

            return LimitedStreamReader(options, schema)
        from spark_ext.readers import SegmentStreamReader41

        return SegmentStreamReader41(options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from spark_ext.sink.writer import SinkWriter

        return SinkWriter(Options(self.options, Query.WRITE), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from spark_ext.sink.writer import StreamSinkWriter

        return StreamSinkWriter(Options(self.options, Query.WRITE_STREAM), schema, overwrite)

    def _checked(self, query: Query, schema: StructType) -> tuple[Options, StructType]:
        options = Options(self.options, query)
        schemas.check(schema, options)
        if self.schema_asked and not options.is_set("columns"):
            column_hint.all_columns()
        return options, schema

    def _take_table(self, schema: StructType) -> None:
        """Adds the options of the table of the catalog that is read, if it is one. A read that
        names a place is none, even with the schema of a table."""
        given = {key.lower() for key in self.options}
        if given & {"path", "paths", "location", "nameserver"}:
            return
        for key, value in catalog.remembered(schema).items():
            if key not in given:
                self.options[key] = value

    def _through_broker(self) -> bool:
        return scan_through_brokers(list(self.options))


class PyrmqDataSource(RocketMQDataSource):
    """The same under its other name, found through `pyspark_pyrmq`."""

    @classmethod
    def name(cls) -> str:
        return "pyrmq"
