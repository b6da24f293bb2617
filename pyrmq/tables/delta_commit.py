"""The commit that adds files to a Delta table, together with the ends of the queues.

The transaction number of the topic (`txn` of Delta) grows with each commit, and no commit of ours
is put on top of another one that we have not seen: of two writers one wins.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pyrmq.escape import escape
from pyrmq.tables.commit import RACES, Waiting
from pyrmq.tables.counting import Gap
from pyrmq.tables.delta import Place, app_id, ends_of, properties, transaction
from pyrmq.tables.durable import sync_folder
from pyrmq.tables.ends import COMMIT, ENDS, LOST, TOPIC, Ends
from pyrmq.tables.errors import (
    CatalogAwayError,
    CatalogError,
    OutcomeUnknownError,
    TableConflictError,
)

LOG = "_delta_log"
_KEPT = "run again when the table can be reached: nothing is lost or added twice"


def has_commit(table: Any, commit: str, after: int) -> bool:
    """Whether an entry of the log after a version is of this commit."""
    count = table.version() - after
    return count > 0 and any(one.get(COMMIT) == commit for one in table.history(count))


@dataclass(frozen=True)
class Staged:
    """What a commit adds."""

    commit: str
    files: Sequence[Any]
    """AddActions of deltalake."""
    before: Ends | None
    ends: Ends
    version: int
    """Of the table when the messages were read."""
    partitions: Sequence[str]
    schema: Any
    """deltalake's Schema of the table."""
    gaps: Sequence[Gap] = ()


def commit(place: Place, staged: Staged, waiting: Waiting) -> Any:
    """Adds the files; returns the table. Errors mean what they mean for Iceberg (`commit.commit`):
    only after OutcomeUnknownError the files must stay."""
    unknown, races = False, 0
    while True:
        table = _reloaded(place, waiting, unknown)
        if has_commit(table, staged.commit, staged.version):
            return table
        if ends_of(table) != staged.before:
            raise TableConflictError(
                f"another writer added messages to Delta table {place.shown}",
                "continue from its new ends",
            )
        if (table.schema(), table.metadata().partition_columns) != (
            staged.schema,
            list(staged.partitions),
        ):
            text = f"the columns of Delta table {place.shown} were changed"
            kind = OutcomeUnknownError if unknown else TableConflictError
            raise kind(text, "write the files again")
        try:
            _attempt(table, staged)
        except Exception as error:
            if _refused(error):
                races += 1
                if races > RACES:
                    text = f"Delta table {place.shown} was changed {races} times during one commit"
                    kind = OutcomeUnknownError if unknown else TableConflictError
                    raise kind(text, "let one process write to it") from None
                continue
            unknown = True
            if not waiting.again():
                raise OutcomeUnknownError(
                    f"the commit to Delta table {place.shown} failed: {escape(error)[:400]}", _KEPT
                ) from None
        else:
            waiting.done()
            try:
                _sync(place, table)
            except OSError as error:
                # The files are in the table: whoever deletes them makes it unreadable.
                raise OutcomeUnknownError(
                    f"Delta table {place.shown} has the commit, and its log may not be on the "
                    f"disk: {escape(error)}",
                    _KEPT,
                ) from None
            return table


def _attempt(table: Any, staged: Staged) -> None:
    topic = staged.ends.topic
    number = (table.transaction_version(app_id(topic)) or 0) + 1
    said = {TOPIC: topic, ENDS: staged.ends.to_json(), COMMIT: staged.commit}
    if staged.gaps:
        said[LOST] = json.dumps([asdict(gap) for gap in staged.gaps], separators=(",", ":"))
    table.create_write_transaction(
        list(staged.files),
        "append",
        table.schema(),
        list(staged.partitions),
        commit_properties=properties(said, [transaction(topic, number)]),
    )


def _refused(error: Exception) -> bool:
    """Whether another commit was first: delta-rs says so, and nothing was committed."""
    return type(error).__name__ == "CommitFailedError"


def _reloaded(place: Place, waiting: Waiting, unknown: bool) -> Any:
    while True:
        try:
            found = place.find()
        except CatalogError as error:
            if waiting.again():
                continue
            kind = OutcomeUnknownError if unknown else CatalogAwayError
            raise kind(str(error.args[0]), _KEPT) from None
        if found is None:
            kind = OutcomeUnknownError if unknown else CatalogAwayError
            raise kind(f"Delta table {place.shown} is gone", _KEPT)
        return found


def _sync(place: Place, table: Any) -> None:
    """delta-rs does not sync what it writes. `table`: as it was loaded before the commit, which is
    the next version. OSError."""
    local = place.local()
    if local is None:
        return
    folder = os.path.join(local, LOG)
    with open(os.path.join(folder, f"{table.version() + 1:020}.json"), "rb") as file:
        os.fsync(file.fileno())
    sync_folder(folder)
