"""The name server as a service: its requests on top of `Routes` and `KvConfig`."""

from __future__ import annotations

import dataclasses
import logging
import socket
from collections.abc import Callable

import trio

from pyrmq.auth.access import Access
from pyrmq.auth.decide import Need
from pyrmq.auth.exposure import warn_of_access
from pyrmq.auth.model import cluster
from pyrmq.auth.needs import UPDATE
from pyrmq.auth.setup import access_requests, guard_of, open_access
from pyrmq.config.files import parse_properties
from pyrmq.config.log_keys import follow_levels
from pyrmq.config.table import keys_of, values_of
from pyrmq.engine import Command, Listener
from pyrmq.errors import ConfigError, InvalidParameterError, NoPermissionError
from pyrmq.escape import escape
from pyrmq.http.health import health_routes
from pyrmq.logs.about import about
from pyrmq.metrics.exposition import Source
from pyrmq.metrics.rpc import RpcRows
from pyrmq.metrics.service import MetricsService, metrics_listeners
from pyrmq.model.codes import RequestCode
from pyrmq.namesrv.brokers import BrokerProcessor, MinimumNotifier
from pyrmq.namesrv.clients import RouteProcessor
from pyrmq.namesrv.config import OTHER_KEYS, NamesrvConfig, RunningConfig
from pyrmq.namesrv.health import NamesrvHealth
from pyrmq.namesrv.kv import KvConfig, KvLock, KvProcessor
from pyrmq.namesrv.metrics import NamesrvFigures
from pyrmq.namesrv.routes import Routes
from pyrmq.net.address import Address, format_address, parse_address
from pyrmq.net.client.server_access import ConnectingKeys, OwnNameServer, own_tls
from pyrmq.net.command import Response
from pyrmq.net.server.admin_access import AdminAccess
from pyrmq.net.server.answers import Processor
from pyrmq.net.server.connection import Connection
from pyrmq.net.server.listen import open_listeners
from pyrmq.net.server.server import RemotingServer
from pyrmq.net.server.tls import ServerTls
from pyrmq.net.server.turns import Turns
from pyrmq.version import __version__

log = logging.getLogger(__name__)

USERS_FILE, ACLS_FILE = "namesrvUsers.json", "namesrvAcls.json"
"""Beside the file of the KV configuration. A broker's have other names: both may share a folder."""
ALL_CLUSTERS = "*"
"""The resource that requests need which concern the whole name server: only `Cluster:*` and `*`
match it."""
MAX_CONFIG_BODY = 65_536
"""Longest text of changes, bytes."""


class ConfigProcessor:
    def __init__(self, config: RunningConfig) -> None:
        self._config = config

    def get(self, connection: Connection, command: Command) -> Response:
        """GET_NAMESRV_CONFIG: lines `key=value`, as Java's Properties reads them."""
        lines = [f"{key}={_line(value)}\n" for key, value in values_of(self._config.now).items()]
        return Response(body="".join(sorted(lines)).encode(errors="backslashreplace"))

    def update(self, connection: Connection, command: Command) -> Response:
        """UPDATE_NAMESRV_CONFIG: changes all keys of the text, or none. What is changed counts at
        once, until the name server ends."""
        if len(command.body) > MAX_CONFIG_BODY:
            raise InvalidParameterError(
                f"at most {MAX_CONFIG_BODY} bytes of configuration are taken"
            )
        try:
            values = parse_properties(command.body.decode())
        except UnicodeDecodeError:
            raise InvalidParameterError("the configuration is not UTF-8") from None
        if not values:
            raise InvalidParameterError("there is no key=value to change")
        refused = {key.strip() for key in self._config.now.config_black_list.split(";")}
        rows = keys_of(NamesrvConfig)
        for key in values:
            if key in refused or key not in rows or not rows[key][1].live:
                self._refuse(key)
        try:
            chosen = NamesrvConfig.from_properties(values)
        except ConfigError as e:
            raise InvalidParameterError(str(e)) from None
        changes = {rows[key][0]: getattr(chosen, rows[key][0]) for key in values}
        self._config.change(dataclasses.replace(self._config.now, **changes))
        log.info(
            "%s changes %s",
            escape(connection.peer),
            escape(values),
            extra=about(connection=connection.peer),
        )
        return Response()

    def _refuse(self, key: str) -> None:
        """Raises what says why a key cannot be changed."""
        known = {*keys_of(NamesrvConfig), *(row.name for row in OTHER_KEYS)}
        if key not in known:
            raise InvalidParameterError(
                f"unknown configuration key {key[:64]!r}: nothing is changed"
            )
        raise NoPermissionError(
            f"{key} cannot be changed while the name server runs: change the file that it is "
            "started with. Nothing is changed"
        )


def _line(value: str) -> str:
    """A value that stays on its line."""
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")


