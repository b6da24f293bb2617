"""Which reader or writer a query gets, by its options.

`path` is a read of segments, `nameServer` without it a read through a broker; a write is always
through a broker. What belongs to one of them is loaded only for it."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import TYPE_CHECKING

from pyrmq.engine import scan_through_brokers
from spark_ext import catalog, column_hint
from spark_ext import schema as schemas
from spark_ext.option import Query
from spark_ext.options import Options
from spark_ext.worker import ADMISSION

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType

Given = MutableMapping[str, str]
"""The options as Spark gives them."""


def schema_of(given: Given) -> StructType:
    """The schema of a read whose user gave none. ConfigError for an option that is wrong."""
    table = catalog.of_statement(given)
    if table is None:
        return _schema(Options(given, None))
    return catalog.remembering(_schema(Options(table, None)), table)


def _schema(options: Options) -> StructType:
    if asks_for_table(options):
        from spark_ext import history

        return history.schema_of(options)
    return schemas.of_options(options)


def reader(given: Given, schema: StructType, schema_asked: bool) -> DataSourceReader:
    """`schema_asked`: the schema is ours, as the user gave none."""
    _take_table(given, schema)
    through_brokers = scan_through_brokers(list(given))
    options = Options(given, Query.BROKER_BATCH if through_brokers else Query.BATCH)
    if asks_for_table(options):
        from spark_ext.history import HistoryReader

        return HistoryReader(options, schema)
    if through_brokers:
        from spark_ext.broker.read import BrokerBatchReader

        return BrokerBatchReader(*_checked(options, schema, schema_asked))
    from spark_ext.readers import SegmentBatchReader

    return SegmentBatchReader(*_checked(options, schema, schema_asked))


def stream_reader(given: Given, schema: StructType, schema_asked: bool) -> DataSourceStreamReader:
    """As `reader`."""
    _take_table(given, schema)
    if scan_through_brokers(list(given)):
        from spark_ext.broker.read import BrokerStreamReader, BrokerStreamReader41

        broker_class = BrokerStreamReader if ADMISSION else BrokerStreamReader41
        options = Options(given, Query.BROKER_STREAM)
        return broker_class(*_checked(options, schema, schema_asked))
    options, schema = _checked(Options(given, Query.STREAM), schema, schema_asked)
    if ADMISSION:
        from spark_ext.admission import LimitedStreamReader

        return LimitedStreamReader(options, schema)
    from spark_ext.readers import SegmentStreamReader41

    return SegmentStreamReader41(options, schema)


def writer(given: Given, schema: StructType, overwrite: bool) -> DataSourceWriter:
    from spark_ext.sink.writer import SinkWriter

    return SinkWriter(Options(given, Query.WRITE), schema, overwrite)


def stream_writer(given: Given, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
    from spark_ext.sink.writer import StreamSinkWriter

    return StreamSinkWriter(Options(given, Query.WRITE_STREAM), schema, overwrite)


def asks_for_table(options: Options) -> bool:
    """Whether a query reads an Iceberg table and the log behind it."""
    return any(map(options.is_set, ("history", "historyCatalog", "historyOnError")))


def _checked(
    options: Options, schema: StructType, schema_asked: bool
) -> tuple[Options, StructType]:
    schemas.check(schema, options)
    if schema_asked and not options.is_set("columns"):
        column_hint.all_columns()
    return options, schema


def _take_table(given: Given, schema: StructType) -> None:
    """Adds the options of the table of the catalog that is read, if it is one. A read that names a
    place is none, even with the schema of a table."""
    names = {key.lower() for key in given}
    if names & {"path", "paths", "location", "nameserver"}:
        return
    for key, value in catalog.remembered(schema).items():
        if key not in names:
            given[key] = value
