"""Files and the ends of the queues into a table, in one snapshot.

The commit requires that the table's branch `main` still is where it was when the ends were read: so
of two writers one wins, whatever the order of their files. Whether a commit that failed has arrived
after all is asked of the table, by the uuid in the summary. Until that is known the same files are
committed again, and never deleted: only one of these attempts can succeed, as all require the same
snapshot.
"""

from __future__ import annotations

import errno
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pyrmq.tables import leftovers
from pyrmq.tables.catalog import Catalog, is_away, sqlite_busy, sqlite_refused
from pyrmq.tables.counting import Gap
from pyrmq.tables.ends import COMMIT, ENDS, LOST, TOPIC, Ends, ancestors, ends_of
from pyrmq.tables.errors import (
    CatalogAwayError,
    CatalogError,
    OutcomeUnknownError,
    TableConflictError,
    TableError,
)

WAIT = 300.0
"""Seconds that a catalog is waited for."""
PAUSE, LONGEST_PAUSE = 0.2, 30.0
"""Seconds between two attempts: the first pause, which doubles, and the longest."""
RACES = 50
"""Commits of others that a commit gives way to."""
MERGE = "commit.manifest-merge.enabled"
"""Iceberg's property: whether a commit merges small manifests."""
_RETRIES = "commit.retry.num-retries"
_REFUSED = ("CommitFailedException", "ValidationException")
"""pyiceberg's errors for a commit that lost a race."""
_REFUSED_BY_NAME = ("BadRequestError", "ForbiddenError", "UnauthorizedError", "NoSuchTableError")
"""Its errors for answers that say that nothing was done."""
_LOCAL = (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS, errno.EPERM)


@dataclass(frozen=True)
class Staged:
    """What a commit adds."""

    commit: str
    """A uuid; the names of the files have it."""
    files: Sequence[Any]
    """DataFiles of pyiceberg, complete."""
    before: Ends | None
    """The ends of the table when the messages were read."""
    ends: Ends
    """The ends with these files."""
    spec_id: int
    """Partition spec of the files."""
    schema_id: int
    table_uuid: str
    gaps: Sequence[Gap] = ()


class Waiting:
    """Pauses between attempts, for at most `limit` seconds in a row. `sleep` returns True if it was
    interrupted: then nobody waits any more."""

    def __init__(self, limit: float = WAIT, sleep: Callable[[float], bool] | None = None) -> None:
        self._limit = limit
        self._sleep = sleep or _sleep
        self._since: float | None = None
        self._pause = PAUSE

    def again(self) -> bool:
        """Waits; False if the time is over, or the wait was interrupted."""
        now = time.monotonic()
        if self._since is None:
            self._since = now
        left = self._since + self._limit - now
        if left <= 0:
            return False
        pause, self._pause = min(self._pause, left), min(self._pause * 2, LONGEST_PAUSE)
        return not self._sleep(pause)

    def done(self) -> None:
        """It went well: the next failure is the first one."""
        self._since, self._pause = None, PAUSE


def _sleep(seconds: float) -> bool:
    time.sleep(seconds)
    return False


def commit(catalog: Catalog, name: str, table: Any, staged: Staged, waiting: Waiting) -> Any:
    """Adds the files to the table; returns the table with them.

    OutcomeUnknownError: the catalog could not be reached in the time of `waiting`, and an attempt
    may still arrive. The files must stay: a later run deletes them if they are not in the table.
    After any other error they are in no snapshot and cannot come into one. TableConflictError:
    another writer changed ends, columns or partitions.
    """
    unknown = False
    races = 0
    while True:
        try:
            done = _attempt(table, staged)
            waiting.done()
            return done
        except Exception as error:
            failure = error
        refused = type(failure).__name__ in _REFUSED
        sure = refused or _is_sure(failure)
        unknown = unknown or not (sure or sqlite_busy(failure))
        if sure and not refused and not unknown:
            raise _shown(catalog, name, failure) from None
        races += refused
        if races > RACES:
            text = f"table {name} was changed {races} times while one commit was tried"
            raise _conflict(unknown, text, "let one process write to it")
        if not refused and not waiting.again():
            raise _away(catalog, name, failure, unknown) from None
        table = _reloaded(catalog, name, waiting, unknown)
        try:
            if has_commit(table, staged.commit) or (unknown and _has_files(table, staged)):
                waiting.done()
                return table
            _check_unmoved(table, name, staged, unknown)
        except TableConflictError:
            raise
        except Exception as error:
            if unknown and not isinstance(error, OutcomeUnknownError):
                raise _away(catalog, name, error, unknown) from None
            raise
        if not refused and not is_away(failure):
            raise _away(catalog, name, failure, unknown) from None


