"""Runs: what a topic has and its table has not, one commit after the other, whatever the table is
made of."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Protocol

from pyrmq.segments.ahead import ahead
from pyrmq.tables.commit import Waiting
from pyrmq.tables.counting import Counted, Gap
from pyrmq.tables.ends import Ends
from pyrmq.tables.errors import CatalogAwayError, OutcomeUnknownError, TableConflictError
from pyrmq.tables.parquet import Writer
from pyrmq.tables.source import Source

COMMIT_BYTES = 4 << 30
"""Bytes of rows (as Arrow) after which a run is committed though there is more."""


class Stage(Protocol):
    """What else is done with the rows of each commit, such as the decoding of bodies."""

    def begin(self, table: Any, ends: Ends | None) -> Any:
        """Before the first batch of a commit; returns the pyarrow.Schema of the rows."""

    def change(self, batch: Any) -> Iterator[Any]:
        """The rows of the table, of a batch of the source; in several batches if they are much."""

    def commit(self, ends: Ends, waiting: Waiting) -> None:
        """Right before the commit of the table, with the ends that it is to have."""

    def discard(self) -> None:
        """The commit failed, or has nothing: what was written for it is deleted."""

    def committed(self) -> None:
        """The table has the rows."""


@dataclass
class Added:
    """What a call added."""

    commits: int = 0
    rows: int = 0
    """Messages that were read; those of the table, if nothing is left out."""
    files: int = 0
    bytes: int = 0
    """Of the files."""
    races: int = 0
    """Runs that another writer overtook."""
    dead: int = 0
    """Bodies that do not fit, in the table of these."""
    skipped: int = 0
    """Bodies that do not fit and were left out."""
    left: int = 0
    """Messages that were read and are not in this table: the two above, and those that the table of
    dead bodies had before."""
    cleaned: int = 0
    """Files of killed runs that were deleted."""
    gaps: list[Gap] = field(default_factory=list)


class BaseRun:
    """Writes a table from a source. One object for one process; `stop` says whether to end at the
    next place where that loses no work."""

    def __init__(
        self,
        source: Source,
        columns: Any,
        *,
        stage: Stage | None = None,
        waiting: Waiting | None = None,
        stop: Callable[[], bool] = lambda: False,
        commit_bytes: int = COMMIT_BYTES,
    ) -> None:
        """`columns`: pyarrow.Schema of the rows that are written: with `stage` of what that
        returns."""
        self._source, self._columns = source, columns
        self._stage = stage
        self._waiting = waiting or Waiting()
        self._stop = stop
        self._most = commit_bytes
        self._at: tuple[Ends | None, Any] | None = None
        """Ends of the table, and the source's position behind them."""
        self._checked = False
        self._is_first = False
        """Whether this call has begun the table."""
        self.added = Added()

    # What each kind of table does in its way.

    def _load(self) -> tuple[Any, Ends | None]:
        """The table as it is now, and what it has. Errors for one that does not fit."""
        raise NotImplementedError

    def _prepare(self, table: Any, ends: Ends | None) -> None:
        """Before anything is read for a commit."""

    def _writer(self, table: Any, commit: str) -> Writer:
        """What takes the rows of a commit."""
        raise NotImplementedError

    def _staged(
        self, table: Any, commit: str, files: list[Any], ends: Ends | None, counted: Counted
    ) -> Any:
        """What `_commit` adds; it has `files`, and as `ends` those that the table is to have."""
        raise NotImplementedError

    def _commit(self, table: Any, staged: Any, writer: Writer) -> Any:
        """Adds the files; returns the table with them. After OutcomeUnknownError they may be in it;
        TableConflictError: another writer was first."""
        raise NotImplementedError

    def _committed(self, table: Any) -> None:
        """After a commit."""

    # What all of them do.

    def catch_up(self) -> None:
        """Commits what is in the log now, or less if `stop` says so. What comes meanwhile is left
        to the next call: else each look would find a few messages, and commit them.
        CatalogAwayError if the catalog could not be reached for the time of `waiting`."""
        self._source.pin()
        self._checked = self._is_first = False
        while not self._stop():
            try:
                more = self._one()
            except OutcomeUnknownError:
                raise
            except CatalogAwayError:
                if not self._waiting.again():
                    raise
            else:
                self._waiting.done()
                if not more:
                    return

    def _one(self) -> bool:
        """One commit; False if there was nothing to read."""
        table, ends = self._load()
        start = self._start(ends)
        if start is None:
            return False
        self._prepare(table, ends)
        self._is_first = self._is_first or ends is None
        counted = Counted(ends or Ends(self._source.topic), self._is_first)
        commit = str(uuid.uuid4())
        writer = self._writer(table, commit)
        try:
            position = self._read(start, counted, writer)
            if not counted.rows:
                self._discard(writer)
                self._at = ends, position
                return False
            staged = self._staged(table, commit, writer.close(), ends, counted)
        except BaseException:
            self._at = None
            self._discard(writer)
            raise
        self._at = None
        try:
            table = self._commit(table, staged, writer)
        except OutcomeUnknownError:
            raise  # the files may be in the table
        except TableConflictError:
            self._discard(writer)
            self.added.races += 1
            return True
        except Exception:
            self._discard(writer)
            raise
        if self._stage is not None:
            self._stage.committed()
        self._at = staged.ends, position
        self.added.commits += 1
        self.added.rows += counted.rows
        self.added.files += len(staged.files)
        self.added.bytes += writer.bytes
        self.added.gaps += counted.gaps
        self._committed(table)
        return True

    def _discard(self, writer: Writer) -> None:
        writer.discard()
        if self._stage is not None:
            self._stage.discard()

    def _start(self, ends: Ends | None) -> Any:
        """Where to read from; None if there is nothing to read. Each `catch_up` that finds messages
        checks first that the log is still the one that the table is of."""
        if self._at is not None and self._at[0] == ends:
            position = self._at[1]
            if self._checked:
                return position
            if self._source.next(position) == position:
                return None
        position = self._source.start(ends)
        self._checked = True
        self._at = ends, position
        return position

    def _read(self, start: Any, counted: Counted, writer: Writer) -> Any:
        """Reads until there is enough for a commit; returns the position behind it."""
        position, size = start, 0
        while size < self._most:
            end = self._source.next(position)
            if end == position:
                break
            with closing(ahead(self._source.batches(position, end))) as batches:
                for batch in batches:
                    counted.add(batch)
                    size += batch.nbytes
                    for rows in [batch] if self._stage is None else self._stage.change(batch):
                        writer.write(rows)
            position = end
            if self._stop():
                break
        return position
