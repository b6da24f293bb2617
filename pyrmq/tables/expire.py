"""Removes old snapshots of a table and the files that no other snapshot needs.

The snapshots go first, by a commit; the files follow. Of a snapshot the manifest list goes last, so
whoever is killed in between leaves it behind, and the next call finds it by the table's log of
metadata files and goes on. Nothing is deleted that a remaining snapshot needs, that lies outside of
the table's folders, or that a commit in progress may be about to name.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from pyrmq.escape import escape
from pyrmq.tables import names
from pyrmq.tables.errors import TableConflictError, TableError
from pyrmq.tables.files import Reached, folders, is_own, listed, path_of, reached
from pyrmq.tables.retained import retained

log = logging.getLogger(__name__)

HOUR = 3600 * 1000
ORPHAN_AGE = 3 * 24 * HOUR
"""Age, ms, from which on a file of ours that no snapshot has is deleted."""
LEAST_ORPHAN_AGE = HOUR
"""A run that writes now has files that no snapshot has yet."""
ATTEMPTS = 10
GC = "gc.enabled"


@dataclass(frozen=True)
class Expired:
    """What an expiry removed, or with `dry_run` would."""

    snapshots: int = 0
    kept: int = 0
    files: int = 0
    orphans: int = 0
    orphan_bytes: int = 0


def expire(
    table: Any,
    *,
    age: int | None = None,
    keep: int | None = None,
    orphan_age: int = ORPHAN_AGE,
    dry_run: bool = False,
) -> Expired:
    """Expires snapshots of a pyiceberg Table that are older than `age` ms, of each branch all but
    the newest `keep`, and deletes their files, then files of killed writers that are older than
    `orphan_age` ms. Without `age` and `keep` the properties of the table count.

    TableError for a table whose files must not be deleted, TableConflictError if others kept
    changing its branches and tags."""
    if table.properties.get(GC, "true").lower() == "false":
        raise TableError(
            f"{escape(table.location())}: {GC}=false says that other tables may use its files",
            f"remove the property {GC}, or expire the snapshots of the table that owns the files",
        )
    if orphan_age < LEAST_ORPHAN_AGE:
        raise TableError(
            f"files of {orphan_age // 1000} s may belong to a run that writes now",
            "choose one hour or more",
        )
    now = int(time.time() * 1000)
    gone = [] if dry_run else _remove(table, now, age, keep)
    if dry_run:
        kept = retained(table.metadata, now, age, keep)
        gone = [one for one in table.metadata.snapshots if one.snapshot_id not in kept]
    # Listed before it is looked what snapshots need: a commit in between is seen.
    old = _old_files(table, orphan_age, now)
    table.refresh()
    left_out = {one.snapshot_id for one in gone} if dry_run else set()
    stay = [one for one in table.metadata.snapshots if one.snapshot_id not in left_out]
    needed = reached(table.io, stay)
    orphans = [(location, size) for location, size in old if path_of(location) not in needed.data]
    files = 0
    for snapshot in _unfinished(table, gone):
        files += _delete_snapshot(table, snapshot, needed, dry_run)
    for location, _ in orphans:
        if not dry_run:
            _delete(table, location)
    return Expired(len(gone), len(stay), files, len(orphans), sum(size for _, size in orphans))


def _remove(table: Any, now: int, age: int | None, keep: int | None) -> list[Any]:
    """Takes the snapshots out of the table; returns them."""
    from pyiceberg.exceptions import CommitFailedException
    from pyiceberg.table.update import AssertRefSnapshotId, AssertTableUUID, RemoveSnapshotsUpdate

    for _ in range(ATTEMPTS):
        table.refresh()
        kept = retained(table.metadata, now, age, keep)
        gone = [one for one in table.metadata.snapshots if one.snapshot_id not in kept]
        if not gone:
            return []
        refs = {name: ref.snapshot_id for name, ref in table.metadata.refs.items()}
        needs: list[Any] = [AssertTableUUID(uuid=table.metadata.table_uuid)]
        needs += [
            AssertRefSnapshotId.model_validate({"ref": n, "snapshot-id": one})
            for n, one in refs.items()
        ]
        if not _is_remote(table.catalog):
            needs.append(_same_refs(refs))
        change = RemoveSnapshotsUpdate.model_validate(
            {"snapshot-ids": [one.snapshot_id for one in gone]}
        )
        try:
            table.catalog.commit_table(table, tuple(needs), (change,))
        except CommitFailedException:
            continue
        table.refresh()
        return gone
    raise TableConflictError(
        f"{escape(table.location())}: its branches changed during each of {ATTEMPTS} attempts",
        "try again",
    )


def _is_remote(catalog: Any) -> bool:
    """Whether a server checks what a commit requires: it knows Iceberg's own requirements only."""
    return type(catalog).__name__ == "RestCatalog"


