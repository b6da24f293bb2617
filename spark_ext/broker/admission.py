"""The stream through brokers with a limit and Trigger.AvailableNow; needs PySpark 4.2 or later."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from pyrmq.errors import ConfigError
from spark_ext.broker.stream import StreamReader

if TYPE_CHECKING:
    from spark_ext.broker.ranges import Position


class BrokerStreamReader(StreamReader, SupportsTriggerAvailableNow):
    """A limit in bytes cannot be kept: brokers report offsets, and no sizes."""

    def getDefaultReadLimit(self) -> ReadLimit:
        rows = self._options["maxOffsetsPerTrigger"]
        return ReadAllAvailable() if rows is None else ReadMaxRows(rows)

    def latestOffset(self, start: Position, limit: ReadLimit) -> Position:
        if isinstance(limit, ReadMaxRows):
            return self._planner.latest(start, limit.max_rows)
        if isinstance(limit, ReadAllAvailable):
            return self._planner.latest(start)
        raise ConfigError(f"Spark asks for the limit {limit!r}, which this source cannot keep")

    def reportLatestOffset(self) -> Position:
        return self._planner.end()

    def prepareForTriggerAvailableNow(self) -> None:
        self._planner.pin()
