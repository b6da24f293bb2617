"""Data files of runs that were killed: in no snapshot, and deleted by the next run.

A run deletes a file only if it is of this machine, of a process that has ended, and in no snapshot
of the table, and only after a commit of its own. A commit of the dead process that is still on its
way requires the snapshot before that commit: it cannot arrive any more. With the embedded catalog
no commit is on its way when its process has ended: then files go before a run writes, too, so runs
that are killed again and again do not fill the disk.
"""

from __future__ import annotations

import logging
from typing import Any

from pyrmq.escape import escape
from pyrmq.tables import names
from pyrmq.tables.catalog import Catalog
from pyrmq.tables.files import listed
from pyrmq.tables.parquet import delete

log = logging.getLogger(__name__)


def try_clean(catalog: Catalog, table: Any) -> int:
    """As `clean`. What fails is logged: the messages are in the table, and the next run tries
    again."""
    try:
        return clean(table)
    except Exception as error:
        shown = catalog.error("files of killed runs are not deleted", error)
        log.warning("%s", escape(shown))
        return 0


def clean(table: Any) -> int:
    """Deletes such files of a table that was just committed to, or is in the embedded catalog;
    returns how many."""
    found = [path for path in _files(table) if names.is_abandoned(_last(path))]
    if not found:
        return 0
    # Only now, when those processes have ended: one of them may have committed since `table` was
    # loaded.
    table.refresh()
    there = referenced(table)
    gone = [path for path in found if _last(path) not in there]
    return len(gone) - len(delete(table.io, gone))


def discard(table: Any, commit: str) -> int:
    """Deletes all files of a commit, which must be in no snapshot; returns how many."""
    found = [path for path in _files(table) if names.commit_of(_last(path)) == commit]
    return len(found) - len(delete(table.io, found))


def _last(path: str) -> str:
    return path.rpartition("/")[2]


def _files(table: Any) -> list[str]:
    """Locations of all files below the data folder; nothing where pyiceberg uses fsspec, which is
    not listed."""
    from pyiceberg.io.pyarrow import PyArrowFileIO

    if not isinstance(table.io, PyArrowFileIO):
        return []
    return [location for location, _, _ in listed(table)]


def referenced(table: Any) -> set[str]:
    """Names of the data files of all snapshots."""
    manifests = {
        manifest.manifest_path: manifest
        for snapshot in table.metadata.snapshots
        for manifest in snapshot.manifests(table.io)
    }
    return {
        _last(entry.data_file.file_path)
        for manifest in manifests.values()
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False)
    }
