"""Old snapshots and their files go; what others need stays, whoever is killed when."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from pyrmq.tables import expire as module
from pyrmq.tables import names
from pyrmq.tables.compact import compact
from pyrmq.tables.ends import ends_of
from pyrmq.tables.errors import TableConflictError, TableError
from pyrmq.tables.expire import HOUR, expire
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
    """Four runs, compacted, and one more run."""
    made = new_table(catalog_in(tmp_path))
    add_runs(made, 4)
    compact(made, files=2)
    add(made, rows(range(40, 50)))
    return made


def _killed(number: int, owner: str | None = None) -> str:
    """The name of a data file of a process that has ended."""
    return names.data_file(
        "6ac00c15-0000-0000-0000-000000000000", number, f"{owner or names.owner()}-1.1"
    )


def _lists(tmp_path: Path) -> set[str]:
    return {path for path in files_in(tmp_path, ".avro") if "/snap-" in path}


def test_old_snapshots_and_their_files_go(table: Any, tmp_path: Path) -> None:
    before, ends = content(table), ends_of(table)
    done = expire(table, age=0, keep=1)
    assert (done.snapshots, done.kept) == (5, 1)
    table = loaded(tmp_path)
    assert content(table) == before
    assert ends_of(table) == ends
    assert files_in(tmp_path) == set(paths(table))
    assert len(_lists(tmp_path)) == 1
    # Nothing is left to do, and nothing is left behind.
    assert expire(table, age=0, keep=1).files == 0
    needed = {m.manifest_path for m in table.current_snapshot().manifests(table.io)}
    there = files_in(tmp_path, ".avro") - _lists(tmp_path)
    assert there == {path.removeprefix("file://") for path in needed}


def test_a_dry_run_says_the_same_and_changes_nothing(table: Any, tmp_path: Path) -> None:
    files = files_in(tmp_path, "")
    would = expire(table, age=0, keep=1, dry_run=True)
    assert files_in(tmp_path, "") == files
    assert len(loaded(tmp_path).snapshots()) == 6
    assert expire(table, age=0, keep=1) == would


def test_the_newest_stay_however_old(table: Any) -> None:
    expire(table, age=0, keep=3)
    assert len(table.snapshots()) == 3


def test_the_young_stay_however_many(table: Any) -> None:
    assert expire(table, age=HOUR, keep=1).snapshots == 0


def test_without_arguments_the_table_says(table: Any, tmp_path: Path) -> None:
    assert expire(table).snapshots == 0
    with table.transaction() as change:
        change.set_properties(
            {
                "history.expire.max-snapshot-age-ms": "0",
                "history.expire.min-snapshots-to-keep": "2",
            }
        )
    assert expire(table).snapshots == 4
    assert len(loaded(tmp_path).snapshots()) == 2


def test_tags_and_branches_keep_theirs(table: Any, tmp_path: Path) -> None:
    first, second = table.snapshots()[0].snapshot_id, table.snapshots()[1].snapshot_id
    with table.manage_snapshots() as change:
        change.create_tag(first, "audit").create_branch(second, "test")
    audit = table.scan(snapshot_id=first).to_arrow()
    expire(table, age=0, keep=1)
    table = loaded(tmp_path)
    assert {one.snapshot_id for one in table.snapshots()} == {
        first, second, table.current_snapshot().snapshot_id
    }  # fmt: skip
    assert table.scan(snapshot_id=first).to_arrow().equals(audit)
    assert len(table.scan(snapshot_id=second).to_arrow()) == 40


def test_the_files_of_a_tag_go_when_it_is_gone(table: Any, tmp_path: Path) -> None:
    first = table.snapshots()[0].snapshot_id
    with table.manage_snapshots() as change:
        change.create_tag(first, "audit")
    expire(table, age=0, keep=1)
    with table.manage_snapshots() as change:
        change.remove_tag("audit")
    expire(table, age=0, keep=1)
    assert files_in(tmp_path) == set(paths(loaded(tmp_path)))


def test_the_snapshot_with_the_ends_stays_in_reach(tmp_path: Path) -> None:
    """After a roll back the property says more than the table has: the snapshots must say it."""
    table = new_table(catalog_in(tmp_path))
    add_runs(table, 4)
    compact(table, files=2)
    said = ends_of(table)
    with table.transaction() as change:
        change.set_properties({"pyrmq.ends": "{}"})
    expire(table, age=0, keep=1)
    assert len(table.snapshots()) == 2
    assert ends_of(loaded(tmp_path)) == said is not None


def test_killed_before_the_files_the_next_call_goes_on(
    table: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed at each deletion in turn."""
    before = content(table)
    delete = module._delete
    for kill in range(30):
        left = kill

        def killed(table: Any, location: str) -> bool:
            nonlocal left
            if not left:
                raise KeyboardInterrupt
            left -= 1
            return delete(table, location)

        monkeypatch.setattr(module, "_delete", killed)
        try:
            expire(loaded(tmp_path), age=0, keep=1)
        except KeyboardInterrupt:
            assert content(loaded(tmp_path)) == before
            continue
        break
    else:
        raise AssertionError("it never came to its end")
    assert kill > 1
    table = loaded(tmp_path)
    assert content(table) == before
    assert files_in(tmp_path) == set(paths(table))
    assert len(_lists(tmp_path)) == 1


