"""`pyrmq.table` of tables as the jobs write, compact and expire them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pyrmq.tables.compact import compact
from pyrmq.tables.errors import TableError
from pyrmq.tables.expire import expire
from pyrmq.tables.history import TableScan, table
from tests.segments.making import as_rows
from tests.tables import dead
from tests.tables.making import COLUMNS, TABLE, Log, World, check_rows, check_same, write


def scan(world: World, *logs: Log, **more: Any) -> TableScan:
    return table(TABLE, [log.root for log in logs], catalog=world.catalog, **more)


def check(world: World, *logs: Log) -> None:
    """Each message of the logs is there once."""
    found = scan(world, *logs, columns=COLUMNS).to_arrow()
    check_rows(as_rows(found, COLUMNS), *logs)


@pytest.mark.parametrize("partition", [("day",), ("day", "queue"), ()])
def test_what_was_written_compacted_and_expired(
    world: World, log: Log, partition: tuple[str, ...]
) -> None:
    other = world.log("broker-b")
    other.put(20)
    for count in (30, 7, 1):
        write(world, log, other, partition=partition)
        log.put(count)
        other.put(2 * count)
        check(world, log, other)
    before = scan(world, log, other)
    compact(world.table(), files=2)
    check(world, log, other)
    assert before.to_arrow().num_rows == len(log.rows) + len(other.rows)
    expire(world.table(), age=0, keep=1)
    check(world, log, other)
    write(world, log, other)
    check_same(world, log, other)
    check(world, log, other)


def test_days_are_left_out_by_their_partition(world: World, log: Log) -> None:
    write(world, log)
    log.put(9)
    assert not [p for p in scan(world, log, end_time=86_400_000).parts if hasattr(p, "path")]
    assert scan(world, log, end_time=86_400_000).to_arrow().num_rows == 0
    assert scan(world, log, start_time=86_400_000).to_arrow().num_rows == len(log.rows)


def test_a_table_with_a_dead_letter_table(world: World) -> None:
    """A body that does not fit is in neither: the table has it in its dead-letter table."""
    first, second = dead.bodies(0, 30), dead.bodies(30, 12)
    dead.fill(world, first)
    dead.write(world)
    dead.fill(world, second)
    log = world.log()
    fits = [json.loads(body)["id"] for body in first + second if body.startswith(b'{"id"')]
    with pytest.raises(TableError, match="does not fit its schema"):
        scan(world, log).to_arrow()
    for _ in range(2):
        found = scan(world, log, on_error="skip").to_arrow()
        assert sorted(value["id"] for value in found.column("value").to_pylist()) == fits
        assert scan(world, log, on_error="skip", columns=["tags"]).to_arrow().num_rows == len(fits)
        dead.write(world)  # then all of it is in the table


def test_a_table_whose_schema_of_bodies_grew(world: World) -> None:
    dead.fill(world, dead.bodies(0, 30))
    dead.write(world)
    dead.fill(world, [b'{"x":"new"}', b'{"id":7,"x":"both"}'])
    dead.write(world, dead.LATER)
    dead.fill(world, [b'{"x":"tail"}'])
    values = scan(world, world.log()).to_arrow().column("value").to_pylist()
    assert [value["x"] for value in values if value["x"] is not None] == ["new", "both", "tail"]
    assert len(values) == 24 + 3
