"""The stream through brokers with a limit and Trigger.AvailableNow; needs PySpark 4.2 or later."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from pyrmq.errors import ConfigError
from spark_ext.backlog import of_queues, with_backlog
from spark_ext.broker.stream import StreamReader
from spark_ext.pace import Pace

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from spark_ext.broker.ranges import Position
    from spark_ext.options import Options


class BrokerStreamReader(StreamReader, SupportsTriggerAvailableNow):
    """A limit in bytes cannot be kept: brokers report offsets, and no sizes."""

    def __init__(self, options: Options, schema: StructType) -> None:
        super().__init__(options, schema)
        self._pace = Pace.of(options)

    def getDefaultReadLimit(self) -> ReadLimit:
        rows = self._options["maxOffsetsPerTrigger"]
        if rows is not None:
            return ReadMaxRows(rows)
        # Trigger.Once asks for all that is available, so that must not be the default here.
        return ReadAllAvailable() if self._pace.least is None else ReadMinRows(self._pace.least)

    def latestOffset(self, start: Position, limit: ReadLimit) -> Position:
        if isinstance(limit, (ReadMaxRows, ReadMinRows)) and self._pace.holds(
            lambda wanted: self._planner.count(start)
        ):
            return start
        if isinstance(limit, ReadMinRows):
            return self._planner.latest(start)
        if isinstance(limit, ReadMaxRows):
            return self._planner.latest(start, limit.max_rows)
        if isinstance(limit, ReadAllAvailable):
            return self._planner.latest(start)
        raise ConfigError(f"Spark asks for the limit {limit!r}, which this source cannot keep")

    def reportLatestOffset(self) -> Position:
        end, behind = self._planner.end_and_behind()
        return with_backlog(end, of_queues(behind))

    def prepareForTriggerAvailableNow(self) -> None:
        self._pace.pin()
        self._planner.pin()
