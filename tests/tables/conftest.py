from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.fixtures import deadline, embedded, process, serve
from tests.tables.making import Log, World

__all__ = ["deadline", "embedded", "process", "serve"]


@pytest.fixture
def world(tmp_path: Path) -> World:
    """An empty catalog."""
    return World(tmp_path)


@pytest.fixture
def log(world: World) -> Log:
    """A log with messages in three queues."""
    log = world.log()
    log.put(60)
    return log
