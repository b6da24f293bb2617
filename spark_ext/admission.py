"""Limits of micro-batches and Trigger.AvailableNow; needs PySpark 4.2 or later."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from pyrmq.errors import ConfigError, SegmentError
from spark_ext.backlog import of_segments, with_backlog
from spark_ext.option_names import option_names
from spark_ext.pace import Pace
from spark_ext.readers import Position, SegmentStreamReader

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from spark_ext.options import Options


class LimitedStreamReader(SegmentStreamReader, SupportsTriggerAvailableNow):
    """Spark knows one limit per source: the others are kept in `latestOffset`.

    ReadAllAvailable (Trigger.Once, and where no limit is set) means no limit at all.
    """

    def __init__(self, options: Options, schema: StructType) -> None:
        super().__init__(options, schema)
        self._pace = Pace.of(options)

    def getDefaultReadLimit(self) -> ReadLimit:
        rows = self._options["maxOffsetsPerTrigger"]
        if rows is not None:
            return ReadMaxRows(rows)
        return ReadMaxBytes(self._options["maxBytesPerTrigger"])

    @option_names()
    def latestOffset(self, start: Position, limit: ReadLimit) -> Position:
        rows: int | None = None
        size: int | None = None
        if isinstance(limit, ReadMaxRows):
            rows, size = limit.max_rows, self._options["maxBytesPerTrigger"]
        elif isinstance(limit, ReadMaxBytes):
            rows, size = self._options["maxOffsetsPerTrigger"], limit.max_bytes
        elif not isinstance(limit, ReadAllAvailable):
            raise ConfigError(f"Spark asks for the limit {limit!r}, which this source cannot keep")
        if not isinstance(limit, ReadAllAvailable) and self._pace.holds(
            lambda wanted: self._planner.count(start, wanted)
        ):
            return start
        return self._planner.latest(start, max_offsets=rows, max_bytes=size)

    @option_names()
    def reportLatestOffset(self) -> Position:
        end = self._planner.end()
        try:
            behind = of_segments(self._planner.behind())
        except (SegmentError, OSError, IndexError):  # files of queues are deleted meanwhile
            behind = {}
        return with_backlog(end, behind | self._lost.report())

    @option_names()
    def prepareForTriggerAvailableNow(self) -> None:
        self._pace.pin()
        self._planner.pin()
