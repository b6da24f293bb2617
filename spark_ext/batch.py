"""The batch read of segments.

What is read is fixed when Spark plans: the end of each log is part of the splits, so all actions
on one loaded frame see the same rows, however the store grows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from spark_ext import selecting
from spark_ext.option_names import option_names
from spark_ext.partition import SegmentPartition, read
from spark_ext.schema import as_given
from spark_ext.worker import VersionCheckedPickle

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql.types import StructType

    from spark_ext.options import Options


class SegmentBatchReader(VersionCheckedPickle, DataSourceReader):
    """Made on the driver for each planned query; `read` runs in a worker on a pickled copy."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._how = selecting.read_options(options, schema)
        self._selection = selecting.selection(options)

    @option_names()
    def partitions(self) -> list[InputPartition]:
        """One per split. Raises PyrmqError for what cannot be read as asked."""
        from spark_ext import splits

        found = splits.of_batch(self._options, self._selection, self._how)
        return [SegmentPartition(split) for split in found]

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        return as_given(read(partition), self._schema)
