"""Replaces the many small files of a table by few large ones, partition by partition.

Rows and their order stay, and the ends of the table are untouched. The new files are written first;
then one commit replaces the old ones. If another writer commits in between, the commit is tried
again on what is there now; if an old file is gone by then, the work on its group is dropped. A kill
leaves new files that no snapshot has: an expiry deletes them. Old files are needed by older
snapshots, and are deleted when these expire.
"""

from __future__ import annotations

import logging
import random
import time
import uuid as uuids
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from pyrmq.escape import escape
from pyrmq.tables.errors import TableConflictError, TableError
from pyrmq.tables.merge import KEYS, NotSortedError
from pyrmq.tables.parquet import TARGET_BYTES, delete
from pyrmq.tables.replace import Replacement, was_committed
from pyrmq.tables.rewrite import rewrite

log = logging.getLogger(__name__)

TARGET = TARGET_BYTES
"""Bytes of a file that a compaction writes, unless the caller says; the most that it may say."""
LEAST_TARGET = 1 << 20
FILES = 5
"""A partition is compacted if it has as many small files."""
MOST_FILES = 128
"""Files that are read at a time."""
GROUP_BYTES = 8 << 30
"""Bytes of old files after which what was written is committed."""
ATTEMPTS = 20
"""Of one commit."""


@dataclass
class Compacted:
    """What a compaction did, and what it left alone."""

    snapshots: int = 0
    removed: int = 0
    added: int = 0
    rows: int = 0
    removed_bytes: int = 0
    added_bytes: int = 0
    left: dict[str, int] = field(default_factory=dict)
    """Small files that stay, by reason."""


@dataclass
class _Group:
    """Files of one partition, and those that replace them."""

    files: list[Any]
    new: list[Any] = field(default_factory=list)

    @property
    def size(self) -> int:
        return sum(file.file_size_in_bytes for file in self.files)


def compact(
    table: Any,
    *,
    target: int = TARGET,
    small: int | None = None,
    files: int = FILES,
    stop: Callable[[], bool] = lambda: False,
) -> Compacted:
    """Compacts a pyiceberg Table: files below `small` bytes (by default a quarter of `target`) of
    partitions that have at least `files` of them. Between commits `stop` is asked whether to end.

    TableError for sizes that make no sense, TableConflictError if others kept replacing the files.
    """
    small = target // 4 if small is None else small
    if not LEAST_TARGET <= target <= TARGET or not 0 < small <= target or files < 2:
        raise TableError(
            "a compaction cannot make such files",
            f"choose a target of 1 to {TARGET >> 20} MiB, files below it, and at least 2 of them",
        )
    done = Compacted()
    kept: dict[str, str] = {}
    table.refresh()
    gone = 0
    while not stop():
        try:
            if not _pass(table, (target, small, files), kept, done, stop):
                break
        except FileNotFoundError:
            # An expiry may have deleted the snapshot that was read.
            before = table.metadata.current_snapshot_id
            table.refresh()
            gone += 1
            if gone > ATTEMPTS or table.metadata.current_snapshot_id == before:
                raise
    return done


def _pass(
    table: Any,
    sizes: tuple[int, int, int],
    kept: dict[str, str],
    done: Compacted,
    stop: Callable[[], bool],
) -> bool:
    """Compacts what there is; False if nothing more can be made smaller."""
    target, small, files = sizes
    done.left = {}
    deletes = _deletes(table)
    groups = list(_groups(table, target, small, files, kept, done.left))
    before = done.removed, len(kept)
    batch: list[_Group] = []
    try:
        for group in groups:
            if stop():
                break
            if _rewrite(table, group, target, kept):
                batch.append(group)
            if sum(one.size for one in batch) >= GROUP_BYTES:
                ready, batch = batch, []
                _commit(table, ready, deletes, done)
    except BaseException:
        for group in batch:
            _discard(table, _paths(group.new))
        raise
    _commit(table, batch, deletes, done)
    return (done.removed, len(kept)) != before


def _groups(
    table: Any, target: int, small: int, least: int, kept: dict[str, str], left: dict[str, int]
) -> Iterator[_Group]:
    """Groups of small files of a partition, each of about `target` bytes."""
    spec = table.metadata.default_spec_id
    missing = [name for name in KEYS if name not in table.schema().column_names]
    if missing:
        raise TableError(
            f"table {'.'.join(table.name())} has no columns {', '.join(missing)}",
            "only tables that `pyrmq pipeline table` wrote are compacted",
        )

    def leave(why: str) -> None:
        left[why] = left.get(why, 0) + 1

    partitions: dict[Any, list[Any]] = {}
    for task in table.scan().plan_files():
        file = task.file
        if file.file_size_in_bytes >= small:
            continue
        if task.delete_files:
            leave("with deleted rows")
        elif file.spec_id != spec:
            leave("of an earlier partitioning")
        elif file.file_format != "PARQUET":
            leave("not Parquet")
        elif file.file_path in kept:
            leave(kept[file.file_path])
        else:
            partitions.setdefault(file.partition, []).append(file)
    for partition in sorted(partitions, key=str):
        found = sorted(partitions[partition], key=lambda file: _begin(table, file))
        while found:
            group, size = _Group([]), 0
            while found and len(group.files) < MOST_FILES:
                size += found[0].file_size_in_bytes
                if group.files and size > target:
                    break
                group.files.append(found.pop(0))
            if len(group.files) >= least:
                yield group
            else:
                for _ in group.files:
                    leave("too few in their partition")


