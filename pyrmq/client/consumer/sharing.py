"""How the queues of a topic are shared among the members of a group: by the members, or by a
broker, which also says whether they are pulled or popped. [RebalanceImpl]"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from pyrmq.client.consumer.allocate import BROKER_STRATEGIES, Strategy
from pyrmq.client.consumer.ask_brokers import Members, first_answer
from pyrmq.client.consumer.options import PushOptions
from pyrmq.client.instance import ClientInstance
from pyrmq.client.namespaces import Namespace
from pyrmq.errors import ClientError, RequestCodeNotSupportedError
from pyrmq.model.codes import RequestCode
from pyrmq.model.message import MessageQueue
from pyrmq.model.names import RETRY_PREFIX
from pyrmq.model.route import TopicRoute
from pyrmq.net.client.channel import Channel
from pyrmq.net.client.pop_requests import (
    ANY_QUEUE,
    Assignment,
    assignment_body,
    read_assignment,
)


@dataclass(frozen=True, slots=True)
class Share:
    """What one member has of a topic: queues that it pulls, or queues that it pops (which may have
    the id ANY_QUEUE). `why_empty` explains an empty share for the log."""

    pulled: Sequence[MessageQueue]
    popped: Sequence[MessageQueue] = ()
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
        return Share(
            mine, why_empty=f"its {len(queues)} queues are other members', of {len(ids)} in all"
        )


class ByBroker:
    """A broker shares the queues. All members ask the same one as long as it answers.
    [getRebalanceResultFromBroker]"""

    def __init__(self, client: ClientInstance, group: str, strategy_name: str) -> None:
        self._client = client
        self._group = group
        self._strategy_name = strategy_name

    async def share(self, topic: str, route: TopicRoute) -> Share:
        addresses = route.addresses()
        if not addresses:
            raise ClientError(f"no broker of {topic} has an address")
        found = await first_answer(addresses, partial(self._ask, topic))
        empty = not found.pulled and not found.popped and route.subscribe_queues(topic)
        return Share(
            sorted(found.pulled),
            sorted(found.popped),
            "the broker gives all its queues to other members" if empty else "",
        )

    async def _ask(self, topic: str, address: str) -> Assignment:
        channel = await self._client.known_channel(address)
        try:
            found = await self._query(topic, channel)
            if found is None or not (found.pulled or found.popped):
                # It may have forgotten this member.
                await self._client.register(channel)
                found = await self._query(topic, channel)
        except RequestCodeNotSupportedError as e:
            raise ClientError(
                f"broker {address} does not share queues: use client_rebalance=True ({e})"
            ) from e
        if found is None:
            raise ClientError(f"broker {address} does not share the queues of {topic} yet")
        return found

    async def _query(self, topic: str, channel: Channel) -> Assignment | None:
        body = assignment_body(topic, self._group, self._client.client_id, self._strategy_name)
        answer = await channel.request(RequestCode.QUERY_ASSIGNMENT, {}, body)
        return read_assignment(answer.body, topic)


class AllPopped:
    """Every member pops from all queues of all brokers. Retry topics are shared by `retries`: they
    have messages from members that pulled."""

    def __init__(self, retries: Sharing) -> None:
        self._retries = retries

    async def share(self, topic: str, route: TopicRoute) -> Share:
        if topic.startswith(RETRY_PREFIX):
            return await self._retries.share(topic, route)
        brokers = {queue.broker_name for queue in route.subscribe_queues(topic)}
        return Share([], [MessageQueue(topic, name, ANY_QUEUE) for name in sorted(brokers)])


def sharing_of(
    options: PushOptions, client: ClientInstance, group: str, names: Namespace
) -> Sharing:
    """How the group of a push consumer shares its topics; `group` is the broker's name."""
    if options.broadcasting:
        return AllQueues()
    if options.by_broker:
        return ByBroker(client, group, BROKER_STRATEGIES[options.strategy])
    sharing = ByStrategy(client, group, names.wire_strategy(options.strategy))
    return AllPopped(sharing) if options.pop else sharing
