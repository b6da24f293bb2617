"""Planning a read through brokers, on the driver: what each task reads, and a stream's positions.

All offsets are fixed here, so that a task that is run again reads the same.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from pyrmq.errors import DataLossError, UnknownTopicError
from pyrmq.escape import escape
from pyrmq.model.codes import RequestCode
from pyrmq.model.message import MessageQueue
from spark_ext.broker import topics as broker_topics
from spark_ext.broker.access import credentials_of, tls_of
from spark_ext.broker.cluster import Access, Cluster
from spark_ext.broker.partition import BrokerSplit
from spark_ext.broker.pull import QueueRange
from spark_ext.broker.ranges import Position, from_position, into_tasks, share, to_position
from spark_ext.broker.topics import place
from spark_ext.option_names import option_names

if TYPE_CHECKING:
    from pyrmq.segments.read_options import ReadOptions
    from pyrmq.segments.selection import Selection
    from spark_ext.options import Options

log = logging.getLogger(__name__)

ANEW = 60.0
"""Seconds in which a queue may end below its position before it is taken to be made anew, with
failOnDataLoss=false: a broker that took over may have to catch up."""


def access(options: Options) -> Access:
    return Access(
        options["nameServer"],
        options["pullTimeoutMs"] / 1000,
        options["fetchOffset.numRetries"],
        options["fetchOffset.retryIntervalMs"] / 1000,
        credentials=credentials_of(options),
        tls=tls_of(options),
    )


class BrokerPlanner:
    """For one query; nothing stays open between calls."""

    def __init__(self, options: Options, selection: Selection, how: ReadOptions) -> None:
        self._access = access(options)
        self._selection = selection
        self._how = how
        self._min_partitions: int | None = options["minPartitions"]
        self._max_records: int | None = options["maxRecordsPerPartition"]
        self._batch_size: int = options["pullBatchSize"]
        self._fail: bool = options["failOnDataLoss"]
        self._pinned: dict[MessageQueue, int] | None = None
        self._missing: set[MessageQueue] = set()
        self._looked = False
        """Whether topics were warned about that are named and not there."""
        self._stands: dict[MessageQueue, int] = {}
        """Where the micro-batch ends that `latest` said last."""
        self._seen: dict[MessageQueue, int] = {}
        """Where the stream stands, as far as this process knows."""
        self._initial: dict[MessageQueue, int] | None = None
        """Where a new query starts."""
        self._first_is_empty = selection.starts_at_end
        """The first batch has nothing in it: Spark keeps its end, which is where the query starts
        then, also if it stops before the batch is done."""
        self._left: dict[MessageQueue, int] = {}
        """Starts of queues that a micro-batch's end did not name."""
        self._lower: dict[MessageQueue, float] = {}
        """Queues that end below their position, and when that was seen first."""

    @option_names()
    def batch(self) -> list[BrokerSplit]:
        """The tasks of a batch read. PyrmqError for what cannot be read as asked."""
        chosen = self._selection
        with Cluster(self._access) as cluster:
            queues = broker_topics.find_queues(cluster, chosen, may_come=False)
            bounds = cluster.bounds(queues)
            starts = broker_topics.starts(cluster, chosen, bounds, fail_on_data_loss=self._fail)
            ends = broker_topics.ends(cluster, chosen, bounds)
        return self._tasks(starts, ends, chosen.start_time, chosen.end_time)

    @option_names()
    def initial(self) -> Position:
        """Where a new stream starts; the same however often it is asked for, as Spark does so anew
        when it plans the first batch. SegmentOptionError for a queue of `assign` that is not there.
        """
        if self._initial is None:
            with Cluster(self._access) as cluster:
                queues = self._queues(cluster, new=True)
                bounds = cluster.bounds(queues)
                self._initial = broker_topics.starts(
                    cluster, self._selection, bounds, fail_on_data_loss=self._fail
                )
            self._seen.update(self._initial)
        return to_position(self._initial)

    def _queues(self, cluster: Cluster, *, new: bool = False) -> list[MessageQueue]:
        """Of a stream. At its start it warns of topics that are not there: a name may be wrong."""
        absent: list[UnknownTopicError] = []
        first, self._looked = not self._looked, True
        found = broker_topics.find_queues(
            cluster,
            self._selection,
            may_come=True,
            all_assigned=new,
            absent=absent.append if first else None,
        )
        for error in absent:
            log.warning("%s: nothing is read of it until it is there", escape(error))
        return found

    @option_names()
    def end_and_behind(self) -> tuple[Position, list[int]]:
        """The end of all queues now, and by how many messages each is beyond the end of the
        micro-batch that `latest` named last."""
        ends = self._ends({})
        behind = [max(0, end - self._stands.get(queue, end)) for queue, end in ends.items()]
        return to_position(ends), behind

    @option_names()
    def count(self, start: Position) -> int:
        """Messages from a position to the ends of the queues."""
        known = from_position(start)
        ends = self._ends(known)
        return sum(max(0, end - known.get(queue, 0)) for queue, end in ends.items())

    @option_names()
    def end(self) -> Position:
        """The end of all queues now."""
        return to_position(self._ends({}))

    @option_names()
    def pin(self) -> None:
        """From now on no position goes beyond what is there now (Trigger.AvailableNow)."""
        self._pinned = self._ends({})

    @option_names()
    def latest(self, start: Position | None, max_offsets: int | None = None) -> Position:
        """The end of the next micro-batch. `start` None: not known (PySpark 4.1), no limit then."""
        known = dict(self._seen) if start is None else from_position(start)
        first, self._first_is_empty = self._first_is_empty, False
        if first and start is not None and known == self._initial:
            self._stands = known
            return start
        ends = self._ends(known)
        if self._pinned is not None:
            ends = {
                queue: min(end, self._pinned.get(queue, known.get(queue, 0)))
                for queue, end in ends.items()
                if queue in self._pinned or queue in known
            }
        if max_offsets is not None:
            added = [queue for queue in ends if queue not in known]
            with Cluster(self._access) as cluster:
                begins = cluster.offsets(RequestCode.GET_MIN_OFFSET, added)
            ends = share(
                {**{q: min(begins[q], ends[q]) for q in added}, **known}, ends, max_offsets
            )
        self._seen.update(ends)
        self._stands = dict(ends)
        return to_position(ends)

    @option_names()
    def splits(self, start: Position, end: Position) -> list[BrokerSplit]:
        """The tasks of a micro-batch."""
        starts, ends = from_position(start), from_position(end)
        if starts == self._initial:
            # The query stopped in its first batch: Spark kept the end of that, and asks for its
            # start anew, which is behind it now. The next batch goes on from the end.
            starts = {q: min(offset, ends.get(q, offset)) for q, offset in starts.items()}
        self._keep(starts, ends)
        behind = [queue for queue, most in ends.items() if most != starts.get(queue, 0)]
        with Cluster(self._access) as cluster:
            begins = cluster.offsets(RequestCode.GET_MIN_OFFSET, behind)
        for queue in behind:
            self._check_start(queue, starts, begins[queue], ends[queue])
        return self._tasks({q: starts[q] for q in behind}, ends, None, None)

    def _keep(self, starts: Mapping[MessageQueue, int], ends: Mapping[MessageQueue, int]) -> None:
        """Remembers where the stream stands. PySpark 4.1 asks for ends without a start, but at a
        restart first for the tasks of an empty range at the checkpoint's end; without that, queues
        without a broker would not be in the next end, nor in the checkpoint then."""
        left = {queue: offset for queue, offset in starts.items() if queue not in ends}
        for queue in sorted(left.keys() - self._left.keys()):
            log.error(
                "%s has no broker now and leaves the checkpoint at offset %d; this query "
                "continues there while it runs, after another restart the queue is a new one",
                escape(place(queue)),
                left[queue],
            )
        self._left.update(left)
        self._seen.update({**left, **ends})

    def _check_start(
        self, queue: MessageQueue, starts: dict[MessageQueue, int], least: int, end: int
    ) -> None:
        """Raises DataLossError, or moves a start to what there is."""
        known = starts.get(queue, self._left.get(queue))
        if known is not None:
            starts[queue] = known
            text = f"{place(queue)}: offsets {known} to {least} are deleted"
        else:
            starts[queue] = 0
            text = f"{place(queue)} is new to the query, but its first {least} messages are deleted"
        if starts[queue] > end:
            text = f"{place(queue)} was at {starts[queue]} and now ends at {end}"
            self._lost(text)
            starts[queue] = min(least, end)
        elif starts[queue] < least:
            self._lost(text)
            starts[queue] = min(least, end)

    def _lost(self, text: str) -> None:
        if self._fail:
            raise DataLossError(text)
        log.warning("%s: continuing with the messages available", escape(text))

    def _ends(self, known: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """Ends of all queues, as their masters say; one that is known but has none now stays
        where it is."""
        with Cluster(replace(self._access, masters=True)) as cluster:
            found = self._queues(cluster)
            there = [q for q in found if cluster.route(q.topic).master_of(q.broker_name)]
            ends = cluster.offsets(RequestCode.GET_MAX_OFFSET, there)
        missing = {queue for queue in known if queue not in ends}
        for queue in sorted(missing - self._missing):
            log.warning("%s has no broker now, or no master; waiting for it", escape(place(queue)))
        self._missing = missing
        for queue, offset in known.items():
            if queue in missing:
                ends[queue] = offset
            elif ends[queue] < offset:
                ends[queue] = self._ends_lower(queue, offset, ends[queue])
            else:
                self._lower.pop(queue, None)
        return ends

    def _ends_lower(self, queue: MessageQueue, known: int, end: int) -> int:
        """Where a queue continues that ends below its position. DataLossError."""
        text = f"{place(queue)} was at {known} and now ends at {end}"
        if not self._fail and self._pinned is None:
            if queue not in self._lower:
                log.warning("%s: waiting %g s for the rest", escape(text), ANEW)
            since = self._lower.setdefault(queue, time.monotonic())
            if time.monotonic() < since + ANEW:
                return known
        self._lost(text)
        return end

    def _tasks(
        self,
        starts: Mapping[MessageQueue, int],
        ends: Mapping[MessageQueue, int],
        start_time: int | None,
        end_time: int | None,
    ) -> list[BrokerSplit]:
        ranges = [
            QueueRange(q.topic, q.broker_name, q.queue_id, start, ends[q])
            for q, start in starts.items()
        ]
        return [
            BrokerSplit(
                self._access,
                task,
                self._how,
                self._selection.tags,
                start_time,
                end_time,
                self._batch_size,
                self._fail,
            )
            for task in into_tasks(ranges, self._min_partitions, self._max_records)
        ]
