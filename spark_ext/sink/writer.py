"""The sink: rows become messages, in batch and streaming queries.

At least once: a task reports success to Spark only when every message was acknowledged. A task
or a micro-batch that Spark runs again sends its rows again, with other unique keys. Nothing can be
taken back: what was acknowledged before a failure stays.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from pyrmq.errors import ConfigError
from pyrmq.escape import escape
from spark_ext.progress import visible
from spark_ext.sink import columns as sink_columns
from spark_ext.sink.task import Task
from spark_ext.worker import VersionCheckedPickle, prepare

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql.types import StructType

    from spark_ext.options import Options

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TaskWritten(WriterCommitMessage):
    """What one task wrote, all of it acknowledged.

    queues: (topic, broker, queue id, messages, first offset, last offset); between first and last
    there may be messages of others. not_store_ok: messages that were stored, but not flushed or
    replicated in time.
    """

    messages: int
    nbytes: int
    not_store_ok: int
    queues: tuple[tuple[str, str, int, int, int, int], ...]


class _Writer(VersionCheckedPickle):
    """What both writers have in common."""

    def __init__(self, options: Options, schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise ConfigError(
                "messages cannot be overwritten: write with mode append (outputMode append)"
            )
        sink_columns.check(schema, options["topic"])
        self._task = Task.of(options)

    def write(self, iterator: Iterator[RecordBatch]) -> WriterCommitMessage:
        """Runs in a task. Raises what `Task.write` does."""
        prepare()
        totals = self._task.write(iterator)
        return TaskWritten(
            totals.messages,
            totals.nbytes,
            totals.not_store_ok,
            tuple(
                (q.topic, q.broker_name, q.queue_id, s.messages, s.first, s.last)
                for q, s in sorted(totals.queues.items())
            ),
        )

    def _summary(self, messages: Sequence[WriterCommitMessage | None]) -> str:
        """What tasks wrote, for the log."""
        visible(log)
        done = [m for m in messages if isinstance(m, TaskWritten)]
        count, nbytes = sum(m.messages for m in done), sum(m.nbytes for m in done)
        queues = {q[:3] for m in done for q in m.queues}
        topics = sorted({q[0] for q in queues})
        shown = ", ".join(topics[:8]) + (", ..." if len(topics) > 8 else "")
        text = f"{count} messages ({nbytes} bytes) to {len(queues)} queues of {shown or 'no topic'}"
        late = sum(m.not_store_ok for m in done)
        return text + (f"; {late} of them not flushed or replicated in time" if late else "")


class SinkWriter(_Writer, DataSourceArrowWriter):
    """The batch sink."""

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        log.info("rocketmq sink: wrote %s", escape(self._summary(messages)))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        written = self._summary(messages)
        log.warning("rocketmq sink: the write failed; finished tasks wrote %s", escape(written))


class StreamSinkWriter(_Writer, DataSourceStreamArrowWriter):
    """The streaming sink."""

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        log.info("rocketmq sink: batch %d wrote %s", batchId, escape(self._summary(messages)))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        written = self._summary(messages)
        log.warning(
            "rocketmq sink: batch %d failed; finished tasks wrote %s", batchId, escape(written)
        )
