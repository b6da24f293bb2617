"""Bodies on their way into a table: the columns, and what becomes of those that do not fit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyrmq.escape import escape
from pyrmq.tables.bodies.dead import DeadTable, Known
from pyrmq.tables.bodies.decoder import ERROR
from pyrmq.tables.bodies.plan import BodyPlan
from pyrmq.tables.catalog import Catalog
from pyrmq.tables.commit import Waiting
from pyrmq.tables.ends import Ends
from pyrmq.tables.errors import TableError

if TYPE_CHECKING:
    import pyarrow

SUSPEND, SKIP, DLQ = ON_ERROR = ("suspend", "skip", "dlq")


class BodyError(TableError):
    """A body does not fit its schema, and the job is to stop then."""


class Staging:
    """The part of a run that decodes bodies. For each commit: `begin`, `change` for each batch,
    `commit` before the commit of the table, or `discard`."""

    def __init__(
        self,
        plan: BodyPlan,
        catalog: Catalog,
        table: str,
        topic: str,
        messages: pyarrow.Schema,
        on_error: str = SUSPEND,
    ) -> None:
        """`messages`: the schema of the batches that `change` gets."""
        if on_error not in ON_ERROR:
            raise TableError(f"--on-error {on_error}", f"expected {', '.join(ON_ERROR)}")
        self.plan = plan
        self.dead = DeadTable(catalog, table, topic, messages)
        self._messages = messages
        self._on_error = on_error
        self._known = Known()
        self._pending = 0
        self.skipped = 0
        """Bodies that were left out, in what was committed."""
        self._left = 0
        self.left = 0
        """Messages that the table did not get, in what was committed."""

    def begin(self, table: Any, ends: Ends | None) -> pyarrow.Schema:
        """The columns of the rows that `change` returns, as the table has them."""
        self._known = self.dead.open(ends, self._on_error == DLQ)
        self._pending = self._left = 0
        self.plan.fit(table)
        return self.plan.columns(self._messages)

    def change(self, batch: pyarrow.RecordBatch) -> Iterator[pyarrow.RecordBatch]:
        """The rows of the table. BodyError if a body does not fit and the job is to stop."""
        self._left += len(batch)
        if self._known:
            batch = self._known.without(batch, self.dead.name)
        for found in self.plan.stage(batch):
            if len(found.bad):
                self._take(found.bad)
            self._left -= len(found.good)
            yield found.good

    def commit(self, ends: Ends, waiting: Waiting) -> None:
        """Before the table is committed, with the ends that it is to have."""
        self.dead.commit(ends, waiting)

    def discard(self) -> None:
        """Deletes the files of what `commit` has not committed."""
        self.dead.discard()

    def committed(self) -> None:
        """The table has the rows."""
        self.skipped += self._pending
        self.left += self._left
        self._pending = self._left = 0

    def _take(self, bad: pyarrow.RecordBatch) -> None:
        if self._on_error == DLQ:
            self.dead.write(bad)
        elif self._on_error == SKIP:
            self._pending += len(bad)
        else:
            first = {
                name: bad.column(name)[0].as_py()
                for name in ("brokerName", "queueId", "queueOffset", ERROR)
            }
            raise BodyError(
                f"the message at offset {first['queueOffset']} of queue {first['queueId']} of "
                f"{escape(first['brokerName'])}: {first[ERROR]}",
                "mend the schema and run again, or take --on-error dlq, which keeps such messages "
                f"in {self.dead.name}; nothing of this commit is in the table",
            )
