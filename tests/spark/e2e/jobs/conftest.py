"""Tables made by hand, with the columns of the source, on both engines."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from spark_ext.jobs.engine import Engine, SparkEngine, Table, schema_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def at(ms: int) -> datetime:
    """A time by its milliseconds since 1970."""
    return datetime.fromtimestamp(ms / 1000, UTC)


Frame = Callable[..., Table]


SPARK = pytest.mark.thorough("test_engines.py has each job on both engines, once")


@pytest.fixture(params=["local", pytest.param("spark", marks=SPARK)])
def engine(request: pytest.FixtureRequest) -> Engine:
    """Each of the two; what a test finds with one it finds with the other."""
    if request.param == "spark":
        return SparkEngine(request.getfixturevalue("spark"))
    from spark_ext.jobs.local import LocalEngine

    return LocalEngine()


@pytest.fixture
def frame(engine: Engine) -> Frame:
    """Makes a table of the source's columns: `frame("topic queueId", ("A", 0), ...)`."""

    def make(columns: str, *rows: tuple[Any, ...]) -> Table:
        return engine.values(rows, schema_of(columns.split()))

    return make


@pytest.fixture
def spark_frame(spark: SparkSession) -> Frame:
    """The same by Spark alone, for jobs that nothing else runs."""

    def make(columns: str, *rows: tuple[Any, ...]) -> Table:
        return SparkEngine(spark).values(rows, schema_of(columns.split()))

    return make
