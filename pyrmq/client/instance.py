"""What producers and consumers share: connections, routes, heartbeats. [MQClientInstance]"""

from __future__ import annotations

import itertools
import logging
import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Self

import trio

from pyrmq.client.checks import check_namespace, check_trio
from pyrmq.client.incoming import Incoming
from pyrmq.client.producer.first_broker import FirstBroker
from pyrmq.client.recent_topics import RecentTopics, keep
from pyrmq.client.route_looks import RouteLooks
from pyrmq.errors import (
    ClientError,
    ConfigError,
    ConnectError,
    ProtocolError,
    PyrmqError,
    RequestTimeoutError,
    TopicNotExistError,
)
from pyrmq.escape import escape
from pyrmq.model.codes import RequestCode
from pyrmq.model.route import TopicRoute
from pyrmq.net import fastjson
from pyrmq.net.address import (
    Address,
    format_address,
    own_ip,
    parse_address,
    parse_addresses,
)
from pyrmq.net.client.channel import Channel, Channels
from pyrmq.net.client.name_servers import NameServers, RouteTable
from pyrmq.net.tasks import Tasks

log = logging.getLogger(__name__)

HEARTBEAT_INTERVAL = 30.0
ROUTE_INTERVAL = 30.0
API_TIMEOUT = 3.0
HEARD = 0.3
"""Seconds that a round of heartbeats waits for brokers."""
NEW_TOPIC = 0.1
"""Seconds until the name server is asked again for a topic that does not exist."""

_instances = itertools.count()


