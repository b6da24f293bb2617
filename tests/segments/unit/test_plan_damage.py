"""Batch reads of logs that lack files, or have damaged records."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from pyrmq.errors import (
    DataLossError,
    SegmentError,
    StoreDamagedError,
)
from pyrmq.segments.plan import plan
from pyrmq.segments.read_options import ReadOptions
from pyrmq.segments.selection import Selection
from pyrmq.segments.store import open_stores
from tests.segments.making import BROKER, ROW, Made, read
from tests.segments.planning import HOW, copied, planned
from tests.store.tools import LOG_FILE, log_file, overwrite


def test_deleted_head(made: Made, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The first segments are gone; queues still have entries for them."""
    root = copied(made, tmp_path)
    for base in (0, LOG_FILE):
        log_file(root, base).unlink()
    left = [row for row in made.of("A", "B", "C") if row[3] >= 2 * LOG_FILE]
    assert read(planned(root)) == left
    offsets = {"A": {BROKER: {0: 3}}}
    with pytest.raises(DataLossError, match=r"offset 3 of topic A.*fail_on_data_loss=False"):
        planned(root, starting_offsets=offsets)
    with caplog.at_level(logging.WARNING, "pyrmq.segments"):
        splits = planned(root, starting_offsets=offsets, fail_on_data_loss=False)
    assert "continuing with the earliest" in caplog.text
    assert read(splits) == left
    c_left = [row for row in left if row[0] == "C"]
    assert read(planned(root, topics=("C",), mode="index")) == c_left


def test_a_hole_between_segments(made: Made, tmp_path: Path) -> None:
    root = copied(made, tmp_path)
    log_file(root, 2 * LOG_FILE).unlink()
    with pytest.raises(DataLossError, match=f"bytes {2 * LOG_FILE} to {3 * LOG_FILE} of the log"):
        planned(root)
    left = [row for row in made.of("A", "B", "C") if row[3] // LOG_FILE != 2]
    assert read(planned(root, fail_on_data_loss=False)) == left
    assert read(planned(root, fail_on_data_loss=False, split_bytes=9_000)) == left
    with pytest.raises(SegmentError, match="the log has holes"):
        planned(root, topics=("C",), fail_on_data_loss=False, mode="index")


def test_offsets_of_a_log_alone_with_a_hole(made: Made, tmp_path: Path) -> None:
    root = copied(made, tmp_path)
    log_file(root, 2 * LOG_FILE).unlink()
    offsets = {"A": {BROKER: {0: 5, 1: 300}}}
    stores = open_stores([str(root / "commitlog")], [BROKER])
    chosen = Selection(topics=("A",), starting_offsets=offsets)
    with pytest.raises(DataLossError, match="of the log of broker"):
        plan(stores, chosen, HOW)
    left = [
        row
        for row in made.of("A")
        if row[3] // LOG_FILE != 2 and row[2] >= {0: 5, 1: 300}.get(row[1], 0)
    ]
    assert read(plan(stores, chosen, HOW, fail_on_data_loss=False)) == left


def test_a_segment_cut_behind_its_last_record_is_whole(made: Made, tmp_path: Path) -> None:
    """Filled segments that were shipped without the room behind their blank record."""
    root = copied(made, tmp_path)
    path = log_file(root, LOG_FILE)
    rows = [row for row in made.rows if row[3] // LOG_FILE == 1]
    raw = path.read_bytes()
    last = rows[-1][3] - LOG_FILE
    end = last + int.from_bytes(raw[last : last + 4], "big")
    path.write_bytes(raw[: end + 8])
    assert read(planned(root)) == made.of("A", "B", "C")
    path.write_bytes(raw[: end - 1])
    with pytest.raises(DataLossError):
        planned(root)
    left = [row for row in made.of("A", "B", "C") if row != rows[-1]]
    assert read(planned(root, fail_on_data_loss=False)) == left


def test_torn_tail_is_not_read(made: Made, tmp_path: Path) -> None:
    root = copied(made, tmp_path)
    last = made.rows[-1][3]
    path = log_file(root, last // LOG_FILE * LOG_FILE)
    overwrite(path, last % LOG_FILE + 100, b"\xff" * 20)
    expected = [row for row in made.of("A", "B", "C") if row[3] != last]
    assert read(planned(root)) == expected


def test_damage_is_an_error_with_its_place_or_skipped(
    made: Made, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root = copied(made, tmp_path)
    bad = made.of("A")[100]
    path = log_file(root, bad[3] // LOG_FILE * LOG_FILE)
    overwrite(path, bad[3] % LOG_FILE, b"\xee" * 30)
    with pytest.raises(StoreDamagedError) as caught:
        read(planned(root))
    told = str(caught.value)
    assert f"broker {BROKER}" in told
    assert str(path) in told
    assert str(bad[3]) in told
    skipping = ReadOptions(columns=tuple(ROW), on_corruption="skip")
    with caplog.at_level(logging.WARNING, "pyrmq.segments"):
        found = read(planned(root, skipping, split_bytes=20_000))
    assert found == [row for row in made.of("A", "B", "C") if row != bad]
    told = [r.getMessage() for r in caplog.records if "damaged parts" in r.getMessage()]
    assert len(told) == 1
    assert str(path) in told[0]


def test_a_file_that_goes_while_it_is_read(
    made: Made, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root = copied(made, tmp_path)
    splits, lenient = planned(root), planned(root, fail_on_data_loss=False)
    log_file(root, LOG_FILE).unlink()
    with pytest.raises(DataLossError, match=f"{LOG_FILE:020d} was deleted before it was read"):
        read(splits)
    left = [row for row in made.of("A", "B", "C") if row[3] // LOG_FILE != 1]
    assert read(lenient) == left
    assert "was deleted before it was read" in caplog.text
