"""Here Spark has the jar: `rocketmq` is the reader in the JVM, `pyrmq` the one in Python."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark import small_store
from tests.spark.small_store import Sent

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COUNT = 1200
"""Messages in the first of the stores."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "reader" in metafunc.fixturenames:
        metafunc.parametrize("reader", ["jvm"], indirect=True, scope="session")


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Where two stores are, once `sent` has written them."""
    folder = tmp_path_factory.mktemp("stores")
    return folder / "broker-a", folder / "broker-b"


@pytest.fixture(scope="module")
def sent(stores: tuple[Path, Path]) -> list[Sent]:
    """What the first store holds. The second has some messages as well."""
    first = small_store.write(stores[0], COUNT)
    small_store.write(stores[1], 60)
    return first


@pytest.fixture
def frame(spark: SparkSession, stores: tuple[Path, Path], sent: list[Sent]) -> DataFrame:
    """The first store, read in several tasks."""
    return spark.read.format("rocketmq").option("splitBytes", "64k").load(str(stores[0]))
