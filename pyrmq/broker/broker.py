"""The broker as a service: tables, processors and tasks around one store."""

from __future__ import annotations

import logging
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from types import MappingProxyType

import trio

from pyrmq.broker import identity
from pyrmq.broker.config.broker_config import BrokerConfig, LiveConfig
from pyrmq.broker.config.updates import ConfigUpdates
from pyrmq.broker.delay import DelayOffsets, DelayService
from pyrmq.broker.housekeeping import Housekeeping, PageCache
from pyrmq.broker.identity import with_addresses
from pyrmq.broker.opening import open_store
from pyrmq.broker.registration import Registration
from pyrmq.broker.replication import role
from pyrmq.broker.replication.master import ha_listeners
from pyrmq.broker.replication.peers import Peers
from pyrmq.broker.replication.replicating import Replicating
from pyrmq.broker.replication.role import Promotion
from pyrmq.broker.replication.slave_sync import SlaveSync
from pyrmq.broker.replication.sole_master import SoleMaster
from pyrmq.broker.requests.group_admin import RequestModes
from pyrmq.broker.requests.processors import processors
from pyrmq.broker.requests.pull import pull_of_no_topic
from pyrmq.broker.requests.transactions import (
    ProducerChoice,
    TransactionMetrics,
    make_overflow_topic,
    open_transactions,
    rules,
)
from pyrmq.broker.stats.broker_stats import BrokerStats
from pyrmq.broker.tables.clients import ClientTable, Notices
from pyrmq.broker.tables.consumer_filters import ConsumerFilters
from pyrmq.broker.tables.deleted_unread import DeletedUnread
from pyrmq.broker.tables.groups import GroupTable
from pyrmq.broker.tables.leading_offsets import bring_back_to_store
from pyrmq.broker.tables.offsets import OffsetTable
from pyrmq.broker.tables.persistent import PersistentTable
from pyrmq.broker.tables.topic_delete import TopicDeletion
from pyrmq.broker.tables.topics import TopicTable
from pyrmq.engine import Listener, PullGrants
from pyrmq.escape import escape
from pyrmq.model.names import HALF_TOPIC, OP_TOPIC, TRANSACTION_GROUP
from pyrmq.model.subscription import Subscription
from pyrmq.net.address import Address, format_address, is_loopback, message_id
from pyrmq.net.server.admin_access import AdminAccess
from pyrmq.net.server.listen import open_listeners, vip_listeners
from pyrmq.net.server.questions import Questions
from pyrmq.net.server.server import RemotingServer
from pyrmq.net.tasks import Tasks
from pyrmq.txn import TransactionService
from pyrmq.version import __version__

log = logging.getLogger(__name__)

GRACE = 5.0
"""Seconds that a stop waits for what is in flight."""


