"""Times that no calendar has: clients choose the born time, and a store may have any store time."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from pyrmq.tables.compact import compact
from tests.segments.making import small
from tests.tables.making import TOPIC, Log, World, check_same, rows_of, write
from tests.tables.unit import test_delta as delta

STORE_TIME = 56
"""Where a record has its store time."""
ODD = [1 << 62, -(1 << 62), 300_000_000_000_000, -1]


def put(log: Log, born: int) -> None:
    with small(log.root) as store:
        offset = sum(1 for row in log.rows if row[1] == 0)
        store.put(TOPIC, 0, b"odd", "", born_timestamp=born)
        log.rows.append((log.broker, 0, offset, b"odd"))


@pytest.mark.parametrize("born", ODD)
def test_born_times_of_clients(world: World, log: Log, born: int) -> None:
    put(log, born)
    assert write(world, log).rows == 61
    log.put(3)
    put(log, born)
    assert write(world, log).rows == 4
    assert compact(world.table(), files=2).removed == 2
    check_same(world, log)


@pytest.mark.parametrize("born", ODD)
def test_born_times_of_clients_in_delta(world: World, log: Log, born: int) -> None:
    put(log, born)
    assert delta.write(world, log).rows == 61
    delta.check_same(world, log)


@pytest.mark.parametrize("partition", ["day", "hour"])
@pytest.mark.parametrize("time", ODD)
def test_store_times(world: World, time: int, partition: str) -> None:
    log = world.log()
    with small(log.root) as store:
        place = store.put(TOPIC, 0, b"odd", "")[0]
        log.rows.append((log.broker, 0, 0, b"odd"))
    first = next(Path(log.root / "commitlog").iterdir())
    with first.open("r+b") as file:
        file.seek(place + STORE_TIME)
        file.write(struct.pack(">q", time))
    assert write(world, log, partition=(partition,)).rows == 1
    assert world.ends().queue(log.broker, 0) is not None
    log.put(3)  # the message with this time is looked at again
    before = len(rows_of(world))
    assert write(world, log).rows == len(log.rows) - before
