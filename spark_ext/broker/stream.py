"""Streams through brokers, as far as all versions of PySpark have them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from spark_ext import selecting
from spark_ext.broker import partition as broker_partition
from spark_ext.broker.partition import BrokerPartition
from spark_ext.broker.plan import BrokerPlanner
from spark_ext.broker.progress import BrokerProgress
from spark_ext.broker.ranges import Position, from_position
from spark_ext.schema import as_given
from spark_ext.worker import VersionCheckedPickle

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql.types import StructType

    from spark_ext.options import Options


class StreamReader(VersionCheckedPickle, DataSourceStreamReader):
    """What streams have in common, whatever the PySpark."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._progress = BrokerProgress()
        how = selecting.read_options(options, schema)
        self._planner = BrokerPlanner(options, selecting.selection(options), how)

    def initialOffset(self) -> Position:
        return self._planner.initial()

    def partitions(self, start: Position, end: Position) -> list[InputPartition]:
        return [BrokerPartition(split) for split in self._planner.splits(start, end)]

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        return as_given(broker_partition.read(partition), self._schema)

    def commit(self, end: Position) -> None:
        """Logs the position. The checkpoint keeps it; offsets of groups are not touched."""
        self._progress.committed(from_position(end))

    def stop(self) -> None:
        self._progress.stopped()


class BrokerStreamReader41(StreamReader):
    """For PySpark 4.1, which asks for the end without saying where it starts."""

    def __init__(self, options: Options, schema: StructType) -> None:
        options.needs_pyspark((4, 1))
        super().__init__(options, schema)

    def latestOffset(self) -> Position:  # type: ignore[override]
        return self._planner.latest(None)
