"""Brokers as a client reaches them: it registers with each, and chooses among those of one name.

`Registration`: a broker lists the clients whose heartbeat came on a live connection. After a
restart it lists nobody, and the first member that asks for its group would take all queues. So a
lost connection is opened again at once, also by a member without queues there. Each broker has its
own task, so an unreachable one delays no other.
[MQClientInstance, enableHeartbeatChannelEventListener]

`Replicas` chooses among the brokers of one name: the master, or a slave while it is away.
[MQClientInstance.findBrokerAddressInSubscribe]
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

import trio

from pyrmq.client.instance import ROUTE_INTERVAL, ClientInstance
from pyrmq.errors import ClientError, PyrmqError
from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.model.route import MASTER_ID
from pyrmq.net.backoff import Backoff
from pyrmq.net.client.channel import Channel

log = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0
"""Seconds until the next try to reach a broker that is away."""
FIND_PAUSE = 0.5
"""Seconds until brokers are looked for again that could not be found; up to ROUTE_INTERVAL."""


class Registration:
    """Sends heartbeats to brokers that are new or came back, at once. `find` looks for brokers and
    returns whether it could. `first_pause` and `longest_pause` are seconds between tries to reach
    a broker. `tried` is set when all that were found at first have answered or failed."""

    def __init__(
        self,
        client: ClientInstance,
        *,
        first_pause: float = FIRST_PAUSE,
        longest_pause: float = LONGEST_PAUSE,
        find: Callable[[], Awaitable[bool]] | None = None,
    ) -> None:
        self.tried = trio.Event()
        self._client = client
        self._pauses = first_pause, longest_pause
        self._find = find
        self._lost = trio.Event()
        self._reaching: set[str] = set()
        self._untried: set[str] = set()
        client.on_closed.append(self.look)

    def look(self) -> None:
        """There may be brokers that are not known yet."""
        self._lost.set()

    async def run(self) -> None:
        backoff = Backoff(FIND_PAUSE, ROUTE_INTERVAL)
        async with trio.open_nursery() as nursery:
            while True:
                self._lost = trio.Event()
                complete = self._find is None or await self._find()
                for address in self._client.brokers() - self._reaching:
                    if not self._client.is_greeted(address):
                        self._reaching.add(address)
                        self._untried.add(address)
                        nursery.start_soon(self._reach, address)
                self._ended()
                if complete:
                    backoff.reset()
                    with trio.move_on_after(ROUTE_INTERVAL):
                        await self._lost.wait()
                else:
                    await trio.sleep(backoff.next())

    async def _reach(self, address: str) -> None:
        """Returns when a broker knows this client, or is in no route any more."""
        backoff = Backoff(*self._pauses)
        while address in self._client.brokers():
            try:
                await self._client.known_channel(address)
                break
            except PyrmqError as e:
                log.info(
                    "not registered with broker %s: %s",
                    escape(address),
                    escape(e),
                    extra=about(broker=address),
                )
            self._ended(address)
            await trio.sleep(backoff.next())
        self._reaching.discard(address)
        self._ended(address)

    def _ended(self, address: str = "") -> None:
        """An attempt or a search has ended."""
        self._untried.discard(address)
        if not self._untried:
            self.tried.set()


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
