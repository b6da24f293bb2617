"""Puts a broker together: its parts, in the order in which they are made.

Each part gets what it needs by its constructor. `assemble` is the one place that knows all of them;
`pyrmq.broker.broker` starts and stops them.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pyrmq.auth.access import Access
from pyrmq.broker import opening
from pyrmq.broker.access_control import AccessControl, open_access_control
from pyrmq.broker.config.broker_config import BrokerConfig, LiveConfig
from pyrmq.broker.config.updates import ConfigUpdates
from pyrmq.broker.delay import DelayOffsets, DelayService
from pyrmq.broker.draining import Draining
from pyrmq.broker.health import BrokerHealth
from pyrmq.broker.housekeeping import Housekeeping, PageCache
from pyrmq.broker.metrics.service import open_metrics
from pyrmq.broker.opening import HOUR, open_store
from pyrmq.broker.pop.handover import Handover
from pyrmq.broker.pop.parts import PopParts, open_pop, pop_engine
from pyrmq.broker.pop.routes import Routes
from pyrmq.broker.reclaim import Reclaim, open_reclaim
from pyrmq.broker.registration import Registration
from pyrmq.broker.replication.peers import Peers
from pyrmq.broker.replication.replicating import HaStatus, Replicating
from pyrmq.broker.replication.role import Promotion, Role
from pyrmq.broker.replication.slave import KnownMaster
from pyrmq.broker.replication.slave_sync import SlaveSync
from pyrmq.broker.replication.sole_master import SoleMaster
from pyrmq.broker.requests.assignment import RequestModes
from pyrmq.broker.requests.processors import processors
from pyrmq.broker.requests.pull import pull_of_no_topic
from pyrmq.broker.requests.transactions import (
    ProducerChoice,
    TransactionMetrics,
    keep_progress,
    make_overflow_topic,
    open_transactions,
    rules,
)
from pyrmq.broker.slow_requests import complete
from pyrmq.broker.stats.broker_stats import BrokerStats
from pyrmq.broker.stats.hour import HourState
from pyrmq.broker.stats.state import state_of
from pyrmq.broker.stats.use import Use
from pyrmq.broker.tables.clients import ClientTable, Notices
from pyrmq.broker.tables.consumer_filters import ConsumerFilters
from pyrmq.broker.tables.groups import GroupTable
from pyrmq.broker.tables.offsets import OffsetTable
from pyrmq.broker.tables.offsets_and_queues import DeletedUnread, bring_back_to_store
from pyrmq.broker.tables.tables import Saving, Tables
from pyrmq.broker.tables.topic_creation import open_topics
from pyrmq.broker.tables.topic_removal import TopicDeletion
from pyrmq.broker.timer import TimerCounts, TimerService
from pyrmq.config.log_keys import follow_levels
from pyrmq.engine import Listener, Pops, PullGrants, RpcFigures, Store, Transactions
from pyrmq.metrics.service import MetricsService
from pyrmq.model.subscription import Subscription
from pyrmq.net.address import Address, message_id
from pyrmq.net.client.server_access import channels_of
from pyrmq.net.server.admin_access import AdminAccess
from pyrmq.net.server.answers import Processor
from pyrmq.net.server.questions import Questions
from pyrmq.net.server.server import RemotingServer
from pyrmq.net.server.tls import ServerTls
from pyrmq.txn import TransactionService


@dataclass(frozen=True, slots=True)
class Start:
    """What a broker is made from."""

    role: Role
    """The configuration, with the role that counts."""
    configured: BrokerConfig
    """The configuration without the changes of operators."""
    pinned: Mapping[str, str]
    """Keys that UPDATE_BROKER_CONFIG may not change, and what sets them."""
    sockets: list[socket.socket]
    ha_sockets: list[socket.socket]
    metrics_sockets: list[socket.socket]
    """Of metrics and health; none: they are not served."""
    restart: Callable[[], None]
    """Has the broker left and served again: its role has changed."""
    shared: Access | None = None
    """Users and access lists that this process has open already, for its name server."""


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a running broker."""

    address: Address
    store: Store
    live: LiveConfig
    updates: ConfigUpdates
    tables: Tables
    registration: Registration
    replicating: Replicating
    sole: SoleMaster
    slave_sync: SlaveSync
    deleted_unread: DeletedUnread
    stats: BrokerStats
    hour: HourState
    notices: Notices
    transactions: TransactionService
    delays: DelayService
    pop: PopParts
    handover: Handover
    routes: Routes
    timers: TimerService
    housekeeping: Housekeeping
    page_cache: PageCache
    reclaim: Reclaim | None
    """None: files of the log are deleted by the usual rules only."""
    saving: Saving
    processors: Mapping[int, Processor]
    """By request code."""
    server: RemotingServer
    access_control: AccessControl
    draining: Draining
    health: BrokerHealth
    metrics: MetricsService | None


def assemble(start: Start) -> Parts:
    """Opens the store and makes all parts. Blocking. If one cannot be made, the store is closed."""
    config = start.role.config
    address = config.broker_ip1, start.sockets[0].getsockname()[1]
    access = open_access_control(config, start.shared)
    store = open_store(config, address)
    try:
        return _parts(start, address, store, access)
    except BaseException:
        store.close()
        raise


