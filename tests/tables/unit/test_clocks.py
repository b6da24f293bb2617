"""Clocks that are set back: other engines still load the table."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any

import pytest

from pyrmq.tables.compact import compact
from pyrmq.tables.expire import expire
from tests.tables.making import Log, World, check_same, write

DAY = 24 * 3600


def times(table: Any) -> list[list[int]]:
    """What Iceberg's Java library wants in order when it loads a table."""
    metadata = table.metadata
    snapshots = [one.timestamp_ms for one in metadata.snapshot_log]
    files = [one.timestamp_ms for one in metadata.metadata_log]
    return [[*snapshots, metadata.last_updated_ms], [*files, metadata.last_updated_ms]]


def check_in_order(world: World) -> None:
    for found in times(world.table()):
        assert all(later >= earlier for earlier, later in pairwise(found)), found


def test_clocks_that_are_set_back(world: World, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    real = time.time
    with monkeypatch.context() as patched:
        patched.setattr(time, "time", lambda: real() + DAY)
        write(world, log)
        log.put(6)
        write(world, log)
    first = world.table().current_snapshot().snapshot_id
    log.put(6)
    write(world, log)
    check_in_order(world)
    compact(world.table(), files=2)
    check_in_order(world)
    with world.table().transaction() as transaction:
        transaction.set_properties({"some": "change"})
    check_in_order(world)
    world.table().manage_snapshots().set_current_snapshot(first).commit()
    check_in_order(world)
    expire(world.table(), age=0, keep=1)
    write(world, log)
    check_in_order(world)
    check_same(world, log)
