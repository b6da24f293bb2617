"""The name server as a service: its requests on top of `Routes`."""

from __future__ import annotations

import logging
import socket

import trio

from pyrmq.engine import Command, Listener
from pyrmq.errors import InvalidParameterError, TopicNotExistError
from pyrmq.escape import escape
from pyrmq.model.codes import RequestCode
from pyrmq.model.topic import as_int
from pyrmq.namesrv import register_body
from pyrmq.namesrv.config import NamesrvConfig
from pyrmq.namesrv.routes import DEFAULT_TIMEOUT_MS, Registration, Routes
from pyrmq.net import fastjson
from pyrmq.net.address import Address
from pyrmq.net.admin_access import AdminAccess
from pyrmq.net.answers import Processor
from pyrmq.net.command import Response
from pyrmq.net.connection import Connection
from pyrmq.net.listen import open_listeners
from pyrmq.net.server import RemotingServer

log = logging.getLogger(__name__)

STRICT_JSON_SINCE = 401
"""Clients since V4_9_4 get routes as strict JSON."""


def _broker_id(command: Command) -> int:
    text = _field(command, "brokerId")
    if not text.isdecimal() or len(text) > 18:
        raise InvalidParameterError(f"brokerId {text[:32]!r} is no number")
    return int(text)


def _field(command: Command, name: str) -> str:
    value = command.ext.get(name)
    if value is None:
        raise InvalidParameterError(f"the custom field <{name}> is null")
    return value


class NameServer:
    """`run` serves; `address` is where (port 0 takes any free one)."""

    def __init__(self, config: NamesrvConfig) -> None:
        self.config = config
        self.routes = Routes()
        self._sockets: list[socket.socket] = open_listeners(config.bind_address, config.listen_port)
        processors: dict[int, Processor] = {
            RequestCode.REGISTER_BROKER: self._register,
            RequestCode.UNREGISTER_BROKER: self._unregister,
            RequestCode.BROKER_HEARTBEAT: self._heartbeat,
            RequestCode.GET_ROUTEINFO_BY_TOPIC: self._route,
            RequestCode.GET_BROKER_CLUSTER_INFO: self._cluster,
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: self._topics,
        }
        self._server = RemotingServer(
            "name server",
            self._sockets,
            processors,
            Listener(),
            idle_seconds=config.server_channel_max_idle_time_seconds,
            admins=AdminAccess(config.admin_address_allow_list),
        )

    @property
    def address(self) -> Address:
        return self._server.address

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        async with trio.open_nursery() as nursery:
            await nursery.start(self._server.run)
            nursery.start_soon(self._expire)
            task_status.started()

    async def _expire(self) -> None:
        interval = self.config.scan_not_active_broker_interval / 1000
        while True:
            await trio.sleep(interval)
            for gone in self.routes.expire(trio.current_time()):
                log.warning("broker %s was silent for too long", escape(gone))

    def _register(self, connection: Connection, command: Command) -> Response:
        register_body.check_crc(command.body, as_int(command.ext.get("bodyCrc32"), 0))
        topics, version = register_body.parse(command.body)
        registration = Registration(
            cluster=_field(command, "clusterName"),
            broker_name=_field(command, "brokerName"),
            broker_id=_broker_id(command),
            address=_field(command, "brokerAddr"),
            ha_address=command.ext.get("haServerAddr", ""),
            topics=topics,
            version=version,
            timeout_ms=as_int(command.ext.get("heartbeatTimeoutMillis"), DEFAULT_TIMEOUT_MS),
            enable_acting_master=command.ext.get("enableActingMaster") == "true",
        )
        key = (registration.cluster, registration.address)
        if key not in self.routes.live:
            log.info(
                "broker %s registers at %s",
                escape(registration.broker_name),
                escape(registration.address),
            )
        master = self.routes.register(registration, trio.current_time(), connection)
        connection.call_on_close(self._owner_gone)
        ext: dict[str, str] = {}
        if master is not None:
            ext["masterAddr"] = master
            live = self.routes.live.get((registration.cluster, master))
            ext["haServerAddr"] = live.ha_address if live is not None else ""
        return Response(ext=ext, body=fastjson.dumps({"table": {}}))

    def _owner_gone(self, connection: Connection) -> None:
        for gone in self.routes.owner_gone(connection):
            log.warning("connection of broker %s is gone", escape(gone))

    def _unregister(self, connection: Connection, command: Command) -> Response:
        self.routes.unregister(
            _field(command, "clusterName"),
            _field(command, "brokerName"),
            _broker_id(command),
            _field(command, "brokerAddr"),
        )
        return Response()

    def _heartbeat(self, connection: Connection, command: Command) -> Response:
        self.routes.touch(
            _field(command, "clusterName"), _field(command, "brokerAddr"), trio.current_time()
        )
        return Response()

    def _route(self, connection: Connection, command: Command) -> Response:
        topic = _field(command, "topic")
        route = self.routes.route(topic)
        if route is None:
            raise TopicNotExistError(
                f"No topic route info in name server for the topic: {topic[:255]}"
            )
        strict = (
            command.version >= STRICT_JSON_SINCE
            or command.ext.get("acceptStandardJsonOnly") == "true"
        )
        value = route.to_json()
        return Response(body=fastjson.dumps_strict(value) if strict else fastjson.dumps(value))

    def _cluster(self, connection: Connection, command: Command) -> Response:
        return Response(body=fastjson.dumps(self.routes.cluster_info()))

    def _topics(self, connection: Connection, command: Command) -> Response:
        return Response(body=fastjson.dumps({"topicList": sorted(self.routes.topics)}))
