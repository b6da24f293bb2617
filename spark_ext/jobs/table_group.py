"""--commit-group: tells brokers how far a table goes, as the offsets of a group.

A broker with reclaimAfter=table deletes log files by these offsets. So they are those of the table
as its catalog has it, never of a commit on its way; and before, the last messages of the table are
compared with those of the brokers: another log under the same name must not lose what no table has.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from pyrmq.errors import PyrmqError, TopicNotExistError
from pyrmq.escape import escape
from pyrmq.model.codes import RequestCode
from pyrmq.model.message import MessageQueue
from pyrmq.tables.ends import Ends
from pyrmq.tables.errors import TableStoreError
from pyrmq.tables.source import MADE_ANEW, check_anchors
from spark_ext.broker.cluster import Cluster
from spark_ext.jobs.errors import JobError
from spark_ext.jobs.table_brokers import BrokerSource

if TYPE_CHECKING:
    from spark_ext.jobs.source import Source

AGAIN = 600.0
"""Seconds after which brokers hear of all queues again: one may have lost what it was told."""
MAX_SHOWN = 5
"""Brokers that a text lists."""


class TableGroup:
    """The group of a table, at the brokers of `source`, which names a name server."""

    def __init__(self, name: str, source: Source, topic: str) -> None:
        self.name = name
        self._topic = topic
        self._brokers = BrokerSource(source, topic, ())
        self._told: dict[MessageQueue, int] = {}
        self._since = time.monotonic()

    def commit(self, ends: Ends | None) -> tuple[str, ...]:
        """Commits the ends of a table, which the catalog has. Returns the table's brokers that are
        away: they hear of it with a later commit. TableStoreError if a broker has another log than
        the table; PyrmqError if a broker refuses. What was not committed then comes again."""
        if ends is None or not ends.brokers:
            return ()
        with Cluster(replace(self._brokers.access, masters=True)) as cluster:
            try:
                route = cluster.route(self._topic)
            except TopicNotExistError:
                return tuple(ends.brokers)
            there = {b.broker_name for b in route.brokers if route.master_of(b.broker_name)}
            known = Ends(ends.topic, {b: q for b, q in ends.brokers.items() if b in there})
            wanted = {
                MessageQueue(self._topic, broker, queue): end.end
                for broker, queue, end in known.queues()
            }
            if time.monotonic() - self._since > AGAIN:
                self._told, self._since = {}, time.monotonic()
            new = {queue: end for queue, end in wanted.items() if self._told.get(queue) != end}
            if new:
                # First: messages that come meanwhile must not make up for those that are missing.
                check_ends(cluster.bounds(list(new)), new)
                check_anchors(known, lambda: self._brokers.anchors(known))
                self._tell(cluster, new)
        return tuple(sorted(ends.brokers.keys() - there))

    def _tell(self, cluster: Cluster, offsets: Mapping[MessageQueue, int]) -> None:
        def question(queue: MessageQueue) -> tuple[int, dict[str, str | int | bool]]:
            return RequestCode.UPDATE_CONSUMER_OFFSET, {
                "consumerGroup": self.name,
                "topic": queue.topic,
                "queueId": queue.queue_id,
                "commitOffset": offsets[queue],
            }

        by_broker: dict[str, list[MessageQueue]] = {}
        for queue in offsets:
            by_broker.setdefault(queue.broker_name, []).append(queue)
        failed: PyrmqError | None = None
        for queues in by_broker.values():
            try:
                cluster.ask_queues(queues, question)
            except PyrmqError as error:
                failed = failed or error  # the others hear of it all the same
            else:
                self._told |= {queue: offsets[queue] for queue in queues}
        if failed is not None:
            raise failed


def check_ends(
    bounds: Mapping[MessageQueue, tuple[int, int]], ends: Mapping[MessageQueue, int]
) -> None:
    """TableStoreError if a queue of a broker ends before the table's."""
    for queue, end in ends.items():
        if end > bounds[queue][1]:
            raise TableStoreError(
                f"queue {queue.queue_id} of {escape(queue.broker_name)}: the table has offsets "
                f"before {end}, and the broker only those before {bounds[queue][1]}",
                MADE_ANEW,
            )


class Committing:
    """Commits behind the commits of a table. What fails is said, and tried again; it stops no
    table."""

    def __init__(self, group: TableGroup, said: Callable[[str], object]) -> None:
        self._group = group
        self._said = said
        self._failure = ""
        self._shown = ""

    def begin(self) -> None:
        """A run begins, or the next look of a service: what fails is said once in it."""
        self._shown = ""

    def commit(self, ends: Callable[[], Ends | None]) -> None:
        """`ends()`: of the table, read from its catalog now."""
        try:
            away = self._group.commit(ends())
        except PyrmqError as error:
            self._failure = str(error)
            self._say(f"{self._text()}: {escape(error)}")
            return
        self._failure = ""
        if away:
            more = "" if len(away) <= MAX_SHOWN else f" and {len(away) - MAX_SHOWN} more"
            self._say(
                f"{self._text()} at {escape(', '.join(away[:MAX_SHOWN]))}{more}: no master is "
                "there; the next commit tells them"
            )

    def _say(self, text: str) -> None:
        if text != self._shown:
            self._shown = text
            self._said(text)

    def check(self) -> None:
        """JobError if the last one failed."""
        if self._failure:
            raise JobError(
                f"the table is written, but {self._text()}: {escape(self._failure)}. Run it again"
            )

    def _text(self) -> str:
        return f"the offsets of group {escape(self._group.name)} are not committed"
