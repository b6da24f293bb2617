"""The streaming read of segments.

A position is the physical offset behind what was read, per broker (the dict is
that of `pyrmq.segments.stream`). Spark keeps one process per query on the driver, in which one
reader lives: only there state between calls is kept. `read` runs in workers on a pickled copy, and
a further reader is made for that, so making one must not look at the store.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from pyrmq.errors import ConfigError
from spark_ext import selecting
from spark_ext.partition import SegmentPartition, read
from spark_ext.progress import Progress
from spark_ext.worker import ADMISSION, Shipped

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql.types import StructType

    from pyrmq.segments.stream import StreamPlanner
    from spark_ext.options import Options

Position = dict[str, Any]

_LIMITS = ("maxOffsetsPerTrigger", "maxBytesPerTrigger")


class SegmentStreamReader(Shipped, DataSourceStreamReader):
    """What all versions of Spark have; the end of a micro-batch is told by the subclasses."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._how = selecting.read_options(options, schema)
        self._selection = selecting.selection(options)
        self._planner_made: StreamPlanner | None = None
        self._progress = Progress()

    def initialOffset(self) -> Position:
        return self._planner.initial()

    def partitions(self, start: Position, end: Position) -> list[InputPartition]:
        return [SegmentPartition(split) for split in self._planner.splits(start, end)]

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        return read(partition)

    def commit(self, end: Position) -> None:
        """Spark has done with all in front of `end`; nothing to do for files but to tell."""
        self._progress.committed(end, self._planner)

    def stop(self) -> None:
        self._progress.stopped()

    @property
    def _planner(self) -> StreamPlanner:
        if self._planner_made is None:
            from pyrmq.segments.stream import StreamPlanner

            given = self._options
            self._planner_made = StreamPlanner(
                selecting.paths(given),
                self._selection,
                self._how,
                broker_names=selecting.broker_names(given),
                storage_options=given["storageOptions"],
                split_bytes=given["splitBytes"],
                min_partitions=given["minPartitions"],
                mode=given["plan"],
                fail_on_data_loss=given["failOnDataLoss"],
            )
        return self._planner_made


class SegmentStreamReader41(SegmentStreamReader):
    """For PySpark 4.1, which asks for the end without saying where it starts."""

    def __init__(self, options: Options, schema: StructType) -> None:
        super().__init__(options, schema)
        for name in _LIMITS:
            if options.is_set(name):
                raise ConfigError(
                    f"option {name} needs PySpark 4.2 or later: this one does not tell a source "
                    "where a micro-batch starts; leave it out, or use a newer PySpark"
                )

    def latestOffset(self) -> Position:  # type: ignore[override]
        return self._planner.latest(None)


def stream_reader(options: Options, schema: StructType) -> SegmentStreamReader:
    """The reader for the PySpark that runs this."""
    if not ADMISSION:
        return SegmentStreamReader41(options, schema)
    from spark_ext.admission import LimitedStreamReader

    return LimitedStreamReader(options, schema)
