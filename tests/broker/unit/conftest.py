"""A store of the test's own, and a configuration for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pyrmq.broker.config.broker_config import BrokerConfig
from pyrmq.engine import Store
from tests.support.build import open_store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(tmp_path / "store")
    yield opened
    opened.close()


@pytest.fixture
def config(tmp_path: Path) -> BrokerConfig:
    return BrokerConfig(
        broker_name="broker-a", namesrv_addr="", store_path_root_dir=tmp_path / "store"
    )
