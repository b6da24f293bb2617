"""One task of the sink: batches of rows go to brokers, in a worker of Spark or in this process.

Few rows are spread: the engine fills a request as far as it may, so rows that make one batch would
all go into one queue.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

from pyrmq.engine import SendRows
from pyrmq.errors import MessageIllegalError, PyrmqError
from pyrmq.net.address import own_ip
from spark_ext.broker.access import credentials_of, tls_of
from spark_ext.broker.cluster import Access, Cluster
from spark_ext.sink.send import Sender, SendSettings, Totals
from spark_ext.sink.txn import TxnRule

if TYPE_CHECKING:
    from pyarrow import RecordBatch

    from spark_ext.options import Options

PINNED = frozenset({"queueid", "shardingkey"})
"""Columns that say which queue a row goes to."""
PARTS = 8
"""Requests that few rows of an idempotent write become: as many when they are sent again, also if
the topic's queues have changed."""


@dataclass(frozen=True)
class Task:
    """What all tasks of a query do alike; can be sent to another process."""

    send: SendSettings
    topic: str | None
    rows: dict[str, Any]
    """How rows become messages: arguments of SendRows."""
    txn: TxnRule | None
    """How rows are told apart from those of other writes; None: the write is not idempotent."""

    @classmethod
    def of(cls, options: Options) -> Task:
        """By the options of a write."""
        send = SendSettings(
            Access(
                options["nameServer"],
                options["sendMsgTimeout"] / 1000,
                options["retryTimesWhenSendFailed"],
                credentials=credentials_of(options),
                tls=tls_of(options),
            ),
            options["producerGroup"] or f"pyrmq-spark-{uuid.uuid4().hex[:16]}",
            options["sendInFlight"],
            options["retryAnotherBrokerWhenNotStoreOK"],
        )
        rows = {
            "wait": options["waitStoreMsgOK"],
            "drop_system": options["systemProperties"] == "drop",
            "max_message_size": options["maxMessageSize"],
            "batch_bytes": options["sendBatchBytes"],
        }
        return cls(send, options["topic"], rows, TxnRule.of(options))

    def write(self, batches: Iterable[RecordBatch]) -> Totals:
        """Sends all rows. Raises MessageIllegalError for a row that cannot be a message, before
        anything of its Arrow batch is sent, and SinkError for rows that were not stored; row
        numbers count from 0 in the task."""
        host, row = own_ip(), 0
        txn = None if self.txn is None else self.txn.here().to_engine()
        with Cluster(self.send.access) as cluster:
            sender = Sender(cluster, self.send, idempotent=txn is not None)
            try:
                for batch, alone in with_alone(iter(batches)):
                    now = time.time_ns() // 1_000_000
                    how = {"host": host, "now_ms": now, "topic": self.topic, **self.rows}
                    how["txn"] = txn
                    whole = SendRows(batch, first_row=row, **how)
                    parts = 1
                    if alone and _may_spread(batch):
                        parts = sender.queues(whole.topics) if txn is None else PARTS
                    if parts > 1:
                        for first, part in pieces(batch, parts):
                            sender.send(SendRows(part, first_row=row + first, **how))
                    else:
                        sender.send(whole)
                    row += whole.rows
                sender.finish()
            except MessageIllegalError as error:
                with contextlib.suppress(PyrmqError):
                    sender.finish()
                error.add_note(f"{sender.totals.messages} messages of this task were sent before")
                raise
        return sender.totals


def with_alone(batches: Iterator[RecordBatch]) -> Iterator[tuple[RecordBatch, bool]]:
    """Each batch that has rows, and whether it is all that there is."""
    full = (batch for batch in batches if batch.num_rows)
    first = next(full, None)
    if first is None:
        return
    second = next(full, None)
    yield first, second is None
    if second is not None:
        yield from ((batch, False) for batch in chain([second], full))


def _may_spread(batch: RecordBatch) -> bool:
    return not PINNED.intersection(name.lower() for name in batch.schema.names)


def pieces(batch: RecordBatch, parts: int) -> list[tuple[int, RecordBatch]]:
    """A batch in so many pieces of about the same size, each with its first row's number."""
    count = min(parts, batch.num_rows)
    cuts = [batch.num_rows * n // count for n in range(count + 1)]
    return [(low, batch.slice(low, high - low)) for low, high in pairwise(cuts)]