def _parts(start: Start, address: Address, store: Store, access: AccessControl) -> Parts:
    updates = ConfigUpdates(start.role.config, start.pinned)
    live = updates.live
    follow_levels(live)
    config = live.now
    folder = config.store_path_root_dir / "config"

    grants = PullGrants()
    topics = open_topics(folder / "topics.json", live, store, grants.revoke)
    opening.write_name(folder, config.broker_name, topics.table.topics.values())

    peers = Peers(live, address)
    master = KnownMaster()
    since = start.role.since
    tls = ServerTls(f"broker {config.broker_name}", config.tls_settings())
    replicating = Replicating(
        config, store, start.ha_sockets, master.get, since, peers, tls.context
    )
    registration = Registration(
        live,
        topics.table,
        address,
        _ha_address(config, address, start.ha_sockets),
        master,
        replicating.has_master,
    )

    def replaced() -> None:
        """Another broker is the master by now."""
        registration.leave()
        replicating.leave_slaves()

    sole = SoleMaster(live, peers, store, since, leave=replaced, stay=registration.register_again)

    groups = GroupTable(folder / "subscriptionGroup.json", live, grants.revoke)
    offsets = OffsetTable(
        folder / "consumerOffset.json", config.consumer_offset_update_version_step, grants
    )
    if config.reclaim_after == "table":
        offsets.guard_tables(config.reclaim_group)
    deleted_unread = DeletedUnread(store, topics.table, offsets)
    request_modes = RequestModes(folder / "messageRequestMode.json", live, topics.table, groups)
    stats = BrokerStats(
        config.broker_cluster_name, store, topics.table, groups, offsets.take_granted_in_turns
    )
    offsets.watch_granted(stats.pulled)
    filters = ConsumerFilters(folder / "consumerFilter.json", config, store)

    def subscribed(group: str, wanted: dict[str, Subscription]) -> None:
        grants.revoke()
        filters.subscribed(group, wanted)

    notices = Notices()
    clients = ClientTable(notices.changed, subscribed, access.same_user)
    tables = Tables(topics, groups, offsets, filters, clients)
    if not config.is_slave:  # a slave's are those of its master, which may be ahead
        bring_back_to_store(offsets, topics.table, store)

    engine = open_transactions(config, store, offsets)
    timers = TimerService(
        config,
        store,
        TimerCounts(folder / "timermetrics"),
        lambda: server.wake_parked(),
        topics.creation.adopt_delivered,
    )
    questions = Questions()
    pops = pop_engine(live, store)
    server = _server(
        config, start.sockets, store, grants, engine, timers, pops, questions, access, tls
    )
    ha = HaStatus(
        store,
        replicating.server.master if replicating.server else None,
        replicating.replication,
        since,
    )
    hour = HourState(partial(state_of, live, store, server), store, tables, ha.values)
    stats.use = Use(clients, server.connections.values, hour)
    server.at_open(stats.use.opened)
    complete(server, clients, store)
    pop = open_pop(folder, live, store, pops, tables, stats, server, timers.delivered)
    handover = Handover(
        store, pops, tables, pop.popping.busy, request_modes.pulling, server.wake_parked
    )
    routes = Routes(live, topics.table, partial(channels_of, config))
    access.on_changed.extend((grants.revoke, server.release_all_parked, pop.release_all))
    transactions = _transactions(config, address, store, tables, engine, access)
    delays = DelayService(
        store,
        DelayOffsets(folder / "delayOffset.json", len(config.delay_levels)),
        server.wake_parked,
        topics.creation.adopt_delivered,
    )

    def ended(deleted: Set[str]) -> None:
        """Who waits for topics that are deleted is told so; their timers are not counted."""
        server.end_parked(deleted, pull_of_no_topic)
        pop.end(deleted, pull_of_no_topic)
        for topic in deleted:
            timers.engine.forget_topic(topic)

    deletion = TopicDeletion(
        live,
        store,
        topics.table,
        topics.removal,
        groups,
        offsets,
        ended,
    )
    slave_sync = SlaveSync(
        folder,
        topics,
        groups,
        offsets,
        deletion,
        replicating.followed,
        replicating.has_master,
        partial(channels_of, config),
        timers.follow,
        pop.in_log.end,
    )
    replicating.watch(slave_sync.wake)
    slave_sync.on_modes = request_modes.follow
    promotion = Promotion(
        start.configured,
        start.role.config,
        start.pinned,
        replicating,
        sole,
        start.restart,
        lambda: int(store.stats()["maxPhyOffset"]),
    )
    serving = None if replicating.server is None else replicating.server.master
    reclaim = open_reclaim(config, store, tables, delays, timers, pop, serving)
    waiting: dict[str, Callable[[], int]] = {}
    by_code = processors(
        live=live,
        updates=updates,
        change_role=promotion.change,
        address=address,
        store=store,
        tables=tables,
        grants=grants,
        stats=stats,
        use=stats.use,
        deleted_unread=deleted_unread,
        request_modes=request_modes,
        pop=pop,
        routes=routes,
        registration=registration,
        replicating=replicating,
        transactions=transactions,
        delays=delays,
        timers=timers,
        deletion=deletion,
        questions=questions,
        server=server,
        access=access,
        waiting=waiting,
        reclaim=reclaim,
    )
    by_code = access.guarded(store, by_code)
    server.add(by_code)

    def configured(before: BrokerConfig, now: BrokerConfig) -> None:
        """Makes anew what was made of keys that may change."""
        grants.revoke()
        transactions.rules = rules(now)
        server.idle_seconds = now.server_channel_max_idle_time_seconds
        server.slow_requests.set_limit(now.slow_log_ms)
        topics.table.configure(now)
        store.set_file_reserved_time(now.file_reserved_time * HOUR)
        replicating.want(now)
        if reclaim is not None:
            reclaim.configure(now)
        if now.auto_create_topic_enable != before.auto_create_topic_enable:
            topics.table.set_auto_create(now.auto_create_topic_enable)

    live.watch(configured)

    def pause() -> None:
        """The broker delivers nothing by itself any more."""
        for service in (delays, timers, pop.revive):
            service.stop()

    draining = Draining(
        live,
        store,
        clients,
        registration,
        serving,
        topics.table.is_system,
        pause,
    )
    health = BrokerHealth(live, store, registration, replicating, lambda: draining.why)
    metrics = open_metrics(
        start.metrics_sockets,
        live,
        health,
        store,
        tables,
        stats,
        server,
        transactions,
        delays,
        timers,
        pop,
        replicating,
        waiting,
    )
    return Parts(
        address=address,
        store=store,
        live=live,
        updates=updates,
        tables=tables,
        registration=registration,
        replicating=replicating,
        sole=sole,
        slave_sync=slave_sync,
        deleted_unread=deleted_unread,
        stats=stats,
        hour=hour,
        notices=notices,
        transactions=transactions,
        delays=delays,
        pop=pop,
        handover=handover,
        routes=routes,
        timers=timers,
        housekeeping=Housekeeping(
            live, store, topics.table, groups, offsets, clients, deletion, server.close
        ),
        page_cache=PageCache(store, offsets, clients),
        reclaim=reclaim,
        saving=_saving(live, folder, tables, engine, pop),
        processors=by_code,
        server=server,
        access_control=access,
        draining=draining,
        health=health,
        metrics=metrics,
    )


