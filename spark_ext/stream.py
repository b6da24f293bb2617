"""The streaming read of segments.

A position is the physical offset behind what was read, per broker (the dict is
that of `pyrmq.segments.stream`). Spark keeps one process per query on the driver, in which one
reader lives: only there state between calls is kept. `read` runs in workers on a pickled copy, and
a further reader is made for that, so making one must not read the store.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from spark_ext import selecting
from spark_ext.option_names import option_names
from spark_ext.partition import SegmentPartition, read
from spark_ext.progress import Progress
from spark_ext.schema import as_given
from spark_ext.worker import VersionCheckedPickle

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql.types import StructType

    from pyrmq.segments.stream import StreamPlanner
    from spark_ext.options import Options

Position = dict[str, Any]


class SegmentStreamReader(VersionCheckedPickle, DataSourceStreamReader):
    """What all versions of Spark have; subclasses find the end of a micro-batch."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._how = selecting.read_options(options, schema)
        self._selection = selecting.selection(options)
        self._planner_made: StreamPlanner | None = None
        self._progress = Progress()

    @option_names()
    def initialOffset(self) -> Position:
        return self._planner.initial()

    @option_names()
    def partitions(self, start: Position, end: Position) -> list[InputPartition]:
        splits = self._planner.splits(start, end)
        if self._options["maxRecordsPerPartition"] is not None:
            from pyrmq.segments import cut

            splits = cut.at_most(splits, self._options["maxRecordsPerPartition"])
        return [SegmentPartition(split) for split in splits]

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        return as_given(read(partition), self._schema)

    def commit(self, end: Position) -> None:
        """Spark has processed all before `end`; for files there is only the position to log."""
        self._progress.committed(end, self._planner)

    def stop(self) -> None:
        self._progress.stopped()

    @property
    def _planner(self) -> StreamPlanner:
        if self._planner_made is None:
            self._planner_made = selecting.planner(self._options, self._selection, self._how)
        return self._planner_made


class SegmentStreamReader41(SegmentStreamReader):
    """For PySpark 4.1, which asks for the end without saying where it starts."""

    def __init__(self, options: Options, schema: StructType) -> None:
        super().__init__(options, schema)
        options.needs_pyspark((4, 1))

    @option_names()
    def latestOffset(self) -> Position:  # type: ignore[override]
        return self._planner.latest(None)
