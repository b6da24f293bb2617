"""The commit that replaces data files of a table by others with the same rows.

Its snapshot has the operation `replace`: readers of changes pass over it. pyiceberg has no such
commit, so its parts are put together here, for one attempt on one state of the table; who calls
decides what a lost race means. The ends of the table stay in the ancestors and in the property.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

REPLACED = "pyrmq.replaced"
"""In the summary of the snapshot: a uuid, made for each replacement."""


class Replacement:
    """The commit of one replacement, on the state of the table that is loaded. Making it writes
    manifests; nothing is committed then."""

    def __init__(self, table: Any, removed: Sequence[Any], added: Sequence[Any], uuid: str) -> None:
        """Raises pyiceberg's ValidationException if the table does not have a removed file."""
        self._table = table
        self._producer = _producer(table, {REPLACED: uuid})
        for file in removed:
            self._producer.delete_data_file(file)
        for file in added:
            self._producer.append_data_file(file)
        try:
            self._updates, self._needs = self._producer._commit()
        except BaseException:
            self._producer._clean_all_uncommitted()
            raise

    def commit(self) -> None:
        """Raises pyiceberg's CommitFailedException if the table has changed since: nothing is
        committed. After another exception it may be committed or not."""
        from pyiceberg.exceptions import CommitFailedException
        from pyiceberg.table.update import AssertTableUUID

        needs = (*self._needs, AssertTableUUID(uuid=self._table.metadata.table_uuid))
        try:
            self._table.catalog.commit_table(self._table, needs, self._updates)
        except CommitFailedException:
            self._producer._clean_all_uncommitted()
            raise
        self._table.refresh()


def was_committed(table: Any, uuid: str) -> bool:
    """Whether a snapshot of the table, as it is loaded, is of this replacement."""
    return any(
        one.summary is not None and one.summary.additional_properties.get(REPLACED) == uuid
        for one in table.metadata.snapshots
    )


def _producer(table: Any, summary: dict[str, str]) -> Any:
    from pyiceberg.table.snapshots import Operation, Summary
    from pyiceberg.table.update.snapshot import _OverwriteFiles

    class Replace(_OverwriteFiles):
        def _summary(self, snapshot_properties: dict[str, str] = summary) -> Any:
            # pyiceberg counts totals for `overwrite`, which has the same parts.
            found = super()._summary(snapshot_properties)
            return Summary(operation=Operation.REPLACE, **found.additional_properties)

    return Replace(
        operation=Operation.OVERWRITE,
        transaction=table.transaction(),
        io=table.io,
        snapshot_properties=summary,
    )
