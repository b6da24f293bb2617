"""Frames made by hand, with the columns of the source."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def at(ms: int) -> datetime:
    """A time by its milliseconds since 1970."""
    return datetime.fromtimestamp(ms / 1000, UTC)


Frame = Callable[..., "DataFrame"]


@pytest.fixture
def frame(spark: SparkSession) -> Frame:
    """Makes a frame of the source's columns: `frame("topic queueId", ("A", 0), ...)`."""
    from spark_ext.jobs.source import schema_of

    def make(columns: str, *rows: tuple[Any, ...]) -> DataFrame:
        return spark.createDataFrame(list(rows), schema_of(columns.split()))

    return make
