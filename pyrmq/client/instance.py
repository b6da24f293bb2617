"""What producers and consumers share: connections, heartbeats, time limits, and the requests that
brokers make of a client. [MQClientInstance, ClientRemotingProcessor]"""

from __future__ import annotations

import itertools
import logging
import os
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self, TypedDict

import trio

from pyrmq.client.checks import check_namespace, check_seconds, check_trio
from pyrmq.client.routes import TopicRoutes, keep
from pyrmq.engine import Command
from pyrmq.errors import (
    ClientError,
    ConfigError,
    ConnectError,
    PyrmqError,
    RequestTimeoutError,
    ResponseError,
)
from pyrmq.escape import escape
from pyrmq.model.codes import RequestCode
from pyrmq.model.record import ReceivedMessage, decode_record
from pyrmq.model.route import TopicRoute
from pyrmq.model.transaction import PRODUCER_GROUP
from pyrmq.net import fastjson
from pyrmq.net.address import (
    Address,
    format_address,
    own_ip,
    parse_address,
    parse_addresses,
)
from pyrmq.net.client.channel import Channel, Channels
from pyrmq.net.client.credentials import Credentials
from pyrmq.net.client.name_servers import NameServers
from pyrmq.net.client.tls import Tls
from pyrmq.net.command import Response
from pyrmq.net.tasks import Tasks

log = logging.getLogger(__name__)

CheckHandler = Callable[[Channel, Mapping[str, str], ReceivedMessage], None]
RequestHandler = Callable[[Command], Awaitable[Response | None]]


class Incoming:
    """`on_ids_changed` is called when the members of a group change, `on_leaves` when a broker says
    that its routes have changed, `on_check` (by producer group) when a broker asks for the outcome
    of a transaction, `on_request` (by code) for other requests."""

    def __init__(self) -> None:
        self.on_ids_changed: list[Callable[[], None]] = []
        self.on_leaves: list[Callable[[str], None]] = []
        self.on_check: dict[str, CheckHandler] = {}
        self.on_request: dict[int, RequestHandler] = {}
        self.unreadable_checks = 0

    async def answer(self, channel: Channel, command: Command) -> Response | None:
        """None for requests without an answer."""
        if command.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED:
            for notify in self.on_ids_changed:
                notify()
            return None
        if command.code == RequestCode.NOTIFY_BROKER_LEAVES:
            for leaves in self.on_leaves:
                leaves(command.ext.get("brokerName", ""))
            return None
        if command.code == RequestCode.CHECK_TRANSACTION_STATE:
            self._check(channel, command)
            return None  # the broker does not wait: END_TRANSACTION is the answer
        handler = self.on_request.get(command.code)
        if handler is not None:
            return await handler(command)
        return Response(3, f"request type {command.code} not supported")

    def _check(self, channel: Channel, command: Command) -> None:
        """Passes a check to the producer that its message names."""
        where = format_address(channel.address)
        try:
            message = decode_record(memoryview(command.body))
        except PyrmqError as e:
            self.unreadable_checks += 1
            log.warning(
                "broker %s asks about a transaction that cannot be read: %s",
                escape(where),
                escape(e),
            )
            return
        group = message.properties.get(PRODUCER_GROUP, "")
        handler = self.on_check.get(group)
        if handler is None:
            log.warning(
                "broker %s asks about a transaction of group %r: not here", escape(where), group
            )
            return
        handler(channel, command.ext, message)


HEARTBEAT_INTERVAL = 30.0
ROUTE_INTERVAL = 30.0
API_TIMEOUT = 3.0
HEARD = 0.3
"""Seconds that `heartbeat` waits for the answers of brokers."""

_instances = itertools.count()


@contextmanager
def within(seconds: float, what: str, why: Callable[[], str] = str) -> Iterator[None]:
    """Raises RequestTimeoutError with these texts if the block does not end in time, and
    ClientError for an invalid number of seconds."""
    check_seconds("timeout", seconds, 0)
    with trio.move_on_after(seconds) as limit:
        yield
    if limit.cancelled_caught:
        raise RequestTimeoutError(f"{what} in {seconds:g} s{why()}")


class Connecting(TypedDict):
    """How a client connects."""

    namesrv: str
    namespace_v2: str
    credentials: Credentials | None
    tls: Tls | None


