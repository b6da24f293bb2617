"""Serves /metrics, and what else a server has over HTTP, as its configuration says."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence

import trio

from pyrmq.http.messages import Handler
from pyrmq.http.server import HttpServer, http_listeners
from pyrmq.metrics.exposition import Exposition, Source
from pyrmq.metrics.process import ProcessFigures
from pyrmq.metrics.settings import PORT_KEY, MetricsKeys
from pyrmq.net.address import Address

PATH = "/metrics"


def metrics_listeners(config: MetricsKeys) -> list[socket.socket]:
    """The sockets of the metrics; none if they are not served. ConfigError names the key."""
    if not config.serves_metrics:
        return []
    host, port = config.metrics_prom_exporter_host, config.metrics_prom_exporter_port
    return http_listeners(host, port, PORT_KEY)


class MetricsService:
    """`name`: of the server, for the log; `sockets`: from `metrics_listeners`; `node`: the labels
    that say which server it is; `routes`: what else is served, by path."""

    def __init__(
        self,
        name: str,
        sockets: list[socket.socket],
        config: MetricsKeys,
        node: Mapping[str, object],
        sources: Sequence[Source],
        routes: Mapping[str, Handler],
    ) -> None:
        self._process = ProcessFigures()
        self.exposition = Exposition(config.common_labels(node), [*sources, self._process])
        self._server = HttpServer(f"{name} (HTTP)", sockets, {PATH: self.exposition, **routes})

    @property
    def address(self) -> Address:
        return self._server.address

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serves until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._process.run)
            await nursery.start(self._server.run)
            task_status.started()
