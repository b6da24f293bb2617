"""Which of the brokers of one name is asked: its master, or a slave while that is away.
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
    """All replicas, the one to ask first in front: the wanted id, for a slave that is not there the
    id after it, then the others, the smallest first. `addresses` is sorted by id."""
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
    """Those of the routes that a client knows. One that is away is the last to be asked, until it
    has answered to a heartbeat: the client's registration sees to that."""

    def __init__(self, client: ClientInstance) -> None:
        self._client = client

    def known(self, topic: str, broker_name: str, wanted: int = MASTER_ID) -> list[Replica]:
        """In the order in which they are asked now; none without a route."""
        route = self._client.routes.known(topic)
        if route is None:
            return []
        found = preferred(route.replicas_of(broker_name), wanted)
        return sorted(found, key=lambda replica: replica.address in self._client.away)

    async def find(self, topic: str, broker_name: str, wanted: int = MASTER_ID) -> list[Replica]:
        """The same, of a topic whose route may not be known yet; at least one. PyrmqError."""
        await self._client.routes.publish(topic)
        found = self.known(topic, broker_name, wanted)
        if not found:
            self._client.routes.look_again(topic)
            raise ClientError(f"broker {broker_name} has no address in the route of {topic}")
        return found

    async def serving(self, topic: str, broker_name: str) -> tuple[Channel, Replica]:
        """The first one that can be reached and that knows the groups of this client. Raises what
        the first one failed with if there is none."""
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
        """Whether the name server knows a master; it is asked again before that is denied."""
        route = await self._client.routes.publish(topic)
        if route.master_of(broker_name) is None:
            with suppress(PyrmqError):
                route = await self._client.routes.route(topic, fresh=True)
        return route.master_of(broker_name) is not None

    async def greet_master(self, topic: str, broker_name: str) -> None:
        """Has the master asked first again, if it can be reached."""
        with suppress(PyrmqError):
            route = await self._client.routes.route(topic, fresh=True)
            address = route.master_of(broker_name)
            if address is not None:
                await self._client.known_channel(address)