def test_a_tag_that_is_made_meanwhile_is_kept(
    table: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = table.snapshots()[0].snapshot_id
    commit, done = type(table.catalog).commit_table, []

    def late(self: Any, *args: Any) -> Any:
        if not done:
            done.append(1)
            with loaded(tmp_path).manage_snapshots() as change:
                change.create_tag(first, "late")
        return commit(self, *args)

    monkeypatch.setattr(type(table.catalog), "commit_table", late)
    expire(table, age=0, keep=1)
    table = loaded(tmp_path)
    assert "late" in table.refs()
    assert len(table.scan(snapshot_id=first).to_arrow()) == 20


def test_a_write_meanwhile_loses_nothing(
    table: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remove = module._remove

    def late(*args: Any) -> Any:
        gone = remove(*args)
        add(loaded(tmp_path), rows(range(50, 60)))
        return gone

    monkeypatch.setattr(module, "_remove", late)
    expire(table, age=0, keep=1)
    assert len(content(loaded(tmp_path))) == 120


def test_others_that_always_come_first_end_it(
    table: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyiceberg.exceptions import CommitFailedException

    def fails(self: Any, *args: Any) -> Any:
        raise CommitFailedException("moved")

    monkeypatch.setattr(type(table.catalog), "commit_table", fails)
    files = files_in(tmp_path, "")
    with pytest.raises(TableConflictError):
        expire(table, age=0, keep=1)
    assert files_in(tmp_path, "") == files


def test_files_of_killed_writers_go_when_they_are_old(table: Any, tmp_path: Path) -> None:
    data = Path(paths(table)[0]).parent
    ours = data / _killed(0)
    young = data / _killed(1)
    running = data / names.data_file("6ac00c15-0000-0000-0000-000000000000", 2)
    others = data / "00000-0-6ac00c15-0000-0000-0000-000000000000.parquet"
    for path in (ours, young, others, running):
        path.write_bytes(b"left over")
    old = time.time() - 4 * 24 * 3600
    os.utime(ours, (old, old))
    os.utime(others, (old, old))
    os.utime(running, (old, old))
    for path in map(Path, paths(table)):
        os.utime(path, (old, old))
    before = content(table)
    done = expire(table)
    assert (done.orphans, done.orphan_bytes) == (1, 9)
    assert not ours.exists()
    assert all(path.exists() for path in (young, others, running))
    assert content(loaded(tmp_path)) == before


def test_files_outside_of_the_table_stay(table: Any, tmp_path: Path) -> None:
    """Such as those of an archive, which were added to the table: somebody else owns them."""
    archive = tmp_path / "archive"
    archive.mkdir()
    own = paths(table)[0]
    moved = archive / Path(own).name
    moved.write_bytes(Path(own).read_bytes())
    snapshot = table.current_snapshot().snapshot_id
    with table.transaction() as change, change.update_snapshot().overwrite() as update:
        from copy import copy

        for task in table.scan().plan_files():
            if task.file.file_path.endswith(moved.name):
                file = copy(task.file)
                file._data = list(file._data)
                file._data[1] = f"file://{moved}"
                update.delete_data_file(task.file)
                update.append_data_file(file)
    table.refresh()
    assert str(moved) in paths(table)
    add(table, rows(range(50, 60)))
    with table.transaction() as change, change.update_snapshot().overwrite() as update:
        for task in table.scan().plan_files():
            if task.file.file_path.endswith(moved.name):
                update.delete_data_file(task.file)
    add(table, rows(range(60, 70)))
    expire(table, age=0, keep=1)
    assert snapshot not in {one.snapshot_id for one in loaded(tmp_path).snapshots()}
    assert moved.exists()
    assert not Path(own).exists()


def test_a_table_whose_files_others_use_is_refused(table: Any) -> None:
    with table.transaction() as change:
        change.set_properties({"gc.enabled": "false"})
    with pytest.raises(TableError, match=r"gc\.enabled=false says that other tables may use"):
        expire(table, age=0, keep=1)


def test_files_of_runs_that_may_still_write_are_not_asked_for(table: Any) -> None:
    with pytest.raises(TableError, match="choose one hour or more"):
        expire(table, orphan_age=HOUR - 1)


def test_an_empty_table_has_nothing_to_expire(tmp_path: Path) -> None:
    done = expire(new_table(catalog_in(tmp_path)), age=0, keep=1)
    assert (done.snapshots, done.kept, done.files, done.orphans) == (0, 0, 0, 0)


def test_a_commit_while_files_are_listed_keeps_its_files(
    table: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of another machine, whose processes are not seen here, and slow: its files are old."""
    real, done = module.listed, []

    def late(of: Any) -> Any:
        if not done:
            done.append(1)
            add(loaded(tmp_path), rows(range(50, 60)))
            old = time.time() - 5 * 24 * 3600
            for path in paths(loaded(tmp_path)):
                os.utime(path, (old, old))
        yield from real(of)

    monkeypatch.setattr(module, "listed", late)
    monkeypatch.setattr(names, "is_abandoned", lambda name: True)
    assert expire(table).orphans == 0
    assert len(content(loaded(tmp_path))) == 120


def test_a_compaction_that_has_just_ended_keeps_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write that cleans up after its own commit has loaded the table before that compaction."""
    from pyrmq.tables import leftovers

    before = new_table(catalog_in(tmp_path))
    add_runs(before, 3)
    compact(loaded(tmp_path), files=2)
    monkeypatch.setattr(names, "is_abandoned", lambda name: True)
    assert leftovers.clean(before) == 0
    assert len(content(loaded(tmp_path))) == 60


def test_a_clock_that_is_set_forward_makes_no_file_old(
    table: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that a run of another machine is writing are in no snapshot yet."""
    folder = Path(next(iter(files_in(tmp_path)))).parent
    writing = folder / _killed(1, "0" * 12)
    writing.write_bytes(b"being written")
    ahead = time.time() + 30 * 24 * 3600
    monkeypatch.setattr(module.time, "time", lambda: ahead)
    assert expire(table).orphans == 0
    assert writing.exists()
