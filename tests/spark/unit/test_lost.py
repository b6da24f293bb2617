"""What a stream lost, as the driver counts it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from spark_ext.backlog import Lost


def position(**log: int) -> dict[str, Any]:
    return {"log": log, "version": 1}


def split(broker: str, start: int, end: int) -> Any:
    return SimpleNamespace(broker=broker, start=start, end=end)


def lost(lost: Lost) -> int:
    count = lost.report()["lostBytes"]
    assert isinstance(count, int)
    return count


@pytest.mark.parametrize(
    ("splits", "wanted"),
    [
        ([split("a", 100, 300), split("b", 0, 50)], 0),
        ([split("a", 250, 300), split("b", 0, 50)], 150),
        ([split("a", 100, 300)], 50),
        ([], 250),
        # A topic that was added is read from in front of the start, too.
        ([split("a", 0, 100), split("a", 100, 300), split("b", 0, 50)], 0),
        ([split("a", 0, 100), split("a", 250, 300), split("b", 0, 50)], 150),
    ],
)
def test_what_no_task_reads_is_lost(splits: list[Any], wanted: int) -> None:
    counted = Lost()
    counted.count(position(a=100, b=0), position(a=300, b=50), splits)
    assert lost(counted) == wanted


def test_a_micro_batch_counts_once_and_all_add_up() -> None:
    counted = Lost()
    for _ in range(2):
        counted.count(position(a=0), position(a=100), [split("a", 40, 100)])
    counted.count(position(a=100), position(a=200), [split("a", 130, 200)])
    assert lost(counted) == 70


def test_a_broker_that_was_added_begins_where_its_log_does() -> None:
    counted = Lost()
    splits = [split("a", 0, 100), split("b", 5000, 6000)]
    counted.count(position(a=0), position(a=100, b=6000), splits)
    assert lost(counted) == 0
