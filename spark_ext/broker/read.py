"""The readers of `nameServer` without `path`: the batch one, and the stream's for this PySpark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from spark_ext import selecting
from spark_ext.broker import partition as broker_partition
from spark_ext.broker.partition import BrokerPartition
from spark_ext.broker.plan import BrokerPlanner
from spark_ext.broker.stream import BrokerStreamReader41
from spark_ext.schema import as_given
from spark_ext.worker import ADMISSION, VersionCheckedPickle

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql.types import StructType

    from spark_ext.options import Options


class BrokerBatchReader(VersionCheckedPickle, DataSourceReader):
    """Offsets are fixed when Spark plans: all actions on one loaded frame see the same rows."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._schema = schema
        how = selecting.read_options(options, schema)
        self._planner = BrokerPlanner(options, selecting.selection(options), how)

    def partitions(self) -> list[InputPartition]:
        return [BrokerPartition(split) for split in self._planner.batch()]

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        return as_given(broker_partition.read(partition), self._schema)


if ADMISSION:
    from spark_ext.broker.admission import BrokerStreamReader
else:
    BrokerStreamReader = BrokerStreamReader41  # type: ignore[assignment,misc]

__all__ = ["BrokerBatchReader", "BrokerStreamReader", "BrokerStreamReader41"]
