"""The commit that replaces data files of a table by others with the same rows.

Its snapshot has the operation `replace`: readers of changes pass over it. pyiceberg has no such
commit, so its parts are put together here, for one attempt on one state of the table; who calls
decides what a lost race means. The ends of the table stay in the ancestors and in the property.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyrmq.tables import private

REPLACED = "pyrmq.replaced"
"""In the summary of the snapshot: a uuid, made for each replacement."""


class Replacement:
    """The commit of one replacement, on the state of the table that is loaded. Making it writes
    manifests; nothing is committed then."""

    def __init__(self, table: Any, removed: Sequence[Any], added: Sequence[Any], uuid: str) -> None:
        """Raises pyiceberg's ValidationException if the table does not have a removed file."""
        self._table = table
        self._producer = private.replacing(table, {REPLACED: uuid})
        for file in removed:
            self._producer.delete_data_file(file)
        for file in added:
            self._producer.append_data_file(file)
        try:
            self._updates, self._needs = private.changes(self._producer)
        except BaseException:
            private.clean(self._producer)
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
            private.clean(self._producer)
            raise
        self._table.refresh()


def was_committed(table: Any, uuid: str) -> bool:
    """Whether a snapshot of the table, as it is loaded, is of this replacement."""
    return any(
        one.summary is not None and one.summary.additional_properties.get(REPLACED) == uuid
        for one in table.metadata.snapshots
    )
