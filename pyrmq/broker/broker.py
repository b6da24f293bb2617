"""The broker as a service: starts its parts in order, and stops them in order."""

from __future__ import annotations

import logging
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from types import MappingProxyType

import trio

from pyrmq.auth.access import Access
from pyrmq.auth.exposure import warn_of_access
from pyrmq.broker.assembly import Parts, Start, assemble
from pyrmq.broker.config.broker_config import BrokerConfig, LiveConfig
from pyrmq.broker.opening import with_addresses
from pyrmq.broker.registration import Registration
from pyrmq.broker.replication import role
from pyrmq.broker.replication.master import ha_listeners
from pyrmq.config.table import values_of
from pyrmq.engine import Store
from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.metrics.service import metrics_listeners
from pyrmq.net.address import Address, format_address
from pyrmq.net.health import Health
from pyrmq.net.server.listen import open_listeners, vip_listeners
from pyrmq.net.tasks import Tasks
from pyrmq.txn import TransactionService
from pyrmq.version import __version__

log = logging.getLogger(__name__)

GRACE = 5.0
"""Seconds that a stop waits for what is in flight."""


class Broker:
    """One broker. `async with Broker.serving(config) as broker:` runs it; leaving drains it."""

    def __init__(self, parts: Parts, restart: trio.Event) -> None:
        self.parts = parts
        self.restart = restart
        """Set when the broker is to be left and served again: its role has changed."""

    @property
    def address(self) -> Address:
        return self.parts.address

    @property
    def live(self) -> LiveConfig:
        """The configuration, some of which changes while the broker runs."""
        return self.parts.live

    @property
    def metrics_address(self) -> Address | None:
        """Where metrics and health are served; None if they are not."""
        return None if self.parts.metrics is None else self.parts.metrics.address

    @property
    def store(self) -> Store:
        return self.parts.store

    @property
    def transactions(self) -> TransactionService:
        return self.parts.transactions

    @property
    def registration(self) -> Registration:
        return self.parts.registration

    @property
    def health(self) -> Health:
        """Whether it lives, and is ready."""
        return self.parts.health

    def rows(self) -> int:
        """How many rows its tables have, connections among them."""
        return self.parts.tables.rows() + len(self.parts.server.connections)

    async def leave_routes(self, say: Callable[[str], None] = lambda text: None) -> None:
        """The part of a stop that comes first: clients move to other brokers. The broker serves
        meanwhile. `say` is told what is waited for. Leave the broker afterwards."""
        await self.parts.draining.before_stop(say)

    @classmethod
    @asynccontextmanager
    async def serving(
        cls,
        config: BrokerConfig,
        pinned: Mapping[str, str] = MappingProxyType({}),
        shared: Access | None = None,
    ) -> AsyncIterator[Broker]:
        """Opens the store, serves and registers. Leaving stops in order: no new connections, what
        is in flight is answered, offsets are written, name servers forget the broker, the store
        closes. `pinned`: keys that UPDATE_BROKER_CONFIG may not change, and what sets them.
        `shared`: the broker's users and access lists, if its name server has opened them."""
        configured = config
        own = await trio.to_thread.run_sync(role.load, config, pinned)
        config = await trio.to_thread.run_sync(with_addresses, own.config)
        own = replace(own, config=config)
        restart = trio.Event()
        sockets = open_listeners(config.bind_address, config.listen_port)
        sockets += vip_listeners(config.bind_address, config.listen_port)
        ha_sockets: list[socket.socket] = []
        metrics_sockets: list[socket.socket] = []
        try:
            metrics_sockets = metrics_listeners(config)
            if not config.is_slave:
                ha_sockets = ha_listeners(
                    config.bind_address, config.listen_port, config.ha_listen_port
                )
            _warn_of_access(config, sockets, ha_sockets)
            start = Start(
                own,
                configured,
                pinned,
                sockets,
                ha_sockets,
                metrics_sockets,
                restart.set,
                shared,
            )
            parts = await trio.to_thread.run_sync(assemble, start)
        except BaseException:
            for sock in sockets + ha_sockets + metrics_sockets:
                sock.close()
            raise
        broker = cls(parts, restart)
        try:
            async with Tasks() as tasks:
                await broker._start(tasks)
                broker._log_start()
                try:
                    yield broker
                finally:
                    log.info(
                        "broker %s stops", escape(broker.name), extra=about(broker=broker.name)
                    )
                    with trio.CancelScope(shield=True, deadline=trio.current_time() + 2 * GRACE):
                        await broker._drain()
        finally:
            with trio.CancelScope(shield=True):
                await broker._close()

    async def _start(self, tasks: Tasks) -> None:
        """Starts the parts in order: a master serves before it looks for another one, and is
        registered last."""
        parts, config = self.parts, self.live.now
        if parts.metrics is not None:
            await tasks.start(parts.metrics.run)
        await tasks.start(parts.server.run)
        tasks.start_soon(parts.saving.run)
        tasks.start_soon(parts.housekeeping.run)
        tasks.start_soon(parts.pop.run)
        tasks.start_soon(parts.routes.run)
        tasks.start_soon(parts.draining.run)
        tasks.start_soon(parts.updates.run)
        if not config.is_slave:
            tasks.start_soon(parts.deleted_unread.run)
            tasks.start_soon(parts.handover.run)
            tasks.start_soon(parts.transactions.run)
            tasks.start_soon(parts.saving.run_metrics)
            tasks.start_soon(parts.delays.run)
        tasks.start_soon(parts.timers.run)
        tasks.start_soon(parts.stats.run)
        tasks.start_soon(parts.hour.run)
        tasks.start_soon(parts.notices.run)
        if config.page_cache_drop_behind:
            tasks.start_soon(parts.page_cache.run)
        if parts.reclaim is not None:
            tasks.start_soon(parts.reclaim.run)
        for service in parts.access_control.services:
            tasks.start_soon(service)
        await parts.replicating.start(tasks)
        if config.is_slave:
            tasks.start_soon(parts.slave_sync.run)
        else:
            await parts.sole.at_start()
            tasks.start_soon(parts.sole.run)
        await tasks.start(parts.registration.run)

    async def _drain(self) -> None:
        """No new connections; what is in flight is answered, and name servers forget the broker."""
        parts = self.parts
        parts.transactions.stop()
        parts.delays.stop()
        parts.pop.revive.stop()
        parts.timers.stop()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(parts.registration.unregister)
            nursery.start_soon(parts.server.drain, GRACE)

    async def _close(self) -> None:
        """Writes the tables, then closes the store, whatever fails."""
        parts = self.parts
        try:
            try:
                parts.tables.filters.stopped()
                if not self.live.now.is_slave:
                    await parts.pop.revive.finish()
                await parts.saving.save()
            finally:
                if not self.live.now.is_slave:
                    await parts.delays.finish()
                await parts.timers.finish()
        finally:
            await trio.to_thread.run_sync(parts.store.close)
            log.info(
                "broker %s has stopped; its store is closed",
                escape(self.name),
                extra=about(broker=self.name),
            )

    @property
    def name(self) -> str:
        return self.live.now.broker_name

    def _log_start(self) -> None:
        config = self.live.now
        log.info(
            "broker %s of cluster %s (%s, brokerId %d, %s) serves at %s; store %s; pyrmq %s",
            escape(config.broker_name),
            escape(config.broker_cluster_name),
            escape(config.broker_role),
            config.broker_id,
            escape(config.flush_disk_type),
            escape(format_address(self.address)),
            escape(config.store_path_root_dir),
            __version__,
            extra=about(broker=config.broker_name),
        )


def _warn_of_access(
    config: BrokerConfig, sockets: list[socket.socket], ha_sockets: list[socket.socket]
) -> None:
    ports = {sock.getsockname()[1]: "VIP port" for sock in sockets}
    ports[sockets[0].getsockname()[1]] = "listenPort"
    ports |= {sock.getsockname()[1]: "HA port" for sock in ha_sockets}
    warn_of_access(f"broker {config.broker_name}", values_of(config), ports)