def _begin(table: Any, file: Any) -> tuple[int, str]:
    """Places files by their first store time: neighbours come together."""
    from pyiceberg.conversions import from_bytes

    column = table.schema().find_field("storeTimestamp")
    bound = (file.lower_bounds or {}).get(column.field_id)
    return (int(from_bytes(column.field_type, bound)) if bound else 0, file.file_path)


def _rewrite(table: Any, group: _Group, target: int, kept: dict[str, str]) -> bool:
    """Whether the group has new files, which are fewer."""
    try:
        group.new = rewrite(table, group.files, target, str(uuids.uuid4()))
    except NotSortedError as e:
        kept[e.name] = "not sorted"
        return False
    except FileNotFoundError as e:
        # Another compaction replaced it, and an expiry deleted it. Damage: the file is still named.
        table.refresh()
        if _paths(group.files) <= _live(table):
            raise TableError(
                f"a data file is gone: {escape(e)}", "restore it, or remove it from the table"
            ) from e
        return False
    if len(group.new) < len(group.files):
        return True
    _discard(table, _paths(group.new))
    kept.update(dict.fromkeys(_paths(group.files), "would not become fewer"))
    return False


def _commit(table: Any, groups: list[_Group], deletes: set[str], done: Compacted) -> None:
    """Commits the groups of which all files are still there; of the others it deletes what was
    written."""
    from pyiceberg.exceptions import CommitFailedException, ValidationException

    uuid = str(uuids.uuid4())
    for attempt in range(ATTEMPTS):
        try:
            groups = _still(table, groups, deletes)
        except FileNotFoundError:
            for group in groups:
                _discard(table, _paths(group.new))
            raise
        if not groups:
            return
        removed = [file for group in groups for file in group.files]
        added = [file for group in groups for file in group.new]
        try:
            try:
                replacement = Replacement(table, removed, added, uuid)
            except ValidationException:
                raise
            except BaseException:
                _discard(table, _paths(added))
                raise
            replacement.commit()
        except (CommitFailedException, ValidationException):
            time.sleep(random.uniform(0, min(2.0, 0.05 * 2**attempt)))
            table.refresh()
            continue
        except Exception:
            # It may be committed, or still be: the new files stay. If it is not, they are found
            # by an expiry.
            table.refresh()
            if not was_committed(table, uuid):
                raise
        break
    else:
        for group in groups:
            _discard(table, _paths(group.new))
        raise TableConflictError(
            f"others changed table {'.'.join(table.name())} during each of {ATTEMPTS} attempts",
            "compact it when less is written",
        )
    done.snapshots += 1
    for group in groups:
        done.removed += len(group.files)
        done.added += len(group.new)
        done.rows += sum(file.record_count for file in group.new)
        done.removed_bytes += group.size
        done.added_bytes += sum(file.file_size_in_bytes for file in group.new)
    log.info(
        "%s: %d files replaced by %d",
        escape(".".join(table.name())),
        sum(len(group.files) for group in groups),
        sum(len(group.new) for group in groups),
    )


def _still(table: Any, groups: list[_Group], deletes: set[str]) -> list[_Group]:
    """Groups that can still be committed."""
    if not groups:
        return []
    there = _live(table) if _deletes(table) == deletes else set()
    stay = [group for group in groups if _paths(group.files) <= there]
    for group in groups:
        if not any(group is one for one in stay):
            _discard(table, _paths(group.new))
    return stay


def _discard(table: Any, paths: Iterable[str]) -> None:
    """Deletes files that no snapshot has. What cannot be deleted is found by an expiry later."""
    for path in delete(table.io, sorted(paths)):
        log.warning("%s is in no snapshot and cannot be deleted", escape(path))


def _paths(files: Iterable[Any]) -> set[str]:
    return {file.file_path for file in files}


def _live(table: Any) -> set[str]:
    """Data files of the current snapshot."""
    return {task.file.file_path for task in table.scan().plan_files()}


def _deletes(table: Any) -> set[str]:
    """Manifests of deletes: rows that are deleted while files are rewritten would come back."""
    snapshot = table.current_snapshot()
    if snapshot is None:
        return set()
    return {
        manifest.manifest_path for manifest in snapshot.manifests(table.io) if manifest.content != 0
    }