def _same_refs(refs: dict[str, int]) -> Any:
    """The requirement that no branch and no tag was made meanwhile: it could be of a snapshot that
    is about to go."""
    from pyiceberg.exceptions import CommitFailedException
    from pyiceberg.table.update import ValidatableTableRequirement

    class SameRefs(ValidatableTableRequirement):
        type: str = "pyrmq-same-refs"

        def validate(self, base_metadata: Any) -> None:  # type: ignore[override]
            found = {n: one.snapshot_id for n, one in base_metadata.refs.items()}
            if found != refs:
                raise CommitFailedException("branches or tags changed")

    return SameRefs()


def _unfinished(table: Any, gone: Iterable[Any]) -> Iterator[Any]:
    """Snapshots that the table no longer has and whose manifest list is still there."""
    from pyiceberg.serializers import FromInputFile

    there = {one.snapshot_id for one in table.metadata.snapshots}
    seen: set[int] = set()
    for one in gone:
        seen.add(one.snapshot_id)
        yield one
    for entry in reversed(table.metadata.metadata_log):
        try:
            earlier = FromInputFile.table_metadata(table.io.new_input(entry.metadata_file))
        except FileNotFoundError:
            continue
        for one in earlier.snapshots:
            if one.snapshot_id in seen or one.snapshot_id in there:
                continue
            seen.add(one.snapshot_id)
            if table.io.new_input(one.manifest_list).exists():
                yield one


def _delete_snapshot(table: Any, snapshot: Any, needed: Reached, dry_run: bool) -> int:
    """Deletes what only this snapshot needs, the manifest list last. How many files."""
    own = folders(table)
    only = reached(table.io, [snapshot], without=needed)
    count = 0
    for found, used in (
        (only.data, needed.data),
        (only.manifests, needed.manifests),
        (only.lists, needed.lists),
    ):
        for path in sorted(found - used):
            if is_own(path, own):
                count += dry_run or _delete(table, only.locations[path])
        used |= found  # another expired snapshot may lead there as well
    return count


def _old_files(table: Any, age: int, now: int) -> list[tuple[str, int]]:
    """Data files of ours, by their names, that have this age (ms) before the newest file of the
    table; not those of a process of this machine that still runs. So a clock here that is wrong
    does not make files old that are just being written."""
    mine = f"pyrmq-{names.owner()}-"
    newest = 0.0
    found = []
    for location, size, when in listed(table):
        name = location.rpartition("/")[2]
        runs = name.startswith(mine) and not names.is_abandoned(name)
        newest = max(newest, when if when < float("inf") else 0.0)
        if names.commit_of(name) is not None and not runs:
            found.append((location, size, when))
    before = min(now, newest * 1000) - age
    return [(location, size) for location, size, when in found if when * 1000 < before]


def _delete(table: Any, location: str) -> bool:
    """Whether there was such a file."""
    try:
        table.io.delete(location)
    except FileNotFoundError:
        return False
    log.debug("deleted %s", escape(location))
    return True