class Broker:
    """One broker. `async with Broker.serving(config) as broker:` runs it; leaving drains it."""

    def __init__(
        self,
        own: role.Role,
        configured: BrokerConfig,
        sockets: list[socket.socket],
        ha_sockets: list[socket.socket],
        pinned: Mapping[str, str],
    ) -> None:
        config = own.config
        self.restart = trio.Event()
        """Set when the broker is to be left and served again: its role has changed."""
        port = sockets[0].getsockname()[1]
        self.address: Address = (config.broker_ip1, port)
        self.store = open_store(config, self.address)
        try:
            self.updates = ConfigUpdates(config, pinned)
            self._open(self.updates.live, sockets, ha_sockets, own.since)
            self.promotion = Promotion(
                configured,
                config,
                pinned,
                self.replicating,
                self.sole,
                self.restart.set,
                lambda: int(self.store.stats()["maxPhyOffset"]),
            )
            self.updates.change_role = self.promotion.change
        except BaseException:
            self.store.close()
            raise

    def _open(
        self,
        live: LiveConfig,
        sockets: list[socket.socket],
        ha_sockets: list[socket.socket],
        since: int,
    ) -> None:
        self.live = live
        config = live.now
        folder = config.store_path_root_dir / "config"
        self.topics = TopicTable(folder / "topics.json", config, self.store)
        identity.write_name(folder, config.broker_name, self.topics.topics.values())
        host, port = self.address
        port = ha_sockets[0].getsockname()[1] if ha_sockets else port + 1
        ha_address = config.broker_ip2 or host, port
        self.registration = Registration(live, self.topics, self.address, ha_address)
        peers = Peers(live, self.address)
        self.replicating = Replicating(
            config, self.store, ha_sockets, self.registration.master, since, peers
        )
        self.registration.follows = self.replicating.has_master
        self.sole = SoleMaster(
            live,
            peers,
            self.store,
            since,
            leave=self._replaced,
            stay=self.registration.register_again,
        )
        self.groups = GroupTable(folder / "subscriptionGroup.json", live)
        self.grants = PullGrants()
        self.topics.on_changed = self.groups.on_changed = self.grants.revoke
        self.offsets = OffsetTable(
            folder / "consumerOffset.json",
            config.consumer_offset_update_version_step,
            self.grants,
        )
        self.deleted_unread = DeletedUnread(self.store, self.topics, self.offsets)
        self.request_modes = RequestModes(folder / "messageRequestMode.json")
        self.stats = BrokerStats(
            config.broker_cluster_name,
            self.store,
            self.topics,
            self.groups,
            self.offsets.take_granted,
        )
        self.offsets.on_granted = self.stats.pulled
        self.filters = ConsumerFilters(folder / "consumerFilter.json", config, self.store)
        self.notices = Notices()
        self.clients = ClientTable(self.notices.changed, self._subscribed)
        self.notices.consumers = self.clients.consumers
        if not config.is_slave:  # a slave's are those of its master, which may be ahead
            bring_back_to_store(self.offsets, self.topics, self.store)
        engine = open_transactions(config, self.store, self.offsets)
        self.transactions = TransactionService(
            self.store,
            engine,
            rules(config),
            producers=ProducerChoice(self.clients),
            broker_name=config.broker_name,
            message_id=partial(message_id, self.address),
            keep_progress=self._keep_progress,
            overflow=partial(make_overflow_topic, self.topics),
            taking=self.topics.taking,
        )
        self.delays = DelayService(
            self.store,
            DelayOffsets(folder / "delayOffset.json", len(config.delay_levels)),
            lambda: self.server.wake_parked(),
            self.topics.adopt_delivered,
        )
        self.transaction_metrics = TransactionMetrics(folder / "transactionMetrics", engine)
        self.questions = Questions()
        self.deletion = TopicDeletion(
            live,
            self.store,
            self.topics,
            self.groups,
            self.offsets,
            lambda topics: self.server.end_parked(topics, pull_of_no_topic),
        )
        self.slave_sync = SlaveSync(
            folder,
            self.topics,
            self.groups,
            self.offsets,
            self.deletion,
            self.replicating.followed,
            self.replicating.has_master,
        )
        self.replicating.on_changed = self.slave_sync.wake
        self.housekeeping = Housekeeping(
            live,
            self.store,
            self.topics,
            self.groups,
            self.offsets,
            self.clients,
            self.deletion,
            lambda connection: self.server.close(connection),
        )
        self.processors = processors(self)
        """By request code."""
        self.server: RemotingServer = RemotingServer(
            f"broker {config.broker_name}",
            sockets,
            self.processors,
            Listener(
                self.store.native,
                transactions=None if config.reject_transaction_message else engine,
                pulls=self.grants,
                region=config.region_id,
                cluster=config.broker_cluster_name,
                trace_on=config.trace_on,
            ),
            store=self.store,
            questions=self.questions,
            idle_seconds=config.server_channel_max_idle_time_seconds,
            flush_timeout_ms=config.sync_flush_timeout,
            admins=AdminAccess(config.admin_address_allow_list),
        )
        live.watch(self._configured)

    def _subscribed(self, group: str, wanted: dict[str, Subscription]) -> None:
        self.grants.revoke()
        self.filters.subscribed(group, wanted)

    def _configured(self, before: BrokerConfig, now: BrokerConfig) -> None:
        """Makes anew what was made of keys that may change."""
        self.grants.revoke()
        self.transactions.rules = rules(now)
        self.server.idle_seconds = now.server_channel_max_idle_time_seconds
        self.topics.configure(now)
        if now.auto_create_topic_enable != before.auto_create_topic_enable:
            self.topics.set_auto_create(now.auto_create_topic_enable)

    def _replaced(self) -> None:
        """Another broker is the master by now. Slaves that still follow this one look for it."""
        self.registration.leave()
        if self.replicating.server is not None:
            self.replicating.server.master.stop()

    @classmethod
    @asynccontextmanager
    async def serving(
        cls, config: BrokerConfig, pinned: Mapping[str, str] = MappingProxyType({})
    ) -> AsyncIterator[Broker]:
        """Opens the store, serves and registers. Leaving stops in order: no new connections, what
        is in flight is answered, offsets are written, name servers forget the broker, the store
        closes. `pinned`: keys that UPDATE_BROKER_CONFIG may not change, and what sets them."""
        configured = config
        own = await trio.to_thread.run_sync(role.load, config, pinned)
        config = await trio.to_thread.run_sync(with_addresses, own.config)
        own = replace(own, config=config)
        sockets = open_listeners(config.bind_address, config.listen_port)
        sockets += vip_listeners(config.bind_address, config.listen_port)
        if not is_loopback(config.bind_address):
            _warn_of_access(config)
        ha_sockets: list[socket.socket] = []
        try:
            if not config.is_slave:
                ha_sockets = ha_listeners(
                    config.bind_address, config.listen_port, config.ha_listen_port
                )
            broker = await trio.to_thread.run_sync(
                cls, own, configured, sockets, ha_sockets, pinned
            )
        except BaseException:
            for sock in sockets + ha_sockets:
                sock.close()
            raise
        try:
            async with Tasks() as tasks:
                await tasks.start(broker.server.run)
                tasks.start_soon(broker._persist)
                tasks.start_soon(broker.housekeeping.run)
                if not config.is_slave:
                    tasks.start_soon(broker.deleted_unread.run)
                    tasks.start_soon(broker.transactions.run)
                    tasks.start_soon(broker._count_transactions)
                    tasks.start_soon(broker.delays.run)
                tasks.start_soon(broker.stats.run)
                tasks.start_soon(broker.notices.run)
                if config.page_cache_drop_behind:
                    cache = PageCache(broker.store, broker.offsets, broker.clients)
                    tasks.start_soon(cache.run)
                await broker.replicating.start(tasks)
                if config.is_slave:
                    tasks.start_soon(broker.slave_sync.run)
                else:
                    await broker.sole.at_start()
                    tasks.start_soon(broker.sole.run)
                await tasks.start(broker.registration.run)
                broker._log_start()
                try:
                    yield broker
                finally:
                    log.info("broker %s stops", escape(broker.name))
                    with trio.CancelScope(shield=True, deadline=trio.current_time() + 2 * GRACE):
                        await broker._drain()
        finally:
            with trio.CancelScope(shield=True):
                try:
                    try:
                        broker.filters.stopped()
                        await broker.save()
                    finally:
                        if not config.is_slave:
                            await broker.delays.finish()
                finally:
                    await trio.to_thread.run_sync(broker.store.close)
                    log.info("broker %s has stopped; its store is closed", escape(broker.name))

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
        )

    async def _drain(self) -> None:
        self.transactions.stop()
        self.delays.stop()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.registration.unregister)
            nursery.start_soon(self.server.drain, GRACE)

    def _tables(self) -> list[PersistentTable]:
        tables = [self.topics, self.groups, self.offsets, self.filters]
        return tables if self.live.now.is_slave else [*tables, self.transaction_metrics]

    def _keep_progress(self, half: int, op: int) -> None:
        self.offsets.keep(HALF_TOPIC, TRANSACTION_GROUP, 0, half)
        self.offsets.keep(OP_TOPIC, TRANSACTION_GROUP, 0, op)

    async def _count_transactions(self) -> None:
        while True:
            await self.live.pause(lambda config: config.transaction_metric_flush_interval)
            try:
                await self.transaction_metrics.save_if_changed()
            except OSError as e:
                log.error("transactionMetrics not written, next try follows: %s", escape(e))

    async def save(self) -> None:
        """Writes every table that changed, also when one of them cannot be written."""
        await self._save(self._tables())

    async def _save(self, tables: list[PersistentTable]) -> None:
        errors = []
        for table in tables:
            try:
                await table.save_if_changed()
            except OSError as e:
                errors.append(e)
        if errors:
            raise errors[0]

    async def _persist(self) -> None:
        """Topics and groups are written soon after a change, offsets every
        flushConsumerOffsetInterval."""
        written = trio.current_time()
        while True:
            await trio.sleep(0.1)
            try:
                tables: list[PersistentTable] = [self.topics, self.groups]
                interval = self.live.now.flush_consumer_offset_interval / 1000
                if trio.current_time() >= written + interval:
                    written = trio.current_time()
                    self.filters.look_again()
                    tables += [self.offsets, self.filters]
                await self._save(tables)
            except OSError as e:
                log.error("configuration not written, next try follows: %s", escape(e))
                await trio.sleep(1)


def _warn_of_access(config: BrokerConfig) -> None:
    open_to = "read and write messages"
    if not config.admin_address_allow_list:
        open_to = "read and change everything (adminAddressAllowList says who may administrate)"
    log.warning(
        "listening on %s without access control: whoever reaches this port may %s",
        escape(config.bind_address),
        escape(open_to),
    )