class NameServer:
    """`run` serves; `address` is where (port 0 takes any free one)."""

    def __init__(
        self, config: NamesrvConfig, users: Callable[[], Access | None] | None = None
    ) -> None:
        """`users` opens users and access lists that are not this name server's own."""
        self._lock = KvLock(config.kv_config_path)
        self._lock.hold()
        try:
            self._open(config, users)
        except BaseException:
            self._lock.release()
            raise

    def _open(self, config: NamesrvConfig, users: Callable[[], Access | None] | None) -> None:
        self.config = RunningConfig(config)
        follow_levels(self.config)
        folder = config.kv_config_path.parent
        if users is None:
            access = open_access(config, folder / USERS_FILE, folder / ACLS_FILE)
        else:
            access = users()
        self.access = access
        guard = guard_of(config, access, ALL_CLUSTERS)
        self._guarded = guard is not None
        self.routes = Routes()
        # Apart, so that nobody who asks for long lists keeps brokers from registering.
        turns, of_brokers = Turns(), Turns()
        kv = KvConfig(config.kv_config_path, turns, self._lock)
        self._notifier = MinimumNotifier(self.config)

        def check(connection: Connection, command: Command, name: str) -> None:
            if guard is not None:
                guard.check(connection, command, Need(cluster(name), UPDATE))

        self._brokers = BrokerProcessor(
            self.config, self.routes, kv, of_brokers, self._notifier, check
        )
        self._clients = RouteProcessor(self.config, self.routes, kv, turns)
        self.health = NamesrvHealth("name server", self._clients.waits)
        """Whether it lives, and is ready."""
        self.processors = self._processors(kv) | access_requests(
            access, guard, config.admin_address_allow_list
        )
        """By request code."""
        tls = ServerTls("name server", config.tls_settings())
        sockets: list[socket.socket] = open_listeners(config.bind_address, config.listen_port)
        try:
            metrics_sockets = metrics_listeners(config)
        except ConfigError:
            for sock in sockets:
                sock.close()
            raise
        port = sockets[0].getsockname()[1]
        warn_of_access("the name server", values_of(config), {port: "listenPort"})
        self._server = RemotingServer(
            "name server",
            sockets,
            self.processors,
            Listener(tls=tls.context),
            idle_seconds=config.server_channel_max_idle_time_seconds,
            slow_log_ms=config.slow_log_ms,
            admins=AdminAccess(config.admin_address_allow_list),
            guard=guard,
            tls=tls,
        )
        self._metrics = self._metrics_service(kv, metrics_sockets)

    def _metrics_service(self, kv: KvConfig, sockets: list[socket.socket]) -> MetricsService | None:
        if not sockets:
            return None
        server = self._server
        figures = NamesrvFigures(self.routes, kv, lambda: len(server.connections))
        sources: list[Source] = [figures, RpcRows(server.figures)]
        node = {"node_type": "nameserver", "node_id": format_address(server.address)}
        routes = health_routes(self.health)
        return MetricsService("name server", sockets, self.config.now, node, sources, routes)

    def _processors(self, kv: KvConfig) -> dict[int, Processor]:
        brokers, clients = self._brokers, self._clients
        values = KvProcessor(kv)
        config = ConfigProcessor(self.config)
        return {
            RequestCode.PUT_KV_CONFIG: values.put,
            RequestCode.GET_KV_CONFIG: values.get,
            RequestCode.DELETE_KV_CONFIG: values.delete,
            RequestCode.GET_KVLIST_BY_NAMESPACE: values.all,
            RequestCode.REGISTER_BROKER: brokers.register,
            RequestCode.UNREGISTER_BROKER: brokers.unregister,
            RequestCode.BROKER_HEARTBEAT: brokers.heartbeat,
            RequestCode.QUERY_DATA_VERSION: brokers.query_version,
            RequestCode.GET_BROKER_MEMBER_GROUP: brokers.members,
            RequestCode.REGISTER_TOPIC_IN_NAMESRV: brokers.register_topic,
            RequestCode.GET_ROUTEINFO_BY_TOPIC: clients.route,
            RequestCode.GET_BROKER_CLUSTER_INFO: clients.cluster,
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: clients.all_topics,
            RequestCode.GET_TOPICS_BY_CLUSTER: clients.topics_by_cluster,
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: clients.system_topics,
            RequestCode.GET_UNIT_TOPIC_LIST: clients.unit_topics,
            RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: clients.unit_sub_topics,
            RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: clients.unit_sub_ununit_topics,
            RequestCode.DELETE_TOPIC_IN_NAMESRV: clients.delete_topic,
            RequestCode.WIPE_WRITE_PERM_OF_BROKER: clients.wipe_write_perm,
            RequestCode.ADD_WRITE_PERM_OF_BROKER: clients.add_write_perm,
            RequestCode.UPDATE_NAMESRV_CONFIG: config.update,
            RequestCode.GET_NAMESRV_CONFIG: config.get,
        }

    @property
    def address(self) -> Address:
        return self._server.address

    @property
    def metrics_address(self) -> Address | None:
        """Where metrics and health are served; None if they are not."""
        return None if self._metrics is None else self._metrics.address

    def rows(self) -> int:
        """How many rows its tables have, connections among them."""
        return self.routes.rows + len(self._server.connections)

    @property
    def reachable(self) -> str:
        """`host:port` at which processes on this machine reach it."""
        host, port = self.address
        return format_address(("127.0.0.1" if host in ("0.0.0.0", "::") else host, port))

    def for_own_broker(self, config: ConnectingKeys) -> OwnNameServer:
        """How a broker that this process runs, or starts, connects to this name server."""
        access = self.access if self._guarded else None
        return OwnNameServer(
            parse_address(self.reachable),
            access.know_own_broker() if access is not None else None,
            own_tls(self.config.now, config),
        )

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        where = format_address(self.address)
        try:
            async with trio.open_nursery() as nursery:
                if self._metrics is not None:
                    await nursery.start(self._metrics.run)
                await nursery.start(self._server.run)
                self._clients.start()
                nursery.start_soon(self._expire)
                nursery.start_soon(self._brokers.run)
                nursery.start_soon(self._notifier.run)
                log.info("the name server serves at %s; pyrmq %s", escape(where), __version__)
                task_status.started()
        finally:
            self._lock.release()
            log.info("the name server at %s has stopped", escape(where))

    async def _expire(self) -> None:
        """Drops silent brokers, every scanNotActiveBrokerInterval as it is at the moment."""
        while True:
            await self.config.pause(lambda config: config.scan_not_active_broker_interval)
            self._brokers.expire(trio.current_time())
