"""Requests of clients and operators about routes and topics. [ClientRequestProcessor,
DefaultRequestProcessor]"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Iterable

import trio

from pyrmq.engine import Command
from pyrmq.errors import ResponseError, TopicNotExistError
from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.model.codes import ResponseCode
from pyrmq.model.topic import PERM_READ, PERM_WRITE
from pyrmq.namesrv import fields, views
from pyrmq.namesrv.brokers import ZONE_NAME
from pyrmq.namesrv.config import RunningConfig
from pyrmq.namesrv.kv import ORDER_TOPIC_CONFIG, KvConfig
from pyrmq.namesrv.route_texts import RouteTexts
from pyrmq.namesrv.routes import Routes
from pyrmq.net.command import Response
from pyrmq.net.server.answers import InTurns
from pyrmq.net.server.connection import Connection
from pyrmq.net.server.turns import Steps, Turns, finish

log = logging.getLogger(__name__)

STRICT_JSON_SINCE = 401
"""Clients since V4_9_4 get routes as strict JSON."""
ZONE_MODE = "__ZONE_MODE"
AT_ONCE = 128
"""Brokers of a route that is encoded at once; larger ones take turns with others."""


class RouteProcessor:
    def __init__(self, config: RunningConfig, routes: Routes, kv: KvConfig, turns: Turns) -> None:
        self._config = config
        self._routes = routes
        self._kv = kv
        self._turns = turns
        self._texts = RouteTexts(routes)
        self._started = -math.inf
        self._cluster: tuple[int, bytes] = (-1, b"")
        """The encoded clusters, and the number of changes before them."""
        self._cluster_at = -math.inf
        """When encoding it began."""
        self._encoding = trio.Lock()

    def start(self) -> None:
        """Brokers may register from now on."""
        self._started = trio.current_time()

    def waits(self) -> float:
        """Seconds for which routes are refused; 0: they are given."""
        config = self._config.now
        if not config.need_wait_for_service:
            return 0.0
        return max(config.wait_seconds_for_service - (trio.current_time() - self._started), 0.0)

    def route(self, connection: Connection, command: Command) -> Response | InTurns:
        """GET_ROUTEINFO_BY_TOPIC."""
        topic = fields.text(command, "topic")
        config = self._config.now
        if self.waits() > 0:
            raise ResponseError("name server not ready", ResponseCode.SYSTEM_ERROR)
        route = views.route_of(self._routes, topic, acting_masters=config.support_acting_master)
        if route is None:
            raise TopicNotExistError(
                f"No topic route info in name server for the topic: {topic[:255]}"
            )
        if config.order_message_enable:
            route.order_conf = self._kv.get(ORDER_TOPIC_CONFIG, topic)
        zone = command.ext.get(ZONE_NAME, "").strip()
        if zone and command.ext.get(ZONE_MODE, "").lower() == "true":
            route = views.of_zone(route, zone)
        strict = (
            command.version >= STRICT_JSON_SINCE
            or command.ext.get("acceptStandardJsonOnly") == "true"
        )
        steps = self._texts.encoded(route, strict=strict)
        if len(route.brokers) <= AT_ONCE:
            return Response(body=finish(steps))
        return self._answer(connection, steps)

    def _answer(self, connection: Connection, steps: Steps[bytes]) -> InTurns:
        """A body that is encoded in turns."""

        async def answer() -> Response:
            return Response(body=await self._turns.run(steps, connection))

        return InTurns(answer())

    def cluster(self, connection: Connection, command: Command) -> Response | InTurns:
        """GET_BROKER_CLUSTER_INFO. It is encoded once for all who ask while no broker comes or
        goes."""
        changes, body = self._cluster
        if changes == self._routes.changes:
            return Response(body=body)
        return InTurns(self._cluster_anew(trio.current_time()))

    async def _cluster_anew(self, asked: float) -> Response:
        async with self._encoding:
            # What was encoded since it was asked for is good for all who wait.
            if self._cluster[0] != self._routes.changes and self._cluster_at < asked:
                began, changes = trio.current_time(), self._routes.changes
                self._cluster = changes, await self._turns.run(views.cluster_info(self._routes))
                self._cluster_at = began
            return Response(body=self._cluster[1])

    def _list(
        self, connection: Connection, topics: Iterable[str], broker_address: str | None = None
    ) -> InTurns:
        return self._answer(connection, views.topic_list(topics, broker_address))

    def all_topics(self, connection: Connection, command: Command) -> InTurns:
        """GET_ALL_TOPIC_LIST_FROM_NAMESERVER."""
        _check_enabled(self._config.now.enable_all_topic_list)
        return self._list(connection, self._routes.topics)

    def topics_by_cluster(self, connection: Connection, command: Command) -> InTurns:
        """GET_TOPICS_BY_CLUSTER."""
        cluster = fields.text(command, "cluster")
        _check_enabled(self._config.now.enable_topic_list)
        return self._list_of(connection, views.topics_of_cluster(self._routes, cluster))

    def _list_of(self, connection: Connection, found: Steps[Collection[str]]) -> InTurns:
        return self._answer(connection, views.list_of(found))

    def system_topics(self, connection: Connection, command: Command) -> InTurns:
        """GET_SYSTEM_TOPIC_LIST_FROM_NS."""
        return self._list(connection, *views.system_topics(self._routes))

    def unit_topics(self, connection: Connection, command: Command) -> InTurns:
        """GET_UNIT_TOPIC_LIST."""
        return self._with_flag(connection, lambda flag: flag & views.UNIT)

    def unit_sub_topics(self, connection: Connection, command: Command) -> InTurns:
        """GET_HAS_UNIT_SUB_TOPIC_LIST."""
        return self._with_flag(connection, lambda flag: flag & views.UNIT_SUB)

    def unit_sub_ununit_topics(self, connection: Connection, command: Command) -> InTurns:
        """GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST."""
        return self._with_flag(
            connection, lambda flag: flag & views.UNIT_SUB and not flag & views.UNIT
        )

    def _with_flag(self, connection: Connection, fits: Callable[[int], object]) -> InTurns:
        _check_enabled(self._config.now.enable_topic_list)
        return self._list_of(connection, views.topics_with(self._routes, fits))

    def delete_topic(self, connection: Connection, command: Command) -> Response:
        """DELETE_TOPIC_IN_NAMESRV: of all brokers, or of those of a cluster."""
        topic = fields.text(command, "topic")
        cluster = command.ext.get("clusterName")
        names = self._routes.clusters.get(cluster, set()) if cluster else None
        for name in list(self._routes.topics.get(topic, ())):
            if names is None or name in names:
                self._routes.delete_queues(topic, name)
                log.info(
                    "%s deletes topic %s of broker %s",
                    escape(connection.peer),
                    escape(topic),
                    escape(name),
                    extra=about(connection=connection.peer, broker=name, topic=topic),
                )
        return Response()

    def wipe_write_perm(self, connection: Connection, command: Command) -> InTurns:
        """WIPE_WRITE_PERM_OF_BROKER."""
        name = fields.broker_name(command)
        return InTurns(self._change_perm(connection, name, ~PERM_WRITE, 0, "wipeTopicCount"))

    def add_write_perm(self, connection: Connection, command: Command) -> InTurns:
        """ADD_WRITE_PERM_OF_BROKER: reading and writing, whatever it was."""
        name, add = fields.broker_name(command), PERM_READ | PERM_WRITE
        return InTurns(self._change_perm(connection, name, 0, add, "addTopicCount"))

    async def _change_perm(
        self, connection: Connection, name: str, keep: int, add: int, counted: str
    ) -> Response:
        many = await self._turns.run(self._routes.change_perm(name, keep, add), connection)
        log.info(
            "%s changes permissions of %d topics of broker %s",
            escape(connection.peer),
            many,
            escape(name),
            extra=about(connection=connection.peer, broker=name),
        )
        return Response(ext={counted: many})


def _check_enabled(enabled: bool) -> None:
    if not enabled:
        raise ResponseError("disable", ResponseCode.SYSTEM_ERROR)
