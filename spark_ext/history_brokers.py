"""The messages that a table does not have yet, through brokers: ranges of queues from the ends of
the table on."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyrmq.errors import DataLossError
from pyrmq.escape import escape
from pyrmq.model.message import MessageQueue
from pyrmq.tables.errors import TableStoreError
from spark_ext import selecting
from spark_ext.broker.cluster import Access, Cluster
from spark_ext.broker.partition import BrokerSplit
from spark_ext.broker.plan import access
from spark_ext.broker.pull import QueueRange
from spark_ext.broker.ranges import into_tasks
from spark_ext.broker.topics import place
from spark_ext.jobs.source import Source
from spark_ext.jobs.table_brokers import BrokerSource
from spark_ext.option import Query
from spark_ext.options import Options

if TYPE_CHECKING:
    from pyrmq.tables.history import Pinned
    from pyrmq.tables.rows import Rows

log = logging.getLogger(__name__)

_COLUMNS = ("brokerName", "queueId", "queueOffset", "storeTimestamp")


class BrokerTail:
    """Of one table. `given`: options of a batch read through brokers; those of the table's topic,
    offsets and times are not among them."""

    def __init__(self, pinned: Pinned, given: Mapping[str, str]) -> None:
        self._pinned = pinned
        self._text = {**given, "topic": pinned.topic}
        self._options = Options(self._text, Query.BROKER_BATCH)

    def ranges(self) -> dict[MessageQueue, tuple[int, int, int]]:
        """By queue the end of the table, and the first offset and the end of what the broker has.
        TableStoreError if a broker is away, or has not what the table was written from."""
        ends = self._pinned.ends
        self._check_identity()
        with Cluster(self._access()) as cluster:
            topic = self._pinned.topic
            queues = cluster.route(topic, fresh=True).subscribe_queues(topic)
            known = set() if ends is None else set(ends.brokers)
            missing = sorted(known - {queue.broker_name for queue in queues})
            if missing:
                self._without(missing[0])
            bounds = cluster.bounds(queues)
        found = {}
        for queue in sorted(bounds):
            least, most = bounds[queue]
            end = None if ends is None else ends.queue(queue.broker_name, queue.queue_id)
            begin = least if end is None else end.end
            if begin > most:
                raise TableStoreError(
                    f"table {self._pinned.name} has more than the broker: {escape(place(queue))} "
                    f"ends at {most}, and the table at {begin}",
                    "a replica answers that is behind, or the topic was made anew",
                )
            found[queue] = begin, least, most
        return found

    def splits(self, rows: Rows, columns: tuple[str, ...]) -> list[BrokerSplit]:
        """The tasks that read it, up to the present ends of the queues. DataLossError, with queue
        and offsets, for messages that are in neither."""
        todo = []
        fail = self._options["failOnDataLoss"]
        for queue, (begin, least, most) in self.ranges().items():
            if rows.brokers and queue.broker_name not in rows.brokers:
                continue
            if rows.queues and queue.queue_id not in rows.queues:
                continue
            if begin < least and fail:
                raise DataLossError(
                    f"table {self._pinned.name} has {escape(place(queue))} up to offset {begin}, "
                    f"and the broker from {least} on: what is between is lost"
                )
            start = max(begin, least)
            todo.append(QueueRange(queue.topic, queue.broker_name, queue.queue_id, start, most))
        how = selecting.build(self._options, columns, "map")
        tasks = into_tasks(
            todo, self._options["minPartitions"], self._options["maxRecordsPerPartition"]
        )
        size = self._options["pullBatchSize"]
        return [
            BrokerSplit(self._access(), task, how, rows.tags, *rows.times, size, fail)
            for task in tasks
        ]

    def oldest(self, starts: Mapping[MessageQueue, int]) -> dict[tuple[str, int], int]:
        """Store time in ms of the message at an offset of each queue, by broker and queue id."""
        import pyarrow

        ranges = [
            QueueRange(q.topic, q.broker_name, q.queue_id, n, n + 1) for q, n in starts.items()
        ]
        how = selecting.build(self._options, _COLUMNS, "map")
        found: dict[tuple[str, int], int] = {}
        for task in into_tasks(ranges, None):
            split = BrokerSplit(self._access(), task, how, None, None, None, 1, False)
            for batch in split.read():
                times = batch.column("storeTimestamp").cast(pyarrow.int64()).to_pylist()
                keys = zip(*(batch.column(n).to_pylist() for n in _COLUMNS[:2]), strict=True)
                for key, time in zip(keys, times, strict=True):
                    found.setdefault(key, time // 1000)
        return found

    def _without(self, broker: str) -> None:
        text = (
            f"table {self._pinned.name} has messages of broker {escape(broker)}, which the name "
            f"servers do not have as a broker of topic {escape(self._pinned.topic)}"
        )
        if self._options["failOnDataLoss"]:
            raise TableStoreError(
                text, "it is down, or the topic was deleted there: start it, or read stores"
            )
        log.warning("%s; continuing with what the table has of it", escape(text))

    def _access(self) -> Access:
        return access(self._options)

    def _check_identity(self) -> None:
        """TableStoreError, TableLossError."""
        skipped = ("nameserver", "topic", "failondataloss")
        given = {k: v for k, v in self._text.items() if k.lower() not in skipped}
        servers = next(v for k, v in self._text.items() if k.lower() == "nameserver")
        source = Source(name_server=servers, options=given)
        BrokerSource(source, self._pinned.topic, _COLUMNS, fail=False).start(self._pinned.ends)
