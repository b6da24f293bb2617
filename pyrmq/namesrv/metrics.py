"""The metrics of a name server: topics, brokers, KV configuration, connections."""

from __future__ import annotations

from collections.abc import Callable

from pyrmq.metrics.families import Family, gauge
from pyrmq.metrics.page import Page
from pyrmq.model.route import MASTER_ID
from pyrmq.namesrv.kv import KvConfig
from pyrmq.namesrv.routes import Routes
from pyrmq.net.server.turns import in_turns

TOPICS = gauge("pyrmq_namesrv_topics", "Topics that have a route.")
BROKERS = gauge("pyrmq_namesrv_brokers", "Brokers that are registered: masters and slaves.")
BROKER_NAMES = gauge("pyrmq_namesrv_broker_names", "Names of brokers: groups of master and slaves.")
CLUSTERS = gauge("pyrmq_namesrv_clusters", "Clusters.")
MASTERLESS = gauge("pyrmq_namesrv_broker_names_without_master", "Names without a master.")
KV_NAMESPACES = gauge("pyrmq_namesrv_kv_namespaces", "Namespaces of the KV configuration.")
KV_VALUES = gauge("pyrmq_namesrv_kv_values", "Values of the KV configuration.")
CONNECTIONS = gauge("pyrmq_connections", "Open connections of clients and brokers.")

FAMILIES: tuple[Family, ...] = (
    TOPICS, BROKERS, BROKER_NAMES, MASTERLESS, CLUSTERS, KV_NAMESPACES, KV_VALUES, CONNECTIONS,
)  # fmt: skip


class NamesrvFigures:
    """A source of a page. `connections`: how many are open."""

    def __init__(self, routes: Routes, kv: KvConfig, connections: Callable[[], int]) -> None:
        self._routes = routes
        self._kv = kv
        self._connections = connections

    async def __call__(self, page: Page) -> None:
        routes = self._routes
        page.add(TOPICS, len(routes.topics))
        page.add(BROKERS, len(routes.live))
        page.add(BROKER_NAMES, len(routes.brokers))
        page.add(MASTERLESS, await self._without_master())
        page.add(CLUSTERS, len(routes.clusters))
        namespaces, values = self._kv.sizes()
        page.add(KV_NAMESPACES, namespaces)
        page.add(KV_VALUES, values)
        page.add(CONNECTIONS, self._connections())

    async def _without_master(self) -> int:
        """Broker names none of whose addresses is a master's."""
        found = 0

        def look(name: str) -> None:
            nonlocal found
            broker = self._routes.brokers.get(name)
            found += broker is not None and MASTER_ID not in broker.broker_addrs

        await in_turns(list(self._routes.brokers), look, 64)
        return found
