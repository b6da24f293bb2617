"""Requests of brokers: registering, signs of life, leaving; and what brokers are told.
[DefaultRequestProcessor]

NOTIFY_MIN_BROKER_ID_CHANGE tells members of a group which broker id is the smallest now.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable

import trio

from pyrmq.engine import Command
from pyrmq.errors import (
    ConfigError,
    InvalidParameterError,
    PyrmqError,
    ResponseError,
    SystemBusyError,
)
from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.model.codes import RequestCode, ResponseCode
from pyrmq.model.topic import DataVersion, as_int
from pyrmq.namesrv import fields, register_body, views
from pyrmq.namesrv.config import RunningConfig
from pyrmq.namesrv.kv import ORDER_TOPIC_CONFIG, KvConfig
from pyrmq.namesrv.register_body import Queues, queues_of
from pyrmq.namesrv.routes import DEFAULT_TIMEOUT_MS, NewMinimum, Registration, Routes
from pyrmq.net import fastjson
from pyrmq.net.address import parse_address
from pyrmq.net.client.channel import Channels
from pyrmq.net.client.server_access import channels_of
from pyrmq.net.command import Response
from pyrmq.net.server.answers import InTurns
from pyrmq.net.server.connection import Connection
from pyrmq.net.server.turns import Turns

log = logging.getLogger(__name__)

MAX_CHANGES = 1024
"""Changes that wait to be told; later ones are not told."""
TELL = 1.0
"""Seconds that telling the members of a group may take."""


def members_to_tell(change: NewMinimum) -> list[str]:
    """All that are left, if one has gone; else all but the new one. [chooseBrokerAddrsToNotify]"""
    addresses = change.addresses
    if change.offline is not None or len(addresses) == 1:
        return list(addresses.values())
    return [address for broker_id, address in addresses.items() if broker_id != min(addresses)]


class MinimumNotifier:
    """Tells one change after the other, so that what a broker hears last is true.

    Brokers take the request on the address that they serve clients on, not on the connection that
    they registered on. So this connects to addresses that others state: with
    notifyMinBrokerIdChanged only.
    """

    def __init__(self, config: RunningConfig) -> None:
        self._config = config
        self._changes: deque[NewMinimum] = deque()
        self._news = trio.Event()

    def tell(self, changes: Iterable[NewMinimum]) -> None:
        if not self._config.now.notify_min_broker_id_changed:
            return
        for change in changes:
            if len(self._changes) >= MAX_CHANGES:
                log.warning("a change of the smallest broker id is not told: too many wait")
                return
            self._changes.append(change)
        self._news.set()

    async def run(self) -> None:
        """Tells until cancelled."""
        while True:
            await self._news.wait()
            self._news = trio.Event()
            while self._changes:
                await self._tell(self._changes.popleft())

    async def _tell(self, change: NewMinimum) -> None:
        smallest = min(change.addresses)
        header: dict[str, str | int | bool] = {
            "minBrokerId": smallest,
            "minBrokerAddr": change.addresses[smallest],
        }
        if change.offline is not None:
            header["offlineBrokerAddr"] = change.offline
        if change.ha_address is not None:
            header["haBrokerAddr"] = change.ha_address
        with trio.move_on_after(TELL) as limit:
            try:
                await self._tell_all(members_to_tell(change), header)
            except ConfigError as e:
                log.warning("brokers cannot be told their smallest broker id: %s", escape(e))
        if limit.cancelled_caught:
            log.warning("not all members of a group could be told its smallest broker id in time")

    async def _tell_all(self, addresses: list[str], header: dict[str, str | int | bool]) -> None:
        async with channels_of(self._config.now) as channels, trio.open_nursery() as nursery:
            for address in addresses:
                nursery.start_soon(self._one, channels, address, header)

    async def _one(
        self, channels: Channels, address: str, header: dict[str, str | int | bool]
    ) -> None:
        try:
            channel = await channels.get(parse_address(address))
            await channel.oneway(RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE, header)
        except PyrmqError as e:
            log.warning("broker at %s: %s", escape(address), escape(e), extra=about(broker=address))


MAX_WAITING = 256 << 20
"""Bytes of registrations that are read, or wait for it; 76,000 topics have some 16 MiB."""
MAX_ROUTE = 64 << 10
"""Longest body of REGISTER_TOPIC_IN_NAMESRV, bytes."""
MAX_ORDER = 15 << 20
"""Longest table of order configurations that is told to brokers, bytes: an answer has 16 MiB."""
LOG_INTERVAL = 60.0
"""Seconds between two lines of the log about a longer one."""
ZONE_NAME = "__ZONE_NAME"


class BrokerProcessor:
    def __init__(
        self,
        config: RunningConfig,
        routes: Routes,
        kv: KvConfig,
        turns: Turns,
        notifier: MinimumNotifier,
        check: Callable[[Connection, Command, str], None] = lambda connection, command, name: None,
    ) -> None:
        """`check`: raises if whoever makes a request may not change a cluster."""
        self._check = check
        self._config = config
        self._routes = routes
        self._kv = kv
        self._turns = turns
        self._notifier = notifier
        self._waiting = 0
        """Bytes of registrations that are under way."""
        self._latest: dict[tuple[str, str], object] = {}
        """The last registration of each address, while it is read."""
        self._left = trio.Event()
        """Brokers have left."""
        self._next_log = -1.0

    async def run(self) -> None:
        """Removes the topics of brokers that have left, until cancelled."""
        while True:
            await self._left.wait()
            self._left = trio.Event()
            await self._turns.run(self._routes.sweep())

    def register(self, connection: Connection, command: Command) -> InTurns:
        """REGISTER_BROKER."""
        # What comes first is first, before anything is awaited.
        place = fields.place(command)

        def check() -> None:
            for cluster in self._routes.clusters_met(place.broker_name, place.address):
                if cluster != place.cluster:  # whoever may register in that one has been checked
                    self._check(connection, command, cluster)

        check()
        ha_address = command.ext.get("haServerAddr", "")
        if ha_address:
            fields.check_address("haServerAddr", ha_address)
        zone = command.ext.get(ZONE_NAME, "").strip()
        if zone:
            fields.check_name(ZONE_NAME, zone)
        registration = Registration(
            place.cluster,
            place.broker_name,
            place.broker_id,
            place.address,
            ha_address,
            {},
            DataVersion(),
            fields.number(
                command, "heartbeatTimeoutMillis", fields.MAX_TIMEOUT_MS, DEFAULT_TIMEOUT_MS
            ),
            fields.flag(command, "enableActingMaster"),
            zone,
        )
        register_body.check_crc(command.body, as_int(command.ext.get("bodyCrc32"), 0))
        size = len(command.body)
        if self._waiting + size > MAX_WAITING:
            raise SystemBusyError(f"{self._waiting} bytes of registrations are to be read already")
        self._waiting += size
        self._latest[place.key] = mine = object()
        return InTurns(self._register(connection, command.body, registration, mine, check))

    async def _register(
        self,
        connection: Connection,
        raw: bytes,
        registration: Registration,
        mine: object,
        check: Callable[[], None],
    ) -> Response | None:
        """Reads the body and takes the broker, if it has not registered anew, or left, since.
        `check`: whether it may take the place of the brokers that are there by now."""
        key = (registration.cluster, registration.address)
        try:
            registration.digest = await self._turns.run(register_body.digest(raw), connection)
            again = self._again(registration)
            body = None
            if again is None:
                body = await self._turns.run(register_body.read(raw), connection)
            if self._latest.get(key) is not mine:
                raise ResponseError(
                    "the broker has registered anew, or left, meanwhile", ResponseCode.SYSTEM_ERROR
                )
        finally:
            self._waiting -= len(raw)
            if self._latest.get(key) is mine:
                del self._latest[key]
        if connection.is_closed:
            return None
        check()
        if body is None:
            assert again is not None  # and nothing was awaited since
            return await self._take(connection, again)
        registration.topics = body.topics
        registration.version = body.version
        registration.static = body.static
        return await self._take(connection, registration)

    def _again(self, r: Registration) -> Registration | None:
        """Without topics, if the broker says what it said: most do every 30 s. Not where topics
        that it does not state are deleted: others may have added some."""
        if self._config.now.delete_topic_with_broker_registration:
            return None
        return self._routes.again(r)

    async def _take(self, connection: Connection, r: Registration) -> Response:
        config, routes = self._config.now, self._routes
        if (r.cluster, r.address) not in routes.live:
            log.info(
                "broker %s registers at %s",
                escape(r.broker_name),
                escape(r.address),
                extra=about(broker=r.broker_name),
            )
        admitted = routes.register(
            r,
            trio.current_time(),
            connection,
            delete_others=config.delete_topic_with_broker_registration,
        )
        ext: dict[str, str] = {}
        if admitted is None:
            log.warning(
                "broker %s at %s is older than the one that is registered: ignored",
                escape(r.broker_name),
                escape(r.address),
                extra=about(broker=r.broker_name),
            )
        else:
            connection.call_on_close(self._owner_gone)
            self._changed()
            await self._turns.run(routes.take(admitted), connection)
            master = admitted.master
            live = routes.live.get((r.cluster, master)) if master is not None else None
            if master is not None and live is not None:
                ext = {"masterAddr": master, "haServerAddr": live.ha_address}
        return Response(ext=ext, body=self._order() or b"")

    def _order(self) -> bytes | None:
        """Order configurations, for a broker's answer."""
        if not self._config.now.return_order_topic_config_to_broker:
            return None
        table = self._kv.table(ORDER_TOPIC_CONFIG)
        if table is None or len(table) <= MAX_ORDER:
            return table
        if trio.current_time() >= self._next_log:
            self._next_log = trio.current_time() + LOG_INTERVAL
            log.error(
                "brokers are not told the order configurations: ORDER_TOPIC_CONFIG has %d bytes, "
                "more than fit into an answer (%d); delete some (mqadmin deleteKvConfig)",
                len(table),
                MAX_ORDER,
            )
        return None

    def _changed(self) -> None:
        """Brokers may have come or gone."""
        self._notifier.tell(self._routes.new_minima)
        self._routes.new_minima = []
        self._left.set()

    def _owner_gone(self, connection: Connection) -> None:
        for gone in self._routes.owner_gone(connection):
            log.warning("connection of broker %s is gone", escape(gone), extra=about(broker=gone))
        self._changed()

    def expire(self, now: float) -> None:
        """Drops brokers that are silent."""
        for gone in self._routes.expire(now):
            log.warning("broker %s was silent for too long", escape(gone), extra=about(broker=gone))
        self._changed()

    def unregister(self, connection: Connection, command: Command) -> InTurns:
        """UNREGISTER_BROKER."""
        place = fields.place(command)
        self._latest.pop(place.key, None)
        self._routes.unregister(place.cluster, place.broker_name, place.broker_id, place.address)
        self._changed()
        return InTurns(self._swept())

    async def _swept(self) -> Response:
        await self._turns.run(self._routes.sweep())
        return Response()

    def heartbeat(self, connection: Connection, command: Command) -> Response:
        """BROKER_HEARTBEAT."""
        fields.broker_name(command)
        cluster, address = fields.cluster_name(command), fields.address(command)
        self._routes.touch(cluster, address, trio.current_time())
        return Response()

    def query_version(self, connection: Connection, command: Command) -> Response:
        """QUERY_DATA_VERSION: whether a broker has other topics than it has registered."""
        place = fields.place(command)
        asked = register_body.read_version(command.body)
        live = self._routes.touch(place.cluster, place.address, trio.current_time())
        if live is None:
            return Response(ext={"changed": True})
        return Response(
            ext={"changed": live.version != asked}, body=fastjson.dumps(live.version.to_json())
        )

    def members(self, connection: Connection, command: Command) -> Response:
        """GET_BROKER_MEMBER_GROUP."""
        group = views.member_group(
            self._routes, fields.cluster_name(command), fields.broker_name(command)
        )
        return Response(body=fastjson.dumps({"brokerMemberGroup": group}))

    def register_topic(self, connection: Connection, command: Command) -> Response:
        """REGISTER_TOPIC_IN_NAMESRV: the queues of one topic on brokers that are registered."""
        topic = fields.text(command, "topic")
        fields.check_topic(topic)
        if len(command.body) > MAX_ROUTE:
            raise InvalidParameterError(f"the route has more than {MAX_ROUTE} bytes")
        rows = fastjson.loads_object(command.body).get("queueDatas")
        if not isinstance(rows, list) or not rows:
            raise InvalidParameterError("queueDatas is needed")
        queues: dict[str, Queues] = {}
        for row in rows:
            name = row.get("brokerName") if isinstance(row, dict) else None
            if not isinstance(name, str):
                raise InvalidParameterError("queueDatas: brokerName is needed")
            queues[name] = queues_of(topic, row)
        self._routes.add_topic(topic, queues)
        return Response()
