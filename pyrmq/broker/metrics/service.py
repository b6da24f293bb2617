"""The metrics of a broker, put together: all sources of its page, in their order."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping

from pyrmq.broker.config.broker_config import LiveConfig
from pyrmq.broker.delay import DelayService
from pyrmq.broker.metrics.engine_rows import EngineRows
from pyrmq.broker.metrics.later import PopRows, TimerRows
from pyrmq.broker.metrics.state import (
    BrokerState,
    ClientRows,
    HaState,
    StoreState,
    TransactionRows,
)
from pyrmq.broker.metrics.traffic import DeadLetterRows, PairRows, TopicRows
from pyrmq.broker.pop.parts import PopParts
from pyrmq.broker.replication.replicating import HaStatus, Replicating
from pyrmq.broker.stats.broker_stats import BrokerStats
from pyrmq.broker.tables.tables import Tables
from pyrmq.broker.timer import TimerService
from pyrmq.engine import Store
from pyrmq.http.health import health_routes
from pyrmq.metrics.exposition import Source
from pyrmq.metrics.rpc import RpcRows
from pyrmq.metrics.service import MetricsService
from pyrmq.net.health import Health
from pyrmq.net.server.server import RemotingServer
from pyrmq.txn import TransactionService


def open_metrics(
    sockets: list[socket.socket],
    live: LiveConfig,
    health: Health,
    store: Store,
    tables: Tables,
    stats: BrokerStats,
    server: RemotingServer,
    transactions: TransactionService,
    delays: DelayService,
    timers: TimerService,
    pop: PopParts,
    replicating: Replicating,
    waiting: Mapping[str, Callable[[], int]],
) -> MetricsService | None:
    """Serves metrics and health on `sockets`; None without any. `waiting`: by processor how many
    requests wait now."""
    if not sockets:
        return None
    config = live.now
    most = config.metrics_max_series
    ha = replicating.server
    status = HaStatus(store, ha.master if ha else None, replicating.replication, replicating.since)
    sources: list[Source] = [
        BrokerState(live, store, tables, server, waiting, stats.create_times),
        TopicRows(store, tables, most),
        PairRows(store, tables, stats, most),
        DeadLetterRows(tables, stats, most),
        ClientRows(tables.clients, most),
        RpcRows(server.figures),
        TransactionRows(store, transactions, most),
        StoreState(live, store, server.stalled_ms),
        EngineRows(store),
        TimerRows(delays, timers, most),
        PopRows(pop, most),
        HaState(live, replicating, status.values),
    ]
    node = {  # [BrokerMetricsManager]
        "cluster": config.broker_cluster_name,
        "node_type": "broker",
        "node_id": config.broker_name,
    }
    name = f"broker {config.broker_name}"
    return MetricsService(name, sockets, config, node, sources, health_routes(health))
