"""Chooses among the brokers of one name: the master, or a slave while it is away.
[MQClientInstance.findBrokerAddressInSubscribe]"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from pyrmq.client.instance import ClientInstance
from pyrmq.errors import ClientError, PyrmqError
from pyrmq.model.route import MASTER_ID
from pyrmq.net.client.channel import Channel


@dataclass(frozen=True, slots=True)
class Replica:
    broker_id: int
    address: str

    @property
    def is_slave(self) -> bool:
        return self.broker_id != MASTER_ID


def preferred(addresses: Mapping[int, str], wanted: int = MASTER_ID) -> list[Replica]:
    """All replicas in the order in which to ask them: the wanted id, then (for a missing slave) the
    next id, then the others by id. `addresses` is sorted by id."""
    order = list(addresses)
    for first in (wanted, wanted + 1):
        if first in addresses:
            order.remove(first)
            order.insert(0, first)
            break
        if wanted == MASTER_ID:
            break
    return [Replica(i, addresses[i]) for i in order]


class Replicas:
    """The replicas of the known routes. One that is away comes last until it has answered a
    heartbeat, which the client's registration sends."""

    def __init__(self, client: ClientInstance) -> None:
        self._client = client

    def known(self, topic: str, broker_name: str, wanted: int = MASTER_ID) -> list[Replica]:
        """In the order in which to ask them now; empty without a route."""
        route = self._client.routes.known(topic)
        if route is None:
            return []
        found = preferred(route.replicas_of(broker_name), wanted)
        return sorted(found, key=lambda replica: replica.address in self._client.away)

    async def find(self, topic: str, broker_name: str, wanted: int = MASTER_ID) -> list[Replica]:
        """The same for a topic whose route may not be known yet; at least one. Raises
        PyrmqError."""
        await self._client.routes.publish(topic)
        found = self.known(topic, broker_name, wanted)
        if not found:
            self._client.routes.look_again(topic)
            raise ClientError(f"broker {broker_name} has no address in the route of {topic}")
        return found

    async def serving(self, topic: str, broker_name: str) -> tuple[Channel, Replica]:
        """The first replica that is reachable and knows this client's groups. If there is none,
        raises the first one's error."""
        failures: list[PyrmqError] = []
        for replica in await self.find(topic, broker_name):
            try:
                channel = await self._client.known_channel(replica.address)
            except PyrmqError as e:
                failures.append(e)
                continue
            if replica.is_slave:
                self._client.routes.look_again(topic)  # the master may be back
            return channel, replica
        self._client.routes.look_again(topic)
        raise failures[0]

    async def has_master(self, topic: str, broker_name: str) -> bool:
        """Whether the name server knows a master; before it returns False it asks the name server
        again."""
        route = await self._client.routes.publish(topic)
        if route.master_of(broker_name) is None:
            with suppress(PyrmqError):
                route = await self._client.routes.route(topic, fresh=True)
        return route.master_of(broker_name) is not None

    async def greet_master(self, topic: str, broker_name: str) -> None:
        """Makes the master the first choice again, if it is reachable."""
        with suppress(PyrmqError):
            route = await self._client.routes.route(topic, fresh=True)
            address = route.master_of(broker_name)
            if address is not None:
                await self._client.known_channel(address)
