"""The name server as a service: its requests on top of `Routes` and `KvConfig`."""

from __future__ import annotations

import logging
import socket

import trio

from pyrmq.engine import Listener
from pyrmq.escape import escape
from pyrmq.model.codes import RequestCode
from pyrmq.namesrv.brokers import BrokerProcessor
from pyrmq.namesrv.clients import RouteProcessor
from pyrmq.namesrv.config import NamesrvConfig, RunningConfig
from pyrmq.namesrv.config_requests import ConfigProcessor
from pyrmq.namesrv.kv import KvConfig
from pyrmq.namesrv.kv_lock import KvLock
from pyrmq.namesrv.kv_requests import KvProcessor
from pyrmq.namesrv.notify import MinimumNotifier
from pyrmq.namesrv.routes import Routes
from pyrmq.net.address import Address, format_address
from pyrmq.net.server.admin_access import AdminAccess
from pyrmq.net.server.answers import Processor
from pyrmq.net.server.listen import open_listeners
from pyrmq.net.server.server import RemotingServer
from pyrmq.net.server.turns import Turns
from pyrmq.version import __version__

log = logging.getLogger(__name__)


class NameServer:
    """`run` serves; `address` is where (port 0 takes any free one)."""

    def __init__(self, config: NamesrvConfig) -> None:
        self._lock = KvLock(config.kv_config_path)
        self._lock.hold()
        try:
            self._open(config)
        except BaseException:
            self._lock.release()
            raise

    def _open(self, config: NamesrvConfig) -> None:
        self.config = RunningConfig(config)
        self.routes = Routes()
        # Apart, so that nobody who asks for long lists keeps brokers from registering.
        turns, of_brokers = Turns(), Turns()
        kv = KvConfig(config.kv_config_path, turns, self._lock)
        self._notifier = MinimumNotifier(self.config)
        self._brokers = BrokerProcessor(self.config, self.routes, kv, of_brokers, self._notifier)
        self._clients = RouteProcessor(self.config, self.routes, kv, turns)
        self.processors = self._processors(kv)
        """By request code."""
        sockets: list[socket.socket] = open_listeners(config.bind_address, config.listen_port)
        self._server = RemotingServer(
            "name server",
            sockets,
            self.processors,
            Listener(),
            idle_seconds=config.server_channel_max_idle_time_seconds,
            admins=AdminAccess(config.admin_address_allow_list),
        )

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

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        where = format_address(self.address)
        try:
            async with trio.open_nursery() as nursery:
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