class ClientInstance:
    """One client id with its connections. `producer_groups` and `consumers` make up the heartbeat;
    `incoming` handles requests of brokers. `on_closed` is called when a connection has ended,
    `on_greeted` when the broker at an address knows this client on a new one."""

    def __init__(
        self,
        namesrv: str | None,
        instance_name: str | None = None,
        *,
        namespace_v2: str = "",
        credentials: Credentials | None = None,
        tls: Tls | None = None,
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
        self.connecting = Connecting(
            namesrv=text, namespace_v2=namespace_v2, credentials=credentials, tls=tls
        )
        """Options of a producer that connects as this client does."""
        fields = {"nsd": "true", "ns": namespace_v2} if namespace_v2 else None  # NamespaceRpcHook
        self._channels = Channels(self.incoming.answer, self._closed, fields, credentials, tls)
        self._all_masters: set[str] = set()
        self.away: set[str] = set()
        """Addresses of brokers whose connection was lost, or that are unreachable."""
        self._connecting: set[str] = set()
        self._strangers: set[Address] = set()
        """Brokers to which `greet_soon` failed, until a heartbeat arrives."""
        self._unheard: dict[str, str] = {}
        """By address, why the last heartbeat did not arrive."""
        self._servers = NameServers(self.namesrv, timeout=API_TIMEOUT)
        self._tasks = Tasks()
        self.routes = TopicRoutes(self._servers, self._channels, self._tasks)
        self.routes.recent.forgotten.append(self._forget)
        self.incoming.on_leaves.append(self.routes.broker_leaves)
        self._masters: dict[str, tuple[TopicRoute, dict[str, Address]]] = {}
        """Addresses of masters by topic and broker name, with the route that they are from."""

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
        self._tasks.start_soon(self._every, ROUTE_INTERVAL, self.routes.refresh)
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

    def _forget(self, topics: set[str]) -> None:
        """Keeps only these topics."""
        keep(self._masters, topics)

    async def master(self, topic: str, broker_name: str) -> Channel:
        """A channel to the master of a broker name. Raises ClientError if the route has none."""
        route = await self.routes.publish(topic)
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

    def open_master(self, topic: str, broker_name: str) -> Channel | None:
        """The channel of `master`, if it is open; else None."""
        route = self.routes.known(topic)
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
        """From now on `brokers` includes every master that the name server knows."""
        info = await self._channels.perform(self._servers.cluster_info())
        self._all_masters = set(info.masters())

    def brokers(self) -> set[str]:
        """Addresses of all masters in the known routes and, for a consumer, of all slaves, which
        must know their readers when a master is gone."""
        addresses = TopicRoute.addresses if self.consumers else TopicRoute.masters
        found = {a for route in self.routes for a in addresses(route)}
        return found | self._all_masters

    async def greet(self, channel: Channel) -> None:
        """Returns when a heartbeat was answered on this connection, so that its broker knows this
        client's groups. Raises what the request raises."""
        if channel.greeted:
            return
        async with channel.greeting:
            if not channel.greeted:
                await self.register(channel)

    def greet_soon(self, channel: Channel) -> None:
        """As `greet`, in the background and once: a broker that stops tells the clients that it
        knows. If it fails, the next heartbeat follows."""
        silent = channel.address in self._strangers
        if not silent and not channel.greeted and not channel.introduced and self._tasks.running:
            channel.introduced = True
            self._tasks.start_soon(self._greet_quietly, channel)

    async def _greet_quietly(self, channel: Channel) -> None:
        try:
            await self.version_of(channel)
        except PyrmqError as e:
            self._strangers.add(channel.address)
            where = format_address(channel.address)
            log.info("broker %s does not know this client yet: %s", escape(where), escape(e))

    async def version_of(self, channel: Channel) -> int:
        """The MQVersion of a broker; 0 if it states none, -1 if it refuses heartbeats, which is
        asked once. Raises ConnectError and RequestTimeoutError."""
        if channel.version:
            return channel.version
        async with channel.greeting:
            if not channel.version and not channel.greeted:
                try:
                    await self.register(channel)
                except ResponseError as e:
                    channel.version = -1
                    log.info("version of broker %s: %s", escape(channel.address), escape(e))
        return channel.version

    def is_greeted(self, address: str) -> bool:
        """Whether `known_channel` returns at once."""
        channel = self._open(address)
        return channel is not None and channel.greeted

    def _open(self, address: str) -> Channel | None:
        """The open channel to a broker of a route, if there is one."""
        try:
            return self._channels.open(parse_address(address))
        except ConfigError:
            return None  # name servers may say anything

    async def register(self, channel: Channel) -> None:
        """HEART_BEAT on a connection, in any case. Raises what the request raises."""
        body = fastjson.dumps(
            {
                "clientID": self.client_id,
                "consumerDataSet": [data() for data in self.consumers.values()],
                "heartbeatFingerprint": 0,
                "producerDataSet": [{"groupName": g} for g in sorted(self.producer_groups)],
                "withoutSub": False,
            }
        )
        answer = await channel.request(RequestCode.HEART_BEAT, {}, body, timeout=API_TIMEOUT)
        channel.version = answer.version
        self._strangers.discard(channel.address)
        self._unheard.pop(format_address(channel.address), None)
        self.away -= {a for a in self.away if self._open(a) is channel}
        if not channel.greeted:
            channel.greeted = True
            for notify in self.on_greeted:
                notify(channel.address)

    async def heartbeat(self) -> None:
        """HEART_BEAT to every known broker at once; failures are logged. Returns when the connected
        ones have answered, or after a moment, so a silent one delays nobody. For the others it
        starts connecting."""
        known = self.brokers()
        self.away &= known
        self._strangers = {a for a in self._strangers if format_address(a) in known}
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
        """Logs, once for each reason, why a broker gets no heartbeat."""
        if self._unheard.get(address) != (why := str(error)):
            self._unheard[address] = why
            log.warning("no heartbeat to broker %s: %s", escape(address), escape(why))

    async def unregister(self, **groups: str) -> None:
        """UNREGISTER_CLIENT (producerGroup=… or consumerGroup=…) to every connected broker; the
        others do not know the client."""
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
        """The connected ones of `brokers`."""
        found = ((address, self._open(address)) for address in self.brokers())
        return [(address, channel) for address, channel in found if channel is not None]


def _is_of(address: str, channel: Channel) -> bool:
    try:
        return parse_address(address) == channel.address
    except ConfigError:
        return False  # name servers may say anything
