from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.segments.making import Made, make
from tests.store.tools import GOLDEN, unpack
from tests.support.scratch import in_memory

__all__ = ["in_memory"]


@pytest.fixture(scope="session")
def golden(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A store of RocketMQ's own broker, and what is in it."""
    folder = unpack(GOLDEN, tmp_path_factory.mktemp("golden"))
    return folder / "store", json.loads((folder / "expected.json").read_text())


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A store that no test may change."""
    return make(tmp_path_factory.mktemp("made") / "broker-a")


@pytest.fixture(scope="session")
def formats(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Stores of RocketMQ's own broker with every file format; tests/store/data says what is in."""
    archive = GOLDEN.with_name("formats-5.3.3.tar.gz")
    return unpack(archive, tmp_path_factory.mktemp("formats"))
