"""Topics: names, routes and sizes."""

from __future__ import annotations

import builtins
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from pyrmq.admin.outcome import Outcome
from pyrmq.admin.topic_changes import TopicChanges
from pyrmq.admin.topic_stats import TopicStats
from pyrmq.errors import PyrmqError, ResponseError
from pyrmq.model.codes import RequestCode
from pyrmq.model.message import MessageQueue
from pyrmq.model.names import is_system_topic
from pyrmq.model.route import TopicRoute
from pyrmq.model.topic import as_int
from pyrmq.net import fastjson


@dataclass(frozen=True, slots=True)
class TopicGroups:
    """A topic, its cluster, and the groups that have consumed it."""

    cluster: str
    topic: str
    groups: list[str]
    failed: list[PyrmqError] = field(default_factory=list)
    """Servers that did not answer: groups that only they know are missing."""


@dataclass(frozen=True, slots=True)
class QueueState:
    """The offsets of a queue, from `first` to before `end`. `updated`: the store time of its newest
    message, ms since 1970; 0 if there is none."""

    queue: MessageQueue
    first: int
    end: int
    updated: int


@dataclass(frozen=True, slots=True)
class TopicStatus:
    """The queues of a topic, by broker and number. `put_tps`: messages a second, as brokers count
    them (0 if they do not)."""

    queues: builtins.list[QueueState]
    put_tps: float
    failed: builtins.list[Outcome[Any]] = field(default_factory=list)
    """Brokers that did not answer: their queues are missing."""


class Topics(TopicChanges, TopicStats):
    """`admin.topics`."""

    async def list(self) -> builtins.list[str]:
        """The names of all topics, sorted, including retry and system topics."""
        return sorted(await self._link.topics())

    async def system(self) -> set[str]:
        """The topics of brokers and name servers themselves: those that a name server reports, and
        those known by name. [GET_SYSTEM_TOPIC_LIST_FROM_NS]"""
        answer = await self._link.ask_name_server(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS)
        found = fastjson.loads_object(answer.body).get("topicList")
        told = {str(t) for t in found} if isinstance(found, builtins.list) else set()
        return told | {t for t in await self._link.topics() if is_system_topic(t)}

    async def with_groups(self) -> AsyncIterator[TopicGroups]:
        """Each topic with its groups, without retry and dead-letter topics, by cluster and name."""
        topics = await self.list()
        for done, topic in enumerate(topics):
            self._link.progress("topics", done, len(topics))
            if topic.startswith(("%RETRY%", "%DLQ%")):
                continue
            cluster = ""
            groups: builtins.list[str] = []
            failed: builtins.list[PyrmqError] = []
            try:
                brokers = await self._link.brokers_of(topic)
                if brokers:
                    cluster = brokers[0].cluster
                    groups = found = await self.groups(topic)
                    failed = [o.error for o in found.failed if o.error is not None]
            except ResponseError:  # a topic may go while it is looked at
                pass
            except PyrmqError as e:
                failed = [e]
            yield TopicGroups(cluster, topic, groups, failed)

    async def route(self, topic: str) -> TopicRoute:
        """The route of a topic. Raises TopicNotExistError."""
        return await self._link.route(topic)

    async def clusters(self, topic: str) -> builtins.list[str]:
        """The clusters of a topic. Raises TopicNotExistError."""
        return sorted({b.cluster for b in (await self._link.route(topic)).brokers})

    async def status(self, topic: str) -> TopicStatus:
        """The offsets of the queues of a topic, on all its brokers. Raises TopicNotExistError, and
        the error of a broker if none answered."""
        found: builtins.list[QueueState] = []
        tps = 0.0

        async def ask(address: str) -> dict[Any, Any]:
            return await self._link.ask_json(
                address, RequestCode.GET_TOPIC_STATS_INFO, {"topic": topic}
            )

        outcomes = await self._link.on_each(await self._link.brokers_of(topic), ask)
        for answer in outcomes.check().values:
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
        return TopicStatus(found, tps, outcomes.failed)
