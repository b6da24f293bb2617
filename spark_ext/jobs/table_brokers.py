"""What a table reads through brokers: the reads of Spark's source, in this process.

PySpark must be installed, as these reads are written for it; no JVM is started."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyrmq.errors import TopicNotExistError
from pyrmq.model.message import MessageQueue
from pyrmq.tables.ends import Anchor, Ends
from pyrmq.tables.source import PLACE, anchors_in, check_anchors, check_brokers, readable
from spark_ext import selecting
from spark_ext.broker.cluster import Access, Cluster
from spark_ext.broker.partition import BrokerSplit
from spark_ext.broker.plan import BrokerPlanner, access
from spark_ext.broker.pull import QueueRange
from spark_ext.broker.ranges import Position
from spark_ext.jobs.errors import JobError
from spark_ext.option import Query
from spark_ext.option_names import option_names
from spark_ext.options import Options

if TYPE_CHECKING:
    from spark_ext.jobs.source import Source

STEP = 200_000
"""Messages between two positions."""


class BrokerSource:
    """One topic of the brokers of a name server. Brokers that are away are waited for: their queues
    stay where the table ends."""

    def __init__(
        self,
        source: Source,
        topic: str,
        columns: Sequence[str],
        *,
        fail: bool = True,
        add_broker: bool = False,
        step: int = STEP,
    ) -> None:
        self.topic = topic
        self._add, self._step = add_broker, step
        if any(name.lower() == "failondataloss" for name in source.options):
            raise JobError("--on-data-loss says what -o failOnDataLoss would: leave that out")
        self._text = {
            **source.stream_options((), None, False),
            "topic": topic,
            "failOnDataLoss": str(fail).lower(),
        }
        self._columns = tuple(columns)
        given = Options(self._text, Query.BROKER_STREAM)
        self._how = selecting.build(given, self._columns, "map")
        self.schema = self._how.schema()
        self._planner: BrokerPlanner | None = None
        self._pinned = False

    def start(self, ends: Ends | None) -> Position:
        with Cluster(self.access) as cluster:
            try:
                brokers = [broker.broker_name for broker in cluster.route(self.topic).brokers]
            except TopicNotExistError as error:
                raise JobError(str(error)) from None
        known = check_brokers(ends, brokers, self._add)
        check_anchors(known, lambda: self.anchors(known))
        text = dict(self._text)
        if known is not None and known.brokers:
            text["startingOffsets"] = json.dumps(known.offsets())
        given = Options(text, Query.BROKER_STREAM)
        self._planner = BrokerPlanner(given, selecting.selection(given), self._how)
        with readable(known):
            position = self._planner.initial()
        if self._pinned:
            self._planner.pin()
        return _with_absent(position, ends)

    def next(self, position: Position) -> Position:
        assert self._planner is not None
        with readable(None):
            return self._planner.latest(position, self._step)

    def batches(self, start: Position, end: Position) -> Iterator[Any]:
        assert self._planner is not None
        with readable(None):
            for split in self.splits(start, end):
                yield from split.read()

    def splits(self, start: Position, end: Position) -> list[BrokerSplit]:
        """What is between two positions, in parts whose `read` gives the batches."""
        assert self._planner is not None
        return self._planner.splits(start, end)

    def pin(self) -> None:
        self._pinned = True
        if self._planner is not None:
            self._planner.pin()

    @property
    def access(self) -> Access:
        """How the cluster is reached."""
        return access(Options(self._text, Query.BROKER_STREAM))

    @option_names()
    def anchors(self, known: Ends | None) -> Mapping[tuple[str, int], Anchor]:
        """The last messages that the table has, as the brokers have them."""
        given = Options(self._text, Query.BROKER_STREAM)
        where = access(given)
        queues = [] if known is None else list(known.queues())
        with Cluster(where) as cluster:
            bounds = cluster.bounds([MessageQueue(self.topic, b, q) for b, q, _ in queues])
        ranges = tuple(
            QueueRange(self.topic, broker, queue, one.last.offset, one.last.offset + 1)
            for broker, queue, one in queues
            if bounds[MessageQueue(self.topic, broker, queue)][0]
            <= one.last.offset
            < bounds[MessageQueue(self.topic, broker, queue)][1]
        )
        how = selecting.build(given, PLACE, "map")
        split = BrokerSplit(where, ranges, how, None, None, None, 1, False)
        found: dict[tuple[str, int], Anchor] = {}
        for batch in split.read():
            found |= anchors_in(batch)
        return found


def _with_absent(position: Position, ends: Ends | None) -> Position:
    """With the queues of brokers that are away, at the ends of the table."""
    if ends is None:
        return position
    topics = {topic: dict(brokers) for topic, brokers in position["queues"].items()}
    mine = topics.setdefault(ends.topic, {})
    for broker, queue, end in ends.queues():
        mine[broker] = {str(queue): end.end, **mine.get(broker, {})}
    return {**position, "queues": topics}
