"""Small files become few; rows, order and ends stay, whatever others do meanwhile."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO

from pyrmq.tables import compact as module
from pyrmq.tables import leftovers, names
from pyrmq.tables.compact import compact
from pyrmq.tables.ends import ends_of
from pyrmq.tables.errors import TableConflictError, TableError
from pyrmq.tables.expire import expire
from pyrmq.tables.merge import KEYS
from pyrmq.tables.replace import Replacement
from tests.tables.dying import Killed, die_at
from tests.tables.small_tables import (
    add,
    add_runs,
    catalog_in,
    content,
    files_in,
    loaded,
    new_table,
    paths,
    rows,
)


@pytest.fixture
def table(tmp_path: Path) -> Any:
    """Four runs of ten offsets in two queues of two brokers; two days."""
    made = new_table(catalog_in(tmp_path))
    for run in range(4):
        add(made, rows(range(10 * run, 10 * run + 10), brokers=("a", "b"), day=run % 2))
    return made


def test_rows_order_and_ends_stay(table: Any, tmp_path: Path) -> None:
    before, ends = content(table), ends_of(table)
    done = compact(table, files=2)
    assert (done.snapshots, done.removed, done.added, done.rows) == (1, 4, 2, 160)
    table = loaded(tmp_path)
    assert content(table) == before
    assert ends_of(table) == ends is not None
    assert len(paths(table)) == 2
    for path in paths(table):
        keys = [tuple(row.values()) for row in pq.read_table(path, columns=list(KEYS)).to_pylist()]
        assert keys == sorted(keys)
        assert len(keys) == 80


def test_the_snapshot_is_a_replacement_with_right_totals(table: Any) -> None:
    compact(table, files=2)
    summary = table.current_snapshot().summary
    assert summary.operation.value == "replace"
    said = summary.additional_properties
    assert (said["total-records"], said["total-data-files"]) == ("160", "2")
    assert (said["added-records"], said["deleted-records"]) == ("160", "160")


def test_statistics_of_new_files_prune(table: Any) -> None:
    compact(table, files=2)
    assert len(list(table.scan("storeTimestamp < '2026-11-29T00:00:00+00:00'").plan_files())) == 1
    assert not list(table.scan("queueOffset >= 40").plan_files())
    assert not list(table.scan("brokerName = 'c'").plan_files())


def test_a_second_call_does_nothing(table: Any) -> None:
    compact(table, files=2)
    snapshot = table.current_snapshot().snapshot_id
    done = compact(table, files=2)
    assert (done.snapshots, done.removed) == (0, 0)
    assert table.current_snapshot().snapshot_id == snapshot


def test_too_few_small_files_stay(table: Any) -> None:
    done = compact(table, files=5)
    assert done.removed == 0
    assert done.left == {"too few in their partition": 4}


def test_more_files_than_are_read_at_a_time(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_FILES", 2)
    before = content(table)
    compact(table, files=2)
    assert len(paths(table)) == 2
    assert content(table) == before


def test_each_new_file_has_about_the_size_that_was_asked(tmp_path: Path) -> None:
    table = new_table(catalog_in(tmp_path), ())
    for run in range(12):
        batch = rows(range(30 * run, 30 * run + 30))
        at = batch.schema.get_field_index("body")
        bodies = [os.urandom(4000) for _ in range(batch.num_rows)]
        add(table, batch.set_column(at, batch.schema.field(at), pa.array(bodies)))
    before = content(table)
    done = compact(table, target=1 << 20, small=1 << 19, files=2)
    assert (done.removed, done.added) == (12, 3)
    assert all(0.5 < os.path.getsize(path) / (1 << 20) < 1.1 for path in paths(table))
    assert content(table) == before


def test_columns_that_came_later_are_null_in_old_rows(table: Any) -> None:
    from pyiceberg.types import LongType

    with table.update_schema() as change:
        change.add_column("amount", LongType())
        change.rename_column("flag", "flags")
    compact(table, files=2)
    found = content(table)
    assert len(found) == 160
    assert {row["amount"] for row in found} == {None}
    assert {row["flags"] for row in found} == {0}


def test_another_partitioning_is_left_alone(table: Any) -> None:
    from pyiceberg.transforms import IdentityTransform

    with table.update_spec() as change:
        change.add_field("queueId", IdentityTransform(), "queueId")
    before = content(table)
    done = compact(table, files=2)
    assert done.left == {"of an earlier partitioning": 4}
    assert content(table) == before


def test_a_file_that_is_not_sorted_is_left_alone(tmp_path: Path) -> None:
    table = new_table(catalog_in(tmp_path), ())
    add_runs(table, 4)
    batch = rows(range(40, 50))
    table.append(pa.Table.from_batches([batch.take(list(reversed(range(batch.num_rows))))]))
    before = content(table)
    done = compact(table, files=2)
    assert done.left["not sorted"] == 1
    done = compact(table, files=2)
    assert done.left["not sorted"] == 1
    assert content(table) == before


def test_a_write_that_commits_first_is_kept(
    table: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = rows(range(40, 45), brokers=("a", "b"))
    commit = Replacement.commit

    def late(self: Replacement) -> None:
        if len(content(loaded(tmp_path))) == 160:
            add(loaded(tmp_path), more)
        commit(self)

    monkeypatch.setattr(Replacement, "commit", late)
    before = content(table)
    done = compact(table, files=2, stop=lambda: len(content(loaded(tmp_path))) > 160)
    table = loaded(tmp_path)
    assert (done.snapshots, done.removed) == (1, 4)
    assert len(content(table)) == 180
    assert [r for r in content(table) if r in before] == before
    ends = ends_of(table)
    assert ends is not None
    assert ends.brokers["b"][1].end == 45


def test_of_two_compactions_one_wins_and_leaves_no_files(
    table: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = Replacement.commit
    others = []

    def late(self: Replacement) -> None:
        if not others:
            others.append(1)
            compact(loaded(tmp_path), files=2)
        commit(self)

    monkeypatch.setattr(Replacement, "commit", late)
    before, old = content(table), set(paths(table))
    done = compact(table, files=2)
    assert done.removed == 0
    assert content(loaded(tmp_path)) == before
    assert files_in(tmp_path) == old | set(paths(loaded(tmp_path)))


def test_rows_that_are_deleted_meanwhile_do_not_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = new_table(catalog_in(tmp_path), ())
    add_runs(table, 4)
    commit = Replacement.commit

    def late(self: Replacement) -> None:
        other = loaded(tmp_path)
        if len(content(other)) == 80:
            other.delete("queueOffset = 5")
        commit(self)

    monkeypatch.setattr(Replacement, "commit", late)
    compact(table, files=2)
    found = content(loaded(tmp_path))
    assert len(found) == 78
    assert 5 not in {row["queueOffset"] for row in found}


def test_files_with_deletes_of_others_are_left_alone(
    table: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pyiceberg writes no delete files; what they mean for a plan is in its tasks."""
    tasks = list(table.scan().plan_files())
    tasks[0].delete_files = {"a delete file"}

    class Scan:
        def plan_files(self) -> Any:
            return tasks

    monkeypatch.setattr(type(table), "scan", lambda self: Scan())
    left: dict[str, int] = {}
    groups = list(module._groups(table, 1 << 28, 1 << 26, 2, {}, left))
    assert left == {"with deleted rows": 1, "too few in their partition": 1}
    assert [len(group.files) for group in groups] == [2]


