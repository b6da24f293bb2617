"""Takes the broker out of routes and waits until its clients have moved: before a stop, and while
an operator has it drained (brokerDrain).

The order is made for clients that cannot be told. The name servers hear first, so that routes have
no queues here to send to. Then clients of pyrmq are told (NOTIFY_BROKER_LEAVES) and fetch routes at
once; others do that every 30 s. Until the stop every send is taken: clients of Java do not repeat
an asynchronous send that a broker refused, but they do repeat one whose connection was closed.

Nothing is waited for that cannot come: without producers, or if no other broker takes messages of
the topics that are sent to, the stop goes on at once.
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import trio

from pyrmq.broker.config.broker_config import BrokerConfig, LiveConfig
from pyrmq.broker.config.drain_keys import NO_DRAIN
from pyrmq.broker.registration import Registration
from pyrmq.broker.tables.clients import Client, ClientTable, tell
from pyrmq.engine import HaMaster, PutWatch, Store
from pyrmq.errors import PyrmqError
from pyrmq.escape import escape
from pyrmq.model.codes import LANGUAGE_PYTHON, RequestCode
from pyrmq.model.names import DLQ_PREFIX, HALF_TOPIC, RETRY_PREFIX, is_routed_topic
from pyrmq.net.address import parse_addresses
from pyrmq.net.client.channel import Channels
from pyrmq.net.client.name_servers import NameServers
from pyrmq.net.client.server_access import channels_of
from pyrmq.net.command import encode_request
from pyrmq.net.server.connection import Connection

log = logging.getLogger(__name__)

LOOK = 0.1
"""Seconds between two looks at what is still sent."""
ROUTES = 2.0
"""Seconds after which the route of a topic is asked for again: its other brokers may stop too."""
ANSWER = 2.0
"""Seconds that a name server may take to answer."""
LOOKED_AT = 16
"""Topics whose routes are looked at; those that are sent to most."""
AT_ONCE = 256
"""Clients that are told before other tasks run."""

Say = Callable[[str], None]


@dataclass(slots=True)
class _Elsewhere:
    """Whether another broker takes the messages of a topic."""

    known: bool
    asked: float


class Draining:
    """`pause` stops the broker's own deliveries; `master` sends the log to slaves, if there are
    any. `why` says why the broker leaves, or has left, the routes; "" while it does not."""

    def __init__(
        self,
        live: LiveConfig,
        store: Store,
        clients: ClientTable,
        registration: Registration,
        master: HaMaster | None,
        is_system: Callable[[str], bool],
        pause: Callable[[], None],
    ) -> None:
        self._live = live
        self._store = store
        self._clients = clients
        self._registration = registration
        self._master = master
        self._is_system = is_system
        self._pause = pause
        self._stops = False
        self._changed = trio.Event()
        live.watch(self._configured)

    @property
    def why(self) -> str:
        if self._stops:
            return "the broker stops"
        drain = self._live.now.broker_drain
        return "" if drain == NO_DRAIN else f"the broker is drained (brokerDrain={drain})"

    def _configured(self, before: BrokerConfig, now: BrokerConfig) -> None:
        if now.broker_drain != before.broker_drain:
            log.info("brokerDrain is %s", now.broker_drain)
            self._changed.set()

    async def run(self) -> None:
        """Tells clients when an operator drains the broker, or brings it back, until cancelled."""
        while True:
            await self._changed.wait()
            self._changed = trio.Event()
            await self._registration.told()
            await self._tell_clients()

    async def before_stop(self, say: Say) -> None:
        """Leaves the routes, and returns when clients have moved, or after drainTimeoutMillis."""
        self._stops = True
        config = self._live.now
        began = trio.current_time()
        if not config.drain_timeout_millis or not config.namesrv_addr:
            return
        moved = False
        with trio.move_on_after(config.drain_timeout_millis / 1000) as limit:
            if config.is_slave:
                await self._registration.unregister()
                await self._tell_clients()
            elif self._clients.producers:
                moved = await self._move(say)
        if limit.cancelled_caught:
            log.warning(
                "clients still sent after drainTimeoutMillis=%d: they see their connection closed, "
                "and send to another broker; %s",
                config.drain_timeout_millis,
                escape(self._who()),
            )
        elif moved:
            log.info("clients have moved in %.1f s", trio.current_time() - began)

    async def _move(self, say: Say) -> bool:
        """Whether clients could move."""
        async with channels_of(self._live.now) as channels:
            puts = await trio.to_thread.run_sync(self._store.watch_puts)
            watch = _Watch(self._live.now, puts, self._is_system, channels)
            if not await watch.has_another():
                log.info("no other broker is known that takes messages: clients stay")
                return False
            self._pause()
            say("draining: leaves the routes")
            self._registration.withdraw()
            await self._registration.told()
            await self._tell_clients()
            say("draining: waits until producers send elsewhere")
            await watch.until_quiet(self._live.now.drain_quiet_millis / 1000)
        say("draining: waits until slaves have the log")
        await self._until_copied()
        return True

    async def _until_copied(self) -> None:
        """What was stored is confirmed, and slaves that are connected have it."""
        while True:
            end = self._store.log_end()
            rows = [] if self._master is None else self._master.replicas()
            slowest = min((int(row["ackOffset"]) for row in rows if row["inSync"]), default=end)
            if min(self._store.confirmed(), slowest) >= end:
                return
            await trio.sleep(LOOK)

    async def _tell_clients(self) -> None:
        """Clients of pyrmq are told to fetch their routes."""
        ext = {"brokerName": self._live.now.broker_name}
        frame = encode_request(RequestCode.NOTIFY_BROKER_LEAVES, 0, ext, oneway=True)
        for number, connection in enumerate(self._own_clients()):
            if not connection.is_closed:
                tell(connection, frame)
            if number % AT_ONCE == AT_ONCE - 1:
                await trio.lowlevel.checkpoint()

    def _own_clients(self) -> list[Connection]:
        tables: Iterable[dict[Connection, Client]] = [
            *self._clients.producers.values(),
            *(group.clients for group in self._clients.consumers.values()),
        ]
        return list(
            {c: None for t in tables for c, who in t.items() if who.language == LANGUAGE_PYTHON}
        )

    def _who(self) -> str:
        """Some of the producers that are connected."""
        members = self._clients.producers.values()
        found = {who.client_id for each in members for who in each.values()}
        named = ", ".join(sorted(found)[:5])
        return f"{len(found)} producers are connected: {named}{', …' if len(found) > 5 else ''}"


class _Watch:
    """What is still sent to topics that other brokers have as well."""

    def __init__(
        self,
        config: BrokerConfig,
        puts: PutWatch,
        is_system: Callable[[str], bool],
        channels: Channels,
    ) -> None:
        """`puts` tells what is stored from now on."""
        self._config = config
        self._puts = puts
        self._is_system = is_system
        self._channels = channels
        self._servers = NameServers(
            parse_addresses(config.namesrv_addr, "namesrvAddr"), timeout=ANSWER
        )
        self._elsewhere: dict[str, _Elsewhere] = {}
        """By topic."""

    async def has_another(self) -> bool:
        """Whether another broker of the cluster takes messages. Each has a topic of the cluster's
        name."""
        return await self._is_elsewhere(self._config.broker_cluster_name)

    async def until_quiet(self, quiet: float) -> None:
        """Returns when for so many seconds nothing was sent that could go elsewhere."""
        since = trio.current_time()
        while trio.current_time() - since < quiet:
            await trio.sleep(LOOK)
            if await self._moves(await self._grown()):
                since = trio.current_time()

    async def _grown(self) -> list[str]:
        """Topics that were sent to since the last look, the ones with most first."""
        grown = await trio.to_thread.run_sync(self._puts.grown)
        sent = [(messages, topic) for topic, messages in grown if self._is_sent_to(topic)]
        return [topic for _, topic in heapq.nlargest(LOOKED_AT, sent)]

    def _is_sent_to(self, topic: str) -> bool:
        """Whether producers choose the broker of its messages. What a group sends back goes to the
        broker that it comes from."""
        if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
            return False
        return topic == HALF_TOPIC or not self._is_system(topic)

    async def _moves(self, topics: list[str]) -> bool:
        """Whether a message of one of these topics could have gone elsewhere."""
        for topic in topics:
            if topic == HALF_TOPIC:
                return True
            if not is_routed_topic(topic):
                continue
            found = self._elsewhere.get(topic)
            if found is None or trio.current_time() - found.asked >= ROUTES:
                found = _Elsewhere(await self._is_elsewhere(topic), trio.current_time())
                self._elsewhere[topic] = found
            if found.known:
                return True
        return False

    async def _is_elsewhere(self, topic: str) -> bool:
        try:
            route = await self._channels.perform(self._servers.route(topic))
        except PyrmqError as e:
            log.info("the route of topic %s is not known: %s", escape(topic), escape(e))
            return False
        own = self._config.broker_name
        return any(queue.broker_name != own for queue in route.publish_queues(topic))