def has_commit(table: Any, commit: str) -> bool:
    """Whether a snapshot of the current branch is of this commit."""
    return any(
        snapshot.summary is not None and snapshot.summary.get(COMMIT) == commit
        for snapshot in ancestors(table)
    )


def _has_files(table: Any, staged: Staged) -> bool:
    """Whether a snapshot has a file of the commit: its own snapshot may be expired by now."""
    if ends_of(table) == staged.before:
        return False
    there = leftovers.referenced(table)
    return any(one.file_path.rpartition("/")[2] in there for one in staged.files)


def _attempt(table: Any, staged: Staged) -> Any:
    said = {TOPIC: staged.ends.topic, ENDS: staged.ends.to_json(), COMMIT: staged.commit}
    summary = dict(said)
    if staged.gaps:
        summary[LOST] = json.dumps([asdict(gap) for gap in staged.gaps], separators=(",", ":"))
    once = _once(table)
    transaction = once.transaction()
    update = transaction.update_snapshot(snapshot_properties=summary)
    merge = str(table.properties.get(MERGE, "false")).lower() == "true"
    with update.merge_append() if merge else update.fast_append() as append:
        for file in staged.files:
            append.append_data_file(file)
    transaction.set_properties(said)
    transaction.commit_transaction()
    return once


def _once(table: Any) -> Any:
    """The table without pyiceberg's own retries: they would add our files on top of those of
    another writer, which may have the same messages."""
    from pyiceberg.table import Table

    properties = {**table.metadata.properties, _RETRIES: "0"}
    metadata = table.metadata.model_copy(update={"properties": properties})
    return Table(
        table.name(), metadata, table.metadata_location, table.io, table.catalog, table.config
    )


def _is_sure(error: Exception) -> bool:
    """Whether an attempt that failed so cannot arrive any more: the catalog refused it, or a file
    of this machine could not be written before the catalog was asked."""
    if type(error).__name__ in _REFUSED_BY_NAME or sqlite_refused(error):
        return True
    return isinstance(error, OSError) and error.errno in _LOCAL and not is_away(error)


def _check_unmoved(table: Any, name: str, staged: Staged, unknown: bool) -> None:
    """TableConflictError if the files cannot be added to what the table is now."""
    if ends_of(table) != staged.before:
        # `main` moved, which every attempt so far requires it had not: none can arrive.
        raise TableConflictError(
            f"another writer added messages to table {name}", "continue from its new ends"
        )
    same = (table.spec().spec_id, table.schema().schema_id, str(table.metadata.table_uuid))
    if same != (staged.spec_id, staged.schema_id, staged.table_uuid):
        text = f"the columns or partitions of table {name} were changed, or it was made anew"
        raise _conflict(unknown, text, "write the files again")


def _reloaded(catalog: Catalog, name: str, waiting: Waiting, unknown: bool) -> Any:
    while True:
        try:
            return catalog.load(name)
        except CatalogAwayError as error:
            if not waiting.again():
                raise _away(catalog, name, error, unknown) from None
        except CatalogError as error:
            if not unknown:
                raise
            raise OutcomeUnknownError(str(error), _KEPT) from None


_KEPT = "run again when the catalog can be reached: nothing is lost or added twice"


def _conflict(unknown: bool, text: str, hint: str) -> TableError:
    return OutcomeUnknownError(text, _KEPT) if unknown else TableConflictError(text, hint)


def _away(catalog: Catalog, name: str, error: Exception, unknown: bool) -> CatalogError:
    shown = _shown(catalog, name, error)
    text = str(shown) if isinstance(shown, OSError) else shown.args[0]
    return OutcomeUnknownError(text, _KEPT) if unknown else CatalogAwayError(text, _KEPT)


def _shown(catalog: Catalog, name: str, error: Exception) -> Exception:
    """The error without credentials; those of local files as they are."""
    if isinstance(error, TableError):
        return error
    if isinstance(error, OSError) and error.errno is not None and not is_away(error):
        return error
    return catalog.error(f"the commit to table {name} failed", error)
