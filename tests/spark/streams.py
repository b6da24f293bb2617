"""A streaming query of a store, for tests of either reader."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery


class Query:
    """One streaming query in the making: `run` starts it, reads what is there, and stops it."""

    def __init__(
        self, spark: SparkSession, store: Path, checkpoint: Path, reader: str = "rocketmq"
    ) -> None:
        self.spark, self.store, self.checkpoint, self.reader = spark, store, checkpoint, reader
        self.batches: list[list[int]] = []
        """The physical offsets of the rows of each micro-batch that had any."""
        self.last: StreamingQuery | None = None

    def frame(self, **options: str) -> DataFrame:
        stream = self.spark.readStream.format(self.reader).option("startingOffsets", "earliest")
        return stream.options(**options).load(str(self.store))

    def run(self, **options: str) -> list[int]:
        """With Trigger.AvailableNow; returns what this run read, in no order."""
        seen = len(self.batches)

        def take(batch: DataFrame, _: int) -> None:
            rows = [row[0] for row in batch.select("commitLogOffset").collect()]
            if rows:
                self.batches.append(rows)

        query = (
            self.frame(**options)
            .writeStream.foreachBatch(take)
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        self.last = query
        query.awaitTermination()
        return sorted(place for rows in self.batches[seen:] for place in rows)

    def position_text(self) -> str:
        """What the newest file of the checkpoint holds of our source, as it stands there."""
        newest = max((self.checkpoint / "offsets").glob("[0-9]*"), key=lambda p: int(p.name))
        return newest.read_text().splitlines()[2]

    def position(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.position_text())
        return found

    def written(self) -> int:
        """How many micro-batches the checkpoint has."""
        return len(list((self.checkpoint / "offsets").glob("[0-9]*")))
