"""How the queues of a topic are shared among the members of a group. [RebalanceImpl]"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from pyrmq.client.consumer.allocate import Strategy
from pyrmq.client.consumer.ask_brokers import Members
from pyrmq.client.instance import ClientInstance
from pyrmq.errors import ClientError
from pyrmq.model.message import MessageQueue
from pyrmq.model.route import TopicRoute


@dataclass(frozen=True, slots=True)
class Share:
    """What one member has of a topic. `why_empty` explains an empty share for the log."""

    pulled: Sequence[MessageQueue]
    why_empty: str = ""


class Sharing(Protocol):
    """One way to share topics."""

    async def share(self, topic: str, route: TopicRoute) -> Share:
        """This member's share. Raises PyrmqError, and what a strategy of the user raises."""
        ...


class AllQueues:
    """Every member has all queues (broadcasting)."""

    async def share(self, topic: str, route: TopicRoute) -> Share:
        return Share(sorted(route.subscribe_queues(topic)))


class ByStrategy:
    """Each member asks a broker for the members and computes its share."""

    def __init__(self, client: ClientInstance, group: str, strategy: Strategy) -> None:
        self._client = client
        self._strategy = strategy
        self._members = Members(client, group)

    async def share(self, topic: str, route: TopicRoute) -> Share:
        queues = sorted(route.subscribe_queues(topic))
        ids = await self._members.ids(topic, route)
        mine = list(self._strategy(queues, ids, self._client.client_id))
        strange = set(mine).difference(queues)
        if strange:
            raise ClientError(f"its strategy gave what is no queue of it: {min(map(str, strange))}")
        if mine or not queues:
            return Share(mine)
        return Share(mine, f"its {len(queues)} queues are other members', of {len(ids)} in all")
