"""The sink: rows become messages, in batch and streaming queries.

At least once: a task reports success to Spark only when every message was acknowledged. A task
or a micro-batch that Spark runs again sends its rows again, with other unique keys. Nothing can be
taken back: what was acknowledged before a failure stays.
"""

from __future__ import annotations

import contextlib
import logging
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from pyrmq.engine import SendRows
from pyrmq.errors import ConfigError, MessageIllegalError, PyrmqError
from pyrmq.escape import escape
from pyrmq.net.address import own_ip
from spark_ext.broker.cluster import Access, Cluster
from spark_ext.progress import visible
from spark_ext.sink import columns as sink_columns
from spark_ext.sink.send import Sender, SendSettings
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
        self._topic: str | None = options["topic"]
        self._send = SendSettings(
            Access(
                options["nameServer"],
                options["sendMsgTimeout"] / 1000,
                options["retryTimesWhenSendFailed"],
            ),
            options["producerGroup"] or f"pyrmq-spark-{uuid.uuid4().hex[:16]}",
            options["sendInFlight"],
            options["retryAnotherBrokerWhenNotStoreOK"],
        )
        self._rows: dict[str, Any] = {
            "topic": self._topic,
            "wait": options["waitStoreMsgOK"],
            "drop_system": options["systemProperties"] == "drop",
            "max_message_size": options["maxMessageSize"],
            "batch_bytes": options["sendBatchBytes"],
        }

    def write(self, iterator: Iterator[RecordBatch]) -> WriterCommitMessage:
        """Runs in a task. Raises MessageIllegalError for a row that cannot be a message, before
        anything of its Arrow batch is sent, and SinkError for rows that were not stored; row
        numbers count from 0 in the task's partition."""
        prepare()
        host, row = own_ip(), 0
        with Cluster(self._send.access) as cluster:
            sender = Sender(cluster, self._send)
            try:
                for batch in iterator:
                    now = time.time_ns() // 1_000_000
                    rows = SendRows(batch, host=host, now_ms=now, first_row=row, **self._rows)
                    row += rows.rows
                    sender.send(rows)
                sender.finish()
            except MessageIllegalError as error:
                with contextlib.suppress(PyrmqError):
                    sender.finish()
                error.add_note(f"{sender.totals.messages} messages of this task were sent before")
                raise
        totals = sender.totals
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
