"""The parts of routes, encoded: brokers and queue counts, which many topics have in common.

A route of a hundred brokers is then put together instead of encoded. What is kept grows with the
brokers, not with the topics.
"""

from __future__ import annotations

from pyrmq.model.route import BrokerData, QueueData, TopicRoute
from pyrmq.namesrv.routes import Routes
from pyrmq.net import fastjson
from pyrmq.net.server.turns import Steps

MAX_QUEUES = 1 << 14
"""Different queue counts that are kept; beyond that all are forgotten."""
MANY = 64
"""Brokers that are put together in one step."""
FEW = 8
"""Brokers that are encoded in one step."""


class RouteTexts:
    """`encoded` writes TopicRouteData: as strict JSON, or as fastjson does."""

    def __init__(self, routes: Routes) -> None:
        self._routes = routes
        self._changes = -1
        self._brokers: dict[tuple[str, bool], bytes] = {}
        """By broker name, and whether it is strict; as of `_changes`."""
        self._queues: dict[tuple[str, int, int, int, int, bool], bytes] = {}

    def encoded(self, route: TopicRoute, *, strict: bool) -> Steps[bytes]:
        dumps = fastjson.dumps_strict if strict else fastjson.dumps
        brokers: list[bytes] = []
        queues: list[bytes] = []
        fresh = 0
        for n, (broker, row) in enumerate(zip(route.brokers, route.queues, strict=True), 1):
            text = self._known(broker, strict)
            if text is None:
                text = self._keep(broker, dumps(broker.to_json()), strict)
                fresh += 1
            brokers.append(text)
            queues.append(self._queue(row, strict))
            if n % MANY == 0 or fresh == FEW:
                fresh = 0
                yield
        order = (
            b"" if route.order_conf is None else b'"orderTopicConf":%b,' % dumps(route.order_conf)
        )
        return b'{"brokerDatas":[%b],"filterServerTable":{},%b"queueDatas":[%b]}' % (
            b",".join(brokers),
            order,
            b",".join(queues),
        )

    def _known(self, broker: BrokerData, strict: bool) -> bytes | None:
        """None: it is to be encoded, as no broker's text is known since the last change."""
        if self._changes != self._routes.changes:
            self._changes = self._routes.changes
            self._brokers = {}
        if self._routes.brokers.get(broker.broker_name) is not broker:
            return None  # an acting master is shown for it, or it has gone
        return self._brokers.get((broker.broker_name, strict))

    def _keep(self, broker: BrokerData, text: bytes, strict: bool) -> bytes:
        if self._routes.brokers.get(broker.broker_name) is broker:
            self._brokers[broker.broker_name, strict] = text
        return text

    def _queue(self, q: QueueData, strict: bool) -> bytes:
        key = q.broker_name, q.read_queue_nums, q.write_queue_nums, q.perm, q.topic_sys_flag, strict
        text = self._queues.get(key)
        if text is None:
            if len(self._queues) >= MAX_QUEUES:
                self._queues = {}
            text = (fastjson.dumps_strict if strict else fastjson.dumps)(q.to_json())
            self._queues[key] = text
        return text