def test_a_delete_file_that_comes_meanwhile_drops_the_work(
    table: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = iter([set(), {"new deletes"}])
    monkeypatch.setattr(module, "_deletes", lambda _: next(seen, {"new deletes"}))
    old = files_in(tmp_path)
    assert compact(table, files=2).removed == 0
    assert files_in(tmp_path) == old


def test_others_that_always_commit_first_end_it(
    table: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyiceberg.exceptions import CommitFailedException

    def fails(self: Replacement) -> None:
        raise CommitFailedException("moved")

    monkeypatch.setattr(Replacement, "commit", fails)
    monkeypatch.setattr(module.time, "sleep", lambda _: None)
    old = files_in(tmp_path)
    with pytest.raises(TableConflictError, match="during each of 20 attempts"):
        compact(table, files=2)
    assert files_in(tmp_path) == old


def test_a_commit_whose_answer_is_lost_is_recognised(
    table: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = Replacement.commit

    def lost(self: Replacement) -> None:
        commit(self)
        raise ConnectionError("no answer")

    monkeypatch.setattr(Replacement, "commit", lost)
    before = content(table)
    assert compact(table, files=2).removed == 4
    assert content(loaded(tmp_path)) == before
    assert len(paths(loaded(tmp_path))) == 2


def test_a_commit_of_unknown_outcome_keeps_its_files(
    table: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(self: Replacement) -> None:
        raise ConnectionError("no answer")

    monkeypatch.setattr(Replacement, "commit", away)
    before, old = content(table), files_in(tmp_path)
    with pytest.raises(ConnectionError):
        compact(table, files=2)
    assert len(files_in(tmp_path) - old) == 2
    assert content(loaded(tmp_path)) == before


def test_a_full_disk_leaves_nothing(
    table: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Any, part: Any) -> None:
        raise OSError(28, "No space left on device")

    from pyrmq.tables.rewrite import _Writer

    monkeypatch.setattr(_Writer, "_finish", full)
    before, old = content(table), files_in(tmp_path)
    with pytest.raises(OSError, match="No space left"):
        compact(table, files=2)
    assert files_in(tmp_path) == old
    assert content(table) == before


def test_it_stops_between_commits(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GROUP_BYTES", 1)
    stop = threading.Event()
    commit = Replacement.commit

    def once(self: Replacement) -> None:
        commit(self)
        stop.set()

    monkeypatch.setattr(Replacement, "commit", once)
    before = content(table)
    done = compact(table, files=2, stop=stop.is_set)
    assert done.snapshots == 1
    assert len(paths(table)) == 3
    assert content(table) == before


def test_a_data_file_that_is_gone_is_named(table: Any) -> None:
    gone = paths(table)[0]
    Path(gone).unlink()
    with pytest.raises(TableError, match="a data file is gone") as raised:
        compact(table, files=2)
    assert Path(gone).name in str(raised.value)


@pytest.mark.parametrize(
    "wrong", [{"target": 1}, {"target": 1 << 40}, {"small": 0}, {"files": 1}, {"small": 1 << 40}]
)
def test_sizes_without_sense(table: Any, wrong: dict[str, int]) -> None:
    with pytest.raises(TableError, match="choose a target of 1 to 256 MiB"):
        compact(table, **wrong)  # type: ignore[arg-type]


PLACES = ((PyArrowFile, "create"), (PyArrowFileIO, "delete"), (SqlCatalog, "commit_table"))
"""Where a compaction changes files or the catalog."""


def test_killed_at_each_step_the_table_is_whole(
    table: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, ends = content(table), ends_of(table)
    steps = 0
    for kill in range(40):
        with pytest.MonkeyPatch.context() as patch:
            die_at(patch, kill, *PLACES)
            try:
                compact(loaded(tmp_path), files=2)
            except Killed:
                steps += 1
                ended = False
            else:
                ended = True
        found = loaded(tmp_path)
        assert content(found) == before
        assert ends_of(found) == ends
        if ended or len(paths(found)) == 2:
            break
    assert steps > 4, "files, manifests, manifest list, metadata and the catalog"
    assert len(paths(loaded(tmp_path))) == 2
    # What the kills left behind is found by an expiry: it is ours, and in no snapshot.
    monkeypatch.setattr(names, "is_abandoned", lambda name: True)
    old = time.time() - 4 * 24 * 3600
    left = files_in(tmp_path) - set(paths(loaded(tmp_path)))
    for path in left:
        os.utime(path, (old, old))
    done = expire(loaded(tmp_path))
    assert 0 < done.orphans < len(left)
    assert content(loaded(tmp_path)) == before
    add(loaded(tmp_path), rows(range(40, 45)))
    expire(loaded(tmp_path), age=0, keep=1)
    assert files_in(tmp_path) == set(paths(loaded(tmp_path)))


@pytest.mark.parametrize("name", ["_groups", "_rewrite", "_still"])
def test_a_snapshot_that_an_expiry_deletes_meanwhile(
    table: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    real, done = getattr(module, name), []

    def late(*args: Any) -> Any:
        if not done:
            done.append(1)
            add(loaded(tmp_path), rows(range(40, 45), brokers=("a", "b")))
            raise FileNotFoundError("a manifest list")
        return real(*args)

    monkeypatch.setattr(module, name, late)
    assert compact(table, files=2).removed >= 4
    assert len(content(loaded(tmp_path))) == 180
    there = set(paths(loaded(tmp_path)))
    assert {path for path in files_in(tmp_path) if "pyrmq-" in path} >= there
    # What was written before the error is deleted.
    in_snapshots = leftovers.referenced(loaded(tmp_path))
    assert {Path(path).name for path in files_in(tmp_path)} == in_snapshots


def test_a_file_of_the_table_that_is_gone_for_good_is_an_error(
    table: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*args: Any) -> Any:
        raise FileNotFoundError("a manifest list")

    monkeypatch.setattr(module, "_groups", gone)
    with pytest.raises(FileNotFoundError):
        compact(table, files=2)
