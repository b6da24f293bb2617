"""What Spark asks of a source that reads files: a batch, a stream, and their partitions.

A batch is fixed when Spark plans: the end of each log is part of the splits, so all actions on one
loaded frame see the same rows, however the store grows. A position of a stream is the physical
offset behind what was read, per broker (the dict is that of `pyrmq.segments.stream`). Spark keeps
one process per query on the driver, in which one reader lives: only there state between calls is
kept. `read` runs in workers on a pickled copy, and a further reader is made for that, so making one
must not read the store.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition

from spark_ext import selecting
from spark_ext.backlog import Lost
from spark_ext.option_names import option_names
from spark_ext.progress import Progress
from spark_ext.schema import as_given
from spark_ext.worker import VersionCheckedPickle, prepare

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql.types import StructType

    from pyrmq.segments.split import Split
    from pyrmq.segments.stream import StreamPlanner
    from spark_ext.options import Options


class SegmentPartition(VersionCheckedPickle, InputPartition):
    """`value` is the Split."""

    def __init__(self, split: Split) -> None:
        super().__init__(split)


def read(partition: InputPartition | None) -> Iterator[RecordBatch]:
    """The batches of a partition, each with exactly the schema of the query.

    Spark makes one partition without a value (None, or with the value None) of an empty plan.
    Errors come as they are: those of a split name broker, topics, file and physical offset, and
    Spark shows their text to the user.
    """
    prepare()
    split: Split | None = None if partition is None else partition.value
    return iter(()) if split is None else _read(split)


def _read(split: Split) -> Iterator[RecordBatch]:
    with option_names():
        yield from split.read()


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
        self._lost = Lost()

    @option_names()
    def initialOffset(self) -> Position:
        return self._planner.initial()

    @option_names()
    def partitions(self, start: Position, end: Position) -> list[InputPartition]:
        splits = self._planner.splits(start, end)
        self._lost.count(start, end, splits)
        if self._options["maxRecordsPerPartition"] is not None:
            from pyrmq.segments.split import at_most

            splits = at_most(splits, self._options["maxRecordsPerPartition"])
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