def _ha_address(config: BrokerConfig, address: Address, ha_sockets: list[socket.socket]) -> Address:
    host, port = address
    port = ha_sockets[0].getsockname()[1] if ha_sockets else port + 1
    return config.broker_ip2 or host, port


def _server(
    config: BrokerConfig,
    sockets: list[socket.socket],
    store: Store,
    grants: PullGrants,
    engine: Transactions,
    timers: TimerService,
    pops: Pops,
    questions: Questions,
    access: AccessControl,
    tls: ServerTls,
) -> RemotingServer:
    """The server, without processors: most of them need it."""
    name = f"broker {config.broker_name}"
    figures = RpcFigures(config.slow_log_ms)
    return RemotingServer(
        name,
        sockets,
        {},
        Listener(
            store.native,
            transactions=None if config.reject_transaction_message else engine,
            timers=timers.engine,
            pulls=grants,
            pops=pops.native if config.timer_wheel_enable and not config.is_slave else None,
            keyring=access.keyring,
            tls=tls.context,
            figures=figures,
            region=config.region_id,
            cluster=config.broker_cluster_name,
            trace_on=config.trace_on,
            broker_name=config.broker_name,
            timer_precision_ms=config.timer_precision_ms if config.timer_wheel_enable else None,
            timer_max_delay_ms=config.timer_max_delay_sec * 1000,
            timer_congested=config.timer_congest_num_each_slot,
        ),
        store=store,
        questions=questions,
        idle_seconds=config.server_channel_max_idle_time_seconds,
        flush_timeout_ms=config.sync_flush_timeout,
        admins=AdminAccess(config.admin_address_allow_list),
        guard=access.guard,
        tls=tls,
        figures=figures,
        slow_log_ms=config.slow_log_ms,
    )


def _transactions(
    config: BrokerConfig,
    address: Address,
    store: Store,
    tables: Tables,
    engine: Transactions,
    access: AccessControl,
) -> TransactionService:
    return TransactionService(
        store,
        engine,
        rules(config),
        producers=ProducerChoice(tables.clients, access.may_publish),
        broker_name=config.broker_name,
        message_id=partial(message_id, address),
        keep_progress=partial(keep_progress, tables.offsets),
        overflow=partial(make_overflow_topic, tables.topics),
        taking=tables.topics.table.taking,
    )


def _saving(
    live: LiveConfig, folder: Path, tables: Tables, engine: Transactions, pop: PopParts
) -> Saving:
    metrics = TransactionMetrics(folder / "transactionMetrics", engine)
    return Saving(live, tables, metrics, pop.order)
