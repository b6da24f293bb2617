"""Which version of which application's rows a task writes: what makes a write idempotent.

The names are those of Delta's options. A stream that is idempotent takes the query's id and the
micro-batch's, which Spark keeps in the checkpoint and gives to tasks as local properties.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyrmq.errors import ClientError

if TYPE_CHECKING:
    from spark_ext.options import Options

QUERY_ID = "sql.streaming.queryId"
"""Local property of a task: the id of its query, the same after a restart. [StreamExecution]"""
BATCH_ID = "streaming.sql.batchId"
"""Local property of a task: the micro-batch. [MicroBatchExecution]"""


@dataclass(frozen=True)
class Txn:
    """What one task writes."""

    app: str
    version: int
    partition: int

    def to_engine(self) -> tuple[str, int, int]:
        """As the engine takes it."""
        return self.app, self.version, self.partition


@dataclass(frozen=True)
class TxnRule:
    """Where a task takes its Txn from; travels to the tasks. Without an application: from Spark's
    properties of a stream."""

    app: str | None = None
    version: int = 0

    @classmethod
    def of(cls, options: Options) -> TxnRule | None:
        """By the options of a write; None for a write that is not idempotent."""
        values = options.of_all()
        if values["txnAppId"] is not None:
            return cls(values["txnAppId"], values["txnVersion"])
        return cls() if values["idempotent"] else None

    def here(self) -> Txn:
        """That of the running task. Outside of Spark there is one partition. Raises ClientError if
        Spark does not say which micro-batch this is."""
        from pyspark import TaskContext

        context = TaskContext.get()
        partition = 0 if context is None else context.partitionId()
        if self.app is not None:
            return Txn(self.app, self.version, partition)
        query = context and context.getLocalProperty(QUERY_ID)
        batch = context and context.getLocalProperty(BATCH_ID)
        if not query or not batch or not batch.isdecimal():
            raise ClientError(
                "option idempotent needs a streaming query of micro-batches: Spark gave this task "
                f"the query {query!r} and the micro-batch {batch!r}; in foreachBatch use options "
                "txnAppId and txnVersion"
            )
        return Txn(query, int(batch), partition)
