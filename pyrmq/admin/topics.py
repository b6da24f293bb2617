"""Topics: what there is, where, and how much of it."""

from __future__ import annotations

import builtins
from collections.abc import AsyncIterator
from dataclasses import dataclass

from pyrmq.admin.link import Part
from pyrmq.errors import PyrmqError
from pyrmq.model.codes import RequestCode
from pyrmq.net import fastjson


@dataclass(frozen=True, slots=True)
class TopicGroups:
    """A topic, the cluster that has it, and the groups that have consumed it."""

    cluster: str
    topic: str
    groups: list[str]


class Topics(Part):
    """`admin.topics`."""

    async def list(self) -> builtins.list[str]:
        """Names of all topics, sorted; retry topics and those of the system are among them."""
        return sorted(await self._link.topics())

    async def with_groups(self) -> AsyncIterator[TopicGroups]:
        """Each topic with its groups, but for retry and dead-letter topics, by cluster and name."""
        for topic in await self.list():
            if topic.startswith(("%RETRY%", "%DLQ%")):
                continue
            try:
                brokers = await self._link.brokers_of(topic)
                groups = await self.groups(topic) if brokers else []
            except PyrmqError:  # a topic may go while it is looked at
                brokers, groups = [], []
            yield TopicGroups(brokers[0].cluster if brokers else "", topic, groups)

    async def groups(self, topic: str) -> builtins.list[str]:
        """The groups that consume a topic, or have offsets in it. [QUERY_TOPIC_CONSUME_BY_WHO]"""
        found: set[str] = set()
        for replica in await self._link.brokers_of(topic):
            answer = await self._link.ask(
                replica.address, RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": topic}
            )
            groups = fastjson.loads_object(answer.body).get("groupList")
            found |= {str(g) for g in groups} if isinstance(groups, builtins.list) else set()
        return sorted(found)
