"""Damage as a planned read meets it: reported once with broker, file and place, or skipped."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import pytest

from pyrmq.errors import PyrmqError, StoreDamagedError

from .logs import Log, filled, record
from .planned import read
from .rows import assert_same, rows_of_all
from .test_damage import flip

MAGIC_AT = 5


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return filled(tmp_path / "broker-x" / "commitlog", 200, file_size=4096)


@pytest.mark.parametrize("number", [0, 1, 17, 18, 100, 198])
@pytest.mark.parametrize("split_bytes", [1024, 4096, 1 << 28])
@pytest.mark.parametrize("mode", ["scan", "file"])
def test_a_damaged_record(
    log: Log, number: int, split_bytes: int, mode: str, caplog: pytest.LogCaptureFixture
):
    victim = log.records[number]
    flip(log, victim.physical_offset + MAGIC_AT)
    options = {"split_bytes": split_bytes, "mode": mode}
    with pytest.raises(StoreDamagedError) as told:
        read([log.folder.parent], **options)
    text = str(told.value)
    assert log.path_of(victim.physical_offset).name in text
    assert str(victim.physical_offset) in text
    assert "broker-x" in text
    kept = rows_of_all([r for r in log.records if r is not victim], "broker-x")
    with caplog.at_level(logging.WARNING, "pyrmq.segments"):
        caplog.clear()
        found = read([log.folder.parent], how={"on_corruption": "skip"}, **options)
    assert_same(found, kept, f"record {number}")
    warnings = [r for r in caplog.records if str(victim.physical_offset) in r.getMessage()]
    assert len(warnings) == 1, [r.getMessage() for r in caplog.records]


def test_a_damaged_last_record_is_a_torn_tail(log: Log):
    flip(log, log.records[-1].physical_offset + MAGIC_AT)
    found = read([log.folder.parent])
    assert_same(found, rows_of_all(log.records[:-1], "broker-x"), "torn tail")


def test_files_that_are_no_segments_of_this_log(log: Log):
    """A file of another log under a right name: every record in it says another place."""
    other = filled(log.folder.parents[1] / "other", 200, file_size=4096, base=4096 * 100)
    first, second = sorted(log.folder.iterdir())[3:5]
    shutil.copy(sorted(other.folder.iterdir())[3], first)
    with pytest.raises(PyrmqError, match=first.name):
        read([log.folder.parent])
    lost = range(int(first.name), int(second.name))
    kept = [r for r in log.records if r.physical_offset not in lost]
    found = read([log.folder.parent], how={"on_corruption": "skip"})
    assert_same(found, rows_of_all(kept, "broker-x"), "skipping a foreign file")


def test_foreign_files_in_the_folder(log: Log):
    for name in ("README", "00000000000000004096.tmp", "lost+found", "0000", ".hidden"):
        (log.folder / name).write_bytes(b"not a segment")
    (log.folder / "00000000000099999744").mkdir()
    found = read([log.folder.parent])
    assert_same(found, rows_of_all(log.records, "broker-x"), "foreign files")


def test_an_unreadable_index(log: Log):
    """Queues and index that are damaged mislead no plan."""
    store = log.folder.parent
    for folder in ("consumequeue/T1/0", "index"):
        (store / folder).mkdir(parents=True)
    (store / "consumequeue/T1/0/00000000000000000000").write_bytes(b"\x7f" * 4000)
    (store / "index/20260101000000000").write_bytes(b"\x7f" * 4000)
    expected = rows_of_all([r for r in log.records if r.topic == "T1"], "broker-x")
    assert_same(read([store], topics=("T1",)), expected, "auto")
    key = [row for row in expected if row["keys"] == "key-33 shared"]
    assert len(key) == 1
    assert_same(read([store], topics=("T1",), key="key-33"), key, "auto, key")


def test_a_log_that_ends_in_a_new_file(log: Log):
    """The next file is made ahead, empty or preallocated."""
    expected = rows_of_all(log.records, "broker-x")
    following = log.folder / f"{int(max(p.name for p in log.folder.iterdir())) + 4096:020d}"
    following.write_bytes(b"")
    assert_same(read([log.folder.parent]), expected, "an empty file")
    following.write_bytes(bytes(4096))
    assert_same(read([log.folder.parent]), expected, "a preallocated file")
    log.append(record(200))
    assert_same(read([log.folder.parent]), rows_of_all(log.records, "broker-x"), "one more")
