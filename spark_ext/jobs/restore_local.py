"""Sending an archive in this process, with what the sink's tasks send with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyrmq.model.properties import SYSTEM_PROPERTIES
from spark_ext.option import Query
from spark_ext.options import Options
from spark_ext.sink.task import Task

if TYPE_CHECKING:
    from spark_ext.jobs.local import LocalEngine, LocalTable

ROWS = 10_000
"""Rows of a batch, as Spark hands them to the sink."""
_MESSAGES = """
SELECT topic, tags, keys,
    map_from_entries(list_filter(map_entries(properties), lambda e: e.key NOT IN (OWN)))
        AS properties, body, flag, queueId
FROM {archived} m WHERE octet_length(body) > 0
ORDER BY m.topic, m.brokerName, m.queueId, m.commitLogOffset, m.queueOffset
"""
OWN = ", ".join(f"'{name}'" for name in ("", *sorted(SYSTEM_PROPERTIES)))


def send(
    engine: LocalEngine,
    runs: Iterable[LocalTable],
    options: Mapping[str, str],
    to: str | None,
    keep_queues: bool,
) -> None:
    """Sends runs one after the other, each queue's messages in their order: a run goes on where the
    one before ended. What a run holds is sorted by DuckDB, in temporary files where it is large."""
    task = Task.of(Options({"topic": to, **options} if to else options, Query.WRITE))
    task.write(batch for run in runs for batch in messages(engine, run, keep_queues))


def messages(engine: LocalEngine, archived: LocalTable, keep_queues: bool = False) -> Iterator[Any]:
    """Batches for the sink, of all messages with a body: the columns that restore_spark.messages
    gives, queue by queue and in order."""
    text = _MESSAGES.replace("OWN", OWN).replace(
        ", queueId\n", ", queueId\n" if keep_queues else "\n"
    )
    return engine.batches(engine.sql(text, archived=archived), ROWS)
