"""The broker as a service: tables, processors and tasks around one store."""

from __future__ import annotations

import logging
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from types import MappingProxyType

import trio

from pyrmq.broker import role, store_name
from pyrmq.broker.client_manage import ClientManageProcessor, notify_ids_changed
from pyrmq.broker.clients import ClientTable
from pyrmq.broker.config import BrokerConfig
from pyrmq.broker.config_admin import ConfigProcessor
from pyrmq.broker.config_updates import ConfigUpdates
from pyrmq.broker.consume_stats import ConsumeStatsProcessor
from pyrmq.broker.consumer_filters import ConsumerFilters
from pyrmq.broker.delay import DelayOffsets, DelayService
from pyrmq.broker.group_admin import GroupProcessor
from pyrmq.broker.groups import GroupTable
from pyrmq.broker.ha_master import ha_listeners
from pyrmq.broker.housekeeping import Housekeeping
from pyrmq.broker.live_config import LiveConfig
from pyrmq.broker.locks import QueueLocks
from pyrmq.broker.offsets import OffsetTable
from pyrmq.broker.opening import open_store
from pyrmq.broker.operator_requests import operator_processors
from pyrmq.broker.page_cache import PageCache
from pyrmq.broker.promotion import Promotion
from pyrmq.broker.pull import PullProcessor, pull_of_no_topic
from pyrmq.broker.query import QueryProcessor
from pyrmq.broker.queues import QueueProcessor
from pyrmq.broker.registration import Registration
from pyrmq.broker.replicating import Replicating
from pyrmq.broker.reply import ReplyProcessor
from pyrmq.broker.request_modes import RequestModes
from pyrmq.broker.reset_offsets import ResetOffsetProcessor
from pyrmq.broker.runtime import RuntimeInfo
from pyrmq.broker.send import SendProcessor
from pyrmq.broker.send_back import SendBackProcessor
from pyrmq.broker.slave_refusals import slave_refusals
from pyrmq.broker.slave_sync import SlaveSync
from pyrmq.broker.sole_master import SoleMaster
from pyrmq.broker.stats import BrokerStats
from pyrmq.broker.stats_view import StatsProcessor
from pyrmq.broker.suggest import Suggestion
from pyrmq.broker.tables import PersistentTable
from pyrmq.broker.topic_delete import TopicDeletion
from pyrmq.broker.topics import TopicTable
from pyrmq.broker.transactions import (
    ProducerChoice,
    TransactionMetrics,
    TransactionProcessor,
    make_overflow_topic,
    open_transactions,
    rules,
)
from pyrmq.engine import Listener, PullGrants
from pyrmq.escape import escape
from pyrmq.model.codes import RequestCode
from pyrmq.model.names import HALF_TOPIC, OP_TOPIC, TRANSACTION_GROUP
from pyrmq.model.subscription import Subscription
from pyrmq.net.address import Address, is_loopback, message_id, own_ip
from pyrmq.net.admin_access import AdminAccess
from pyrmq.net.answers import Processor
from pyrmq.net.listen import open_listeners, vip_listeners
from pyrmq.net.questions import Questions
from pyrmq.net.server import RemotingServer
from pyrmq.net.tasks import Tasks
from pyrmq.txn import TransactionService

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
        self.address: Address = (config.broker_ip1 or own_ip(), port)
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
        store_name.write(folder, config.broker_name, self.topics.topics.values())
        host, port = self.address
        port = ha_sockets[0].getsockname()[1] if ha_sockets else port + 1
        ha_address = config.broker_ip2 or host, port
        self.registration = Registration(live, self.topics, self.address, ha_address)
        self.replicating = Replicating(
            config, self.store, ha_sockets, self.registration.master, since
        )
        self.registration.follows = self.replicating.has_master
        self.sole = SoleMaster(
            live,
            self.address,
            self.store,
            since,
            leave=self.registration.leave,
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
        self.clients = ClientTable(notify_ids_changed, self._subscribed)
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
            self.registration.master,
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
        self.processors = self._processors()
        """By request code."""
        self.server = RemotingServer(
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

    def _processors(self) -> dict[int, Processor]:
        locks = QueueLocks()
        live = self.live
        pull = PullProcessor(
            live,
            self.store,
            self.topics,
            self.groups,
            self.clients,
            self.offsets,
            self.stats,
            self.grants,
            self.filters,
            Suggestion(live, self.store, self.groups, self.replicating.has_master),
        )
        send = SendProcessor(live, self.topics, self.groups, locks)
        back = SendBackProcessor(live, self.topics, self.groups, self.delays.engine, self.stats)
        manage = ClientManageProcessor(live, self.topics, self.groups, self.clients)
        query = QueryProcessor(live, self.store)
        config = ConfigProcessor(self.updates, self.address, self.registration.told)
        transaction = TransactionProcessor(self.transactions)
        reply = ReplyProcessor(
            live, self.store, self.topics, self.clients, self.questions, self.address
        )
        stats = ConsumeStatsProcessor(
            live.now.broker_name,
            self.address,
            self.store,
            self.topics,
            self.groups,
            self.clients,
            self.offsets,
            self.stats,
        )
        runtime = RuntimeInfo(
            live.now,
            self.store,
            self.transactions,
            self.delays.engine,
            self.stats,
            lambda: {
                "pageCacheLockTimeMills": self.server.stalled_ms(),
                "sendThreadPoolQueueSize": len(self.server.line),
                "sendThreadPoolQueueHeadWaitTimeMills": self.server.line.head_wait_ms(),
                "pullThreadPoolQueueSize": len(pull.line),
                "pullThreadPoolQueueHeadWaitTimeMills": pull.line.head_wait_ms(),
                "queryThreadPoolQueueSize": query.line.waiting,
                "queryThreadPoolQueueCapacity": query.line.room,
            },
        )
        groups = GroupProcessor(self.groups, self.offsets, self.clients)
        resets = ResetOffsetProcessor(
            live,
            self.store,
            self.topics,
            self.groups,
            self.clients,
            self.offsets,
            lambda topic, queue_id: self.server.release_parked(topic, queue_id),
        )
        queues = QueueProcessor(self.store, self.topics, self.groups, self.offsets, locks)
        return {
            RequestCode.SEND_MESSAGE: send,
            RequestCode.SEND_MESSAGE_V2: send,
            RequestCode.SEND_BATCH_MESSAGE: send,
            RequestCode.CONSUMER_SEND_MSG_BACK: back,
            RequestCode.SEND_REPLY_MESSAGE: reply,
            RequestCode.SEND_REPLY_MESSAGE_V2: reply,
            RequestCode.PULL_MESSAGE: pull,
            RequestCode.LITE_PULL_MESSAGE: pull,
            RequestCode.HEART_BEAT: manage.heartbeat,
            RequestCode.UNREGISTER_CLIENT: manage.unregister,
            RequestCode.CHECK_CLIENT_CONFIG: manage.check_config,
            RequestCode.GET_CONSUMER_LIST_BY_GROUP: manage.consumer_list,
            RequestCode.QUERY_CONSUMER_OFFSET: queues.query_offset,
            RequestCode.UPDATE_CONSUMER_OFFSET: queues.update_offset,
            RequestCode.GET_MAX_OFFSET: queues.max_offset,
            RequestCode.GET_MIN_OFFSET: queues.min_offset,
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: queues.search_offset,
            RequestCode.GET_EARLIEST_MSG_STORETIME: queues.earliest_time,
            RequestCode.QUERY_MESSAGE: query.query_message,
            RequestCode.VIEW_MESSAGE_BY_ID: query.view_message,
            RequestCode.DELETE_EXPIRED_COMMITLOG: query.delete_expired,
            RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE: query.clean_queues,
            RequestCode.GET_TOPIC_STATS_INFO: stats.topic_stats,
            RequestCode.GET_CONSUME_STATS: stats.consume_stats,
            RequestCode.GET_BROKER_CONSUME_STATS: stats.all_consume_stats,
            RequestCode.GET_CONSUMER_CONNECTION_LIST: stats.consumers,
            RequestCode.GET_PRODUCER_CONNECTION_LIST: stats.producers,
            RequestCode.GET_ALL_PRODUCER_INFO: stats.all_producers,
            RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: resets.reset,
            RequestCode.CLONE_GROUP_OFFSET: resets.clone,
            RequestCode.LOCK_BATCH_MQ: queues.lock,
            RequestCode.UNLOCK_BATCH_MQ: queues.unlock,
            RequestCode.UPDATE_AND_CREATE_TOPIC: queues.update_topic,
            RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: queues.update_topics,
            RequestCode.GET_TOPIC_CONFIG: queues.topic_config,
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: groups.update,
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: groups.update_list,
            RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: groups.get,
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: groups.all,
            RequestCode.DELETE_SUBSCRIPTIONGROUP: groups.delete,
            RequestCode.END_TRANSACTION: transaction.end,
            RequestCode.RESUME_CHECK_HALF_MESSAGE: transaction.resume,
            RequestCode.GET_BROKER_CONFIG: config.get,
            RequestCode.UPDATE_BROKER_CONFIG: config.update,
            **operator_processors(
                live.now.broker_name,
                self.address,
                store=self.store,
                topics=self.topics,
                groups=self.groups,
                clients=self.clients,
                offsets=self.offsets,
                delays=self.delays,
                deletion=self.deletion,
                questions=self.questions,
                replicating=self.replicating,
            ),
            RequestCode.SET_MESSAGE_REQUEST_MODE: self.request_modes.set,
            RequestCode.GET_ALL_MESSAGE_REQUEST_MODE: self.request_modes.all,
            RequestCode.GET_BROKER_RUNTIME_INFO: runtime,
            RequestCode.VIEW_BROKER_STATS_DATA: StatsProcessor(self.stats),
            **(slave_refusals() if live.now.is_slave else {}),
        }

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
        config = own.config
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
                    tasks.start_soon(broker.transactions.run)
                    tasks.start_soon(broker._count_transactions)
                    tasks.start_soon(broker.delays.run)
                tasks.start_soon(broker.stats.run)
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
                try:
                    yield broker
                finally:
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
