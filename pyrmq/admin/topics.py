"""Topics: what there is, where, and how much of it."""

from __future__ import annotations

import builtins
from collections.abc import AsyncIterator
from dataclasses import dataclass

from pyrmq.admin.topic_changes import TopicChanges
from pyrmq.admin.topic_stats import TopicStats
from pyrmq.errors import PyrmqError
from pyrmq.model.codes import RequestCode
from pyrmq.model.message import MessageQueue
from pyrmq.model.route import TopicRoute
from pyrmq.model.topic import as_int


@dataclass(frozen=True, slots=True)
class TopicGroups:
    """A topic, the cluster that has it, and the groups that have consumed it."""

    cluster: str
    topic: str
    groups: list[str]


@dataclass(frozen=True, slots=True)
class QueueState:
    """How far a queue is: offsets `first` to before `end`; `updated`: when its newest message was
    stored, ms since 1970, 0 if there is none."""

    queue: MessageQueue
    first: int
    end: int
    updated: int


@dataclass(frozen=True, slots=True)
class TopicStatus:
    """The queues of a topic, by broker and number. `put_tps`: messages a second, as brokers count
    them (0 where they do not)."""

    queues: builtins.list[QueueState]
    put_tps: float


class Topics(TopicChanges, TopicStats):
    """`admin.topics`."""

    async def list(self) -> builtins.list[str]:
        """Names of all topics, sorted; retry topics and those of the system are among them."""
        return sorted(await self._link.topics())

    async def with_groups(self) -> AsyncIterator[TopicGroups]:
        """Each topic with its groups, but for retry and dead-letter topics, by cluster and name."""
        topics = await self.list()
        for done, topic in enumerate(topics):
            self._link.progress("topics", done, len(topics))
            if topic.startswith(("%RETRY%", "%DLQ%")):
                continue
            try:
                brokers = await self._link.brokers_of(topic)
                groups = await self.groups(topic) if brokers else []
            except PyrmqError:  # a topic may go while it is looked at
                brokers, groups = [], []
            yield TopicGroups(brokers[0].cluster if brokers else "", topic, groups)

    async def route(self, topic: str) -> TopicRoute:
        """Where a topic is. TopicNotExistError."""
        return await self._link.route(topic)

    async def clusters(self, topic: str) -> builtins.list[str]:
        """The clusters that have a topic. TopicNotExistError."""
        return sorted({b.cluster for b in (await self._link.route(topic)).brokers})

    async def status(self, topic: str) -> TopicStatus:
        """How far the queues of a topic are, on all its brokers. TopicNotExistError."""
        found: builtins.list[QueueState] = []
        tps = 0.0
        for replica in await self._link.brokers_of(topic):
            answer = await self._link.ask_json(
                replica.address, RequestCode.GET_TOPIC_STATS_INFO, {"topic": topic}
            )
            rate = answer.get("topicPutTps")
            tps += rate if isinstance(rate, int | float) else 0.0
            table = answer.get("offsetTable")
            for key, value in table.items() if isinstance(table, dict) else ():
                place = dict(key) if isinstance(key, tuple) else key
                if isinstance(place, dict) and isinstance(value, dict):
                    found.append(
                        QueueState(
                            MessageQueue.from_json(place),
                            max(as_int(value.get("minOffset"), 0), 0),
                            max(as_int(value.get("maxOffset"), 0), 0),
                            as_int(value.get("lastUpdateTimestamp"), 0),
                        )
                    )
        found.sort(key=lambda s: (s.queue.topic, s.queue.broker_name, s.queue.queue_id))
        return TopicStatus(found, tps)
