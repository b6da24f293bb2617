"""Times of a table's metadata never go back.

pyiceberg takes the time of this machine. Iceberg's Java library, so Spark, Trino and Flink, loads
no table in whose history a time is more than a minute before the one above it. Clocks are set back,
and writers on several machines have several clocks: a commit has at least the time of the last one.
"""

from __future__ import annotations

from typing import Any

from pyrmq.tables import private


def keep(catalog: Any) -> Any:
    """A pyiceberg catalog whose commits do so; the same object."""
    stage = private.staging(catalog)
    if stage is not None:

        def staged(current: Any, identifier: Any, requirements: Any, updates: Any) -> Any:
            if current is None:
                return stage(current, identifier, requirements, updates)
            before = current.metadata
            found = stage(current, identifier, requirements, _raised(updates, before))
            found.metadata = _in_order(found.metadata, before)
            return found

        private.stage_with(catalog, staged)
        return catalog
    commit = catalog.commit_table  # a server makes the metadata, but for the snapshot

    def committed(table: Any, requirements: Any, updates: Any) -> Any:
        return commit(table, requirements, _raised(updates, table.metadata))

    catalog.commit_table = committed
    return catalog


def _latest(metadata: Any) -> int:
    log = [int(one.timestamp_ms) for one in metadata.snapshot_log[-1:]]
    return max([int(metadata.last_updated_ms), *log])


def _raised(updates: Any, before: Any) -> Any:
    from pyiceberg.table.update import AddSnapshotUpdate

    least = _latest(before)
    made = []
    for update in updates:
        if isinstance(update, AddSnapshotUpdate) and update.snapshot.timestamp_ms < least:
            snapshot = update.snapshot.model_copy(update={"timestamp_ms": least})
            update = update.model_copy(update={"snapshot": snapshot})
        made.append(update)
    return tuple(made)


def _in_order(metadata: Any, before: Any) -> Any:
    """Also for changes without a snapshot, and for a rollback."""
    changed: dict[str, Any] = {}
    least = _latest(before)
    if metadata.last_updated_ms < least:
        changed["last_updated_ms"] = least
    log = list(metadata.snapshot_log)
    if log and log[-1].timestamp_ms < least and len(log) > len(before.snapshot_log):
        log[-1] = log[-1].model_copy(update={"timestamp_ms": least})
        changed["snapshot_log"] = log
    return metadata.model_copy(update=changed) if changed else metadata
