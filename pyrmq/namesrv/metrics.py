"""The metrics of a name server: topics, brokers, requests, KV configuration, connections."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from pyrmq.engine import Command
from pyrmq.metrics.families import Family, counter, gauge
from pyrmq.metrics.page import Page
from pyrmq.model.codes import RequestCode
from pyrmq.model.route import MASTER_ID
from pyrmq.namesrv.kv import KvConfig
from pyrmq.namesrv.routes import Routes
from pyrmq.net.server.answers import Answer, Processor
from pyrmq.net.server.connection import Connection
from pyrmq.net.server.turns import in_turns

TOPICS = gauge("pyrmq_namesrv_topics", "Topics that have a route.")
BROKERS = gauge("pyrmq_namesrv_brokers", "Brokers that are registered: masters and slaves.")
BROKER_NAMES = gauge("pyrmq_namesrv_broker_names", "Names of brokers: groups of master and slaves.")
CLUSTERS = gauge("pyrmq_namesrv_clusters", "Clusters.")
MASTERLESS = gauge("pyrmq_namesrv_broker_names_without_master", "Names without a master.")
KV_NAMESPACES = gauge("pyrmq_namesrv_kv_namespaces", "Namespaces of the KV configuration.")
KV_VALUES = gauge("pyrmq_namesrv_kv_values", "Values of the KV configuration.")
CONNECTIONS = gauge("pyrmq_connections", "Open connections of clients and brokers.")
REQUESTS = counter(
    "pyrmq_namesrv_requests_total", "Requests that processors have begun.", "request_code"
)

FAMILIES: tuple[Family, ...] = (
    TOPICS, BROKERS, BROKER_NAMES, MASTERLESS, CLUSTERS, KV_NAMESPACES, KV_VALUES, CONNECTIONS,
    REQUESTS,
)  # fmt: skip


class RequestCounts:
    """Counts requests by their code."""

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}

    def counted(self, processors: Mapping[int, Processor]) -> dict[int, Processor]:
        """The same processors, whose calls are counted."""
        return {code: self._of(code, processor) for code, processor in processors.items()}

    def _of(self, code: int, processor: Processor) -> Processor:
        counts = self._counts

        def count(connection: Connection, command: Command) -> Answer | Awaitable[Answer]:
            counts[code] = counts.get(code, 0) + 1
            return processor(connection, command)

        return count

    def items(self) -> list[tuple[int, int]]:
        return sorted(self._counts.items())


class NamesrvFigures:
    """A source of a page. `connections`: how many are open."""

    def __init__(
        self, routes: Routes, kv: KvConfig, counts: RequestCounts, connections: Callable[[], int]
    ) -> None:
        self._routes = routes
        self._kv = kv
        self._counts = counts
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
        for code, count in self._counts.items():
            page.add(REQUESTS, count, request_code=_name(code))

    async def _without_master(self) -> int:
        """Broker names none of whose addresses is a master's."""
        found = 0

        def look(name: str) -> None:
            nonlocal found
            broker = self._routes.brokers.get(name)
            found += broker is not None and MASTER_ID not in broker.broker_addrs

        await in_turns(list(self._routes.brokers), look, 64)
        return found


def _name(code: int) -> str:
    """As RocketMQ's label has it: in lower case."""
    try:
        return RequestCode(code).name.lower()
    except ValueError:
        return str(code)