class ClientInstance:
    """One client id with its connections. `producer_groups` and `consumers` make up the
    heartbeat; `incoming` is what brokers ask; `on_closed` is called when a connection has ended,
    `on_greeted` when the broker at an address has come to know this client on a new one."""

    def __init__(
        self, namesrv: str | None, instance_name: str | None = None, *, namespace_v2: str = ""
    ) -> None:
        text = namesrv or os.environ.get("NAMESRV_ADDR", "")
        self.namesrv = parse_addresses(text, "name server address")
        if not self.namesrv:
            raise ConfigError("no name server: pass namesrv='HOST:PORT' or set NAMESRV_ADDR")
        self._process = os.getpid()
        name = instance_name or f"{os.getpid()}#{time.time_ns()}_{next(_instances)}"
        self.client_id = f"{own_ip()}@{name}"
        self.producer_groups: set[str] = set()
        self.consumers: dict[str, Callable[[], dict[str, Any]]] = {}
        self.incoming = Incoming()
        self.on_closed: list[Callable[[], None]] = []
        self.on_greeted: list[Callable[[Address], None]] = []
        if namespace_v2:
            check_namespace(namespace_v2)
        fields = {"nsd": "true", "ns": namespace_v2} if namespace_v2 else None  # NamespaceRpcHook
        self._channels = Channels(self.incoming.answer, self._closed, fields)
        self._all_masters: set[str] = set()
        self.away: set[str] = set()
        """Addresses of brokers whose connection is lost, or that could not be reached."""
        self._connecting: set[str] = set()
        self._unheard: dict[str, str] = {}
        """By address, why the last heartbeat did not arrive."""
        servers = NameServers(self.namesrv, timeout=API_TIMEOUT)
        self._routes = RouteTable(servers)
        self._masters: dict[str, tuple[TopicRoute, dict[str, Address]]] = {}
        """Addresses that were asked for, by topic and broker name, with the route they are of."""
        self.topics = RecentTopics(trio.current_time)
        self.topics.forgotten.append(self._forget)
        self._watched: set[str] = set()
        """Topics whose routes are refreshed."""
        self._tasks = Tasks()
        self._looks = RouteLooks(self._tasks, self._refresh)
        self._route_lock = trio.Lock()
        self._publish_lock = trio.Lock()
        self._new_topics: dict[str, tuple[float, TopicRoute]] = {}
        """Routes of topics that do not exist yet, and until when that is believed."""
        self.first_broker = FirstBroker(self._has_broker)

    def no_answer(self) -> str:
        """For errors of calls that name servers did not answer: which ones, and what to do."""
        asked = ", ".join(map(format_address, self.namesrv))
        if self.first_broker.missing:
            return (
                f" (no broker has registered with name server {asked} yet; is one running, and is "
                "this name server in its namesrvAddr?)"
            )
        return (
            f" (asked: name server {asked}; does one run there? If not, pass namesrv='HOST:PORT' "
            "or set NAMESRV_ADDR)"
        )

    async def __aenter__(self) -> Self:
        check_trio()
        if self._process != os.getpid():
            raise ClientError(
                "this client was made before the process was forked, and would have the same "
                "client id as in the parent and in other children: make it in the child"
            )
        await self._channels.__aenter__()
        await self._tasks.__aenter__()
        self._tasks.start_soon(self._every, HEARTBEAT_INTERVAL, self.heartbeat)
        self._tasks.start_soon(self._every, ROUTE_INTERVAL, self.refresh_routes)
        return self

    async def __aexit__(self, *error: object) -> None:
        try:
            await self._tasks.__aexit__(*error)
        finally:
            await self._channels.__aexit__(*error)

    async def _every(self, seconds: float, work: Callable[[], Any]) -> None:
        while True:
            await trio.sleep(seconds)
            try:
                await work()
            except PyrmqError as e:
                log.warning("%s", escape(e))

    def _closed(self, channel: Channel) -> None:
        self.away |= {a for a in self.brokers() if _is_of(a, channel)}
        for notify in self.on_closed:
            notify()

    async def channel(self, address: str | Address) -> Channel:
        target = parse_address(address) if isinstance(address, str) else address
        return await self._channels.get(target)

    async def route(self, topic: str, *, fresh: bool = False) -> TopicRoute:
        """Where a topic is. TopicNotExistError if the name server knows no live broker of it."""
        self._use(topic)
        self._watched.add(topic)
        known = self._routes.known.get(topic)
        if known is not None and not fresh:
            return known
        async with self._route_lock:
            return await self._channels.perform(self._routes.renew(topic, known))

    def _use(self, topic: str) -> None:
        self.topics.turn()
        self.topics.used.add(topic)

    def _forget(self, topics: set[str]) -> None:
        """All but these are not used any more."""
        self._watched &= topics
        keep(self._routes.known, topics)
        keep(self._masters, topics)
        keep(self._new_topics, topics)
        self._looks.forget(topics)

    async def publish_route(self, topic: str) -> TopicRoute:
        """As `route`; a topic that is new gets the brokers that create topics on demand."""
        route = self.known_route(topic)
        if route is not None:
            return route
        async with self._publish_lock:  # many senders of a new topic ask once
            route = self.known_route(topic)
            if route is not None:
                return route
            _, older = self._new_topics.get(topic, (0.0, None))
            with suppress(TopicNotExistError):
                route = await self.route(topic)
                self._new_topics.pop(topic, None)
                return route
            try:
                route = await self._channels.perform(self._routes.auto_create_route(topic))
            except TopicNotExistError:
                if older is None:
                    raise
                route = older  # its broker may be about to come back
            self._new_topics[topic] = trio.current_time() + NEW_TOPIC, route
            return route

    async def why_no_route(self, error: TopicNotExistError) -> str:
        """What to say of a topic that name servers do not know: they may know no broker at all."""
        try:
            if not await self._has_broker():
                asked = ", ".join(map(format_address, self.namesrv))
                return f"no broker has registered with name server {asked} yet"
        except PyrmqError:
            pass
        return f"it does not exist, as far as the name servers know: {error}"

    async def _has_broker(self) -> bool:
        info = await self._channels.perform(self._routes.servers.cluster_info())
        return bool(info.brokers)

    async def refresh_routes(self) -> None:
        """Fetches the routes of all topics in use again. One that the name server does not know
        stays as it was: it may be a broker that is about to come back."""
        self.topics.turn()
        for topic in list(self._watched):
            await self._fetch(topic)

    async def _fetch(self, topic: str) -> None:
        try:
            await self._channels.perform(self._routes.route(topic, fresh=True))
        except TopicNotExistError:
            log.info("the name server has no route of topic %s now", escape(topic))
        except ProtocolError as e:  # the others are none the worse for it
            log.warning("the route of topic %s cannot be read: %s", escape(topic), escape(e))

    def look_again(self, topic: str) -> None:
        """Has the route of a topic fetched soon: one of its brokers is gone, or may be back."""
        self._looks.look(topic)

    async def _refresh(self, topic: str) -> bool:
        """Whether the route of a topic is another one now."""
        before = self._routes.known.get(topic)
        try:
            await self._fetch(topic)
        except PyrmqError as e:
            log.info("the route of topic %s is not known: %s", escape(topic), escape(e))
        return self._routes.known.get(topic) != before

    async def master(self, topic: str, broker_name: str) -> Channel:
        """A channel to the master of a broker name. ClientError if the route has none."""
        route = await self.publish_route(topic)
        address = route.master_of(broker_name)
        if address is None:
            raise ClientError(f"broker {broker_name} has no master in the route of {topic}")
        return await self.channel(address)

    async def known_master(self, topic: str, broker_name: str) -> Channel:
        """As `master`; the broker knows the groups of this client when it returns."""
        channel = await self.master(topic, broker_name)
        await self.greet(channel)
        return channel

    async def known_channel(self, address: str) -> Channel:
        """As `channel`; the broker knows the groups of this client when it returns."""
        try:
            channel = await self.channel(address)
            await self.greet(channel)
        except (ConnectError, RequestTimeoutError, ConfigError):
            self.away.add(address)
            raise
        return channel

    def known_route(self, topic: str) -> TopicRoute | None:
        """What `publish_route` returns at once; None if it would have to ask."""
        self.topics.used.add(topic)
        route = self._routes.known.get(topic)
        if route is None and (new := self._new_topics.get(topic)) is not None:
            return new[1] if trio.current_time() < new[0] else None
        return route

    def open_master(self, topic: str, broker_name: str) -> Channel | None:
        """The channel that `master` returns at once; None if it would have to wait."""
        route = self.known_route(topic)
        if route is None:
            return None
        known = self._masters.get(topic)
        if known is None or known[0] is not route:
            known = self._masters[topic] = route, {}
        address = known[1].get(broker_name)
        if address is None:
            text = route.master_of(broker_name)
            if text is None:
                return None
            address = known[1][broker_name] = parse_address(text)
        return self._channels.open(address)

    async def find_all_masters(self) -> None:
        """From now on `brokers` has every master that the name server knows."""
        info = await self._channels.perform(self._routes.servers.cluster_info())
        self._all_masters = set(info.masters())

    def brokers(self) -> set[str]:
        """Addresses of all masters in the routes that are known, and, of a consumer, of all slaves:
        they have to know who reads from them once a master is gone."""
        addresses = TopicRoute.addresses if self.consumers else TopicRoute.masters
        found = {a for route in self._routes.known.values() for a in addresses(route)}
        return found | self._all_masters

    async def greet(self, channel: Channel) -> None:
        """Returns when a heartbeat was answered on this connection: from then on its broker knows
        the groups of this client. Raises what the request raises."""
        if channel.greeted:
            return
        async with channel.greeting:
            if not channel.greeted:
                await self.register(channel)

    def is_greeted(self, address: str) -> bool:
        """Whether `known_channel` returns at once."""
        channel = self._open(address)
        return channel is not None and channel.greeted

    def _open(self, address: str) -> Channel | None:
        """The channel to a broker of a route, if there is one."""
        try:
            return self._channels.open(parse_address(address))
        except ConfigError:
            return None  # name servers may say anything

    async def register(self, channel: Channel) -> None:
        """HEART_BEAT on a connection, whatever went before. Raises what the request raises."""
        body = fastjson.dumps(
            {
                "clientID": self.client_id,
                "consumerDataSet": [data() for data in self.consumers.values()],
                "heartbeatFingerprint": 0,
                "producerDataSet": [{"groupName": g} for g in sorted(self.producer_groups)],
                "withoutSub": False,
            }
        )
        await channel.request(RequestCode.HEART_BEAT, {}, body, timeout=API_TIMEOUT)
        self._unheard.pop(format_address(channel.address), None)
        self.away -= {a for a in self.away if self._open(a) is channel}
        if not channel.greeted:
            channel.greeted = True
            for notify in self.on_greeted:
                notify(channel.address)

    async def heartbeat(self) -> None:
        """HEART_BEAT to every known broker at once; failures are logged. Returns when those that
        are connected have answered, or after a moment: one that is silent holds up nobody. With
        others a connection is begun."""
        known = self.brokers()
        self.away &= known
        for gone in self._unheard.keys() - known:
            del self._unheard[gone]
        silent: set[str] = set()
        answered = trio.Event()

        async def to(channel: Channel, address: str) -> None:
            try:
                await self.register(channel)
            except PyrmqError as e:
                self._not_heard(address, e)
            finally:
                silent.discard(address)
                if not silent:
                    answered.set()

        for address, channel in self._open_brokers():
            silent.add(address)
            self._tasks.start_soon(to, channel, address)
        for address in self.brokers() - self._connecting:
            if self._open(address) is None:
                self._connecting.add(address)
                self._tasks.start_soon(self._connect, address)
        if silent:
            with trio.move_on_after(HEARD):
                await answered.wait()

    async def _connect(self, address: str) -> None:
        try:
            await self.known_channel(address)
        except PyrmqError as e:
            self._not_heard(address, e)
        finally:
            self._connecting.discard(address)

    def _not_heard(self, address: str, error: PyrmqError) -> None:
        """Says once for each reason why a broker hears no heartbeat."""
        if self._unheard.get(address) != (why := str(error)):
            self._unheard[address] = why
            log.warning("no heartbeat to broker %s: %s", escape(address), escape(why))

    async def unregister(self, **groups: str) -> None:
        """UNREGISTER_CLIENT (producerGroup=… or consumerGroup=…) to every broker that is connected:
        others know of no client."""
        ext: dict[str, str | int | bool] = {"clientID": self.client_id, **groups}

        async def unregister(channel: Channel, address: str) -> None:
            try:
                await channel.request(RequestCode.UNREGISTER_CLIENT, ext, timeout=API_TIMEOUT)
            except PyrmqError as e:
                log.warning("goodbye to broker %s: %s", escape(address), escape(e))

        async with trio.open_nursery() as nursery:
            for address, channel in self._open_brokers():
                nursery.start_soon(unregister, channel, address)

    def _open_brokers(self) -> list[tuple[str, Channel]]:
        """Those of `brokers` that are connected."""
        found = ((address, self._open(address)) for address in self.brokers())
        return [(address, channel) for address, channel in found if channel is not None]


def _is_of(address: str, channel: Channel) -> bool:
    try:
        return parse_address(address) == channel.address
    except ConfigError:
        return False  # name servers may say anything
