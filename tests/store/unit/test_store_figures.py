"""Figures of a store: what opening it has read."""

from __future__ import annotations

from pathlib import Path

from pyrmq.engine import TIME_BOUNDS_US
from tests.support.build import open_store


def test_opening_tells_what_it_has_read(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    empty = store.figures()
    assert (empty["recoveredRecords"], empty["recoveredBytes"]) == (0, 0)
    for n in range(5):
        store.put("T", 0, b"%d" % n)
    end = store.stats()["maxPhyOffset"]
    row = store.figures()["putLatency"]
    assert isinstance(row, list)
    assert row[0] == sum(row[3:]) == 5
    assert len(row) == 3 + len(TIME_BOUNDS_US) + 1
    store.close()
    again = open_store(tmp_path)
    figures = again.figures()
    assert (figures["recoveredRecords"], figures["recoveredBytes"]) == (5, end)
    assert isinstance(figures["recoveryUs"], int)
    assert figures["recoveryUs"] > 0
    row = figures["putLatency"]
    assert isinstance(row, list)
    assert row[0] == 0, "since it was opened"
    again.close()
