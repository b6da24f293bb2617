"""The sink: rows become messages, in batch and streaming queries.

At least once: a task reports success to Spark only when every message was acknowledged. A task
or a micro-batch that Spark runs again sends its rows again, with other unique keys. If the write is
idempotent it leaves out what is stored. Nothing can be taken back: what was acknowledged before a
failure stays."""

from __future__ import annotations

import difflib
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
from spark_ext.sink.task import Task
from spark_ext.worker import VersionCheckedPickle, prepare

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql.types import StructType

    from spark_ext.options import Options


@dataclass(frozen=True)
class Column:
    """One column of rows that are written. `types`: those of Spark's DDL that are taken."""

    types: tuple[str, ...]
    doc: str
    """For docs/spark.md, in Markdown."""


COLUMNS: dict[str, Column] = {
    "body": Column(
        ("binary", "string"), "the message; the only required column, never null or empty"
    ),
    "topic": Column(
        ("string",),
        "topic of the row; option `topic` has precedence; without the option every row needs it",
    ),
    "tags": Column(("string",), "one tag"),
    "keys": Column(("string",), "keys, separated by blanks"),
    "properties": Column(
        ("map<string,string>",),
        "user properties; pairs with a null or empty value are dropped",
    ),
    "shardingKey": Column(
        ("string",),
        "rows with the same key go to one queue, in order (see below); stored as `__SHARDINGKEY`",
    ),
    "brokerName": Column(("string",), "the target broker; has precedence over the sharding key"),
    "queueId": Column(("int", "bigint"), "the target queue; has precedence over the sharding key"),
    "delayTimeLevel": Column(
        ("int", "bigint"),
        "delay level, 1 to 18 (`messageDelayLevel` of the broker); null or 0: none",
    ),
    "flag": Column(("int", "bigint"), "flag of the message; default 0"),
}
"""All of them; the engine's list is native/crates/arrow/src/send_rows.rs."""


def check(schema: StructType, topic: str | None) -> None:
    """ConfigError unless rows of this schema can be messages. `topic`: the option."""
    by_fold = {name.lower(): name for name in COLUMNS}
    seen: set[str] = set()
    for field in schema.fields:
        name = by_fold.get(field.name.lower())
        if name is None:
            raise ConfigError(f"column {field.name!r} cannot be written{_near(field.name)}")
        if name in seen:
            raise ConfigError(f"there are two columns {name}")
        seen.add(name)
        kind = field.dataType.simpleString()
        if kind not in COLUMNS[name].types:
            wanted = " or ".join(COLUMNS[name].types)
            raise ConfigError(f"column {field.name} is {kind}, it has to be {wanted}: cast it")
    if "body" not in seen:
        raise ConfigError(f"there is no column body, which every message needs; {_known()}")
    if topic is None and "topic" not in seen:
        raise ConfigError("messages need a topic: set option topic, or add a column topic")


def _near(name: str) -> str:
    by_fold = {known.lower(): known for known in COLUMNS}
    near = difflib.get_close_matches(name.lower(), by_fold, 1, 0.5)
    hint = f": did you mean {by_fold[near[0]]}? " if near else ": leave it out, or rename it; "
    return hint + _known()


def _known() -> str:
    each = ", ".join(f"{name} ({' or '.join(c.types)})" for name, c in COLUMNS.items())
    return f"columns of a message are {each}"


log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TaskWritten(WriterCommitMessage):
    """What one task wrote, all of it acknowledged.

    queues: (topic, broker, queue id, messages, first offset, last offset); between first and last
    there may be messages of others. not_store_ok: messages that were stored, but not flushed or
    replicated in time. skipped: messages that an earlier try of the task had stored.
    """

    messages: int
    nbytes: int
    not_store_ok: int
    queues: tuple[tuple[str, str, int, int, int, int], ...]
    skipped: int = 0


class _Writer(VersionCheckedPickle):
    """What both writers have in common."""

    def __init__(self, options: Options, schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise ConfigError(
                "messages cannot be overwritten: write with mode append (outputMode append)"
            )
        check(schema, options["topic"])
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
            totals.skipped,
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
        if skipped := sum(m.skipped for m in done):
            text += f"; {skipped} more were stored already"
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
