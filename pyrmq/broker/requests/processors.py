"""Which processor answers which request of a broker, and which requests are refused.

Every broker refuses the requests of absent features, as RocketMQ's brokers do without a controller,
and those about users and access lists if it keeps none. A slave refuses whatever would write into
its log, or into tables that are its master's. [AdminBrokerProcessor]
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pyrmq.broker.access_control import AccessControl
from pyrmq.broker.config.broker_config import LiveConfig
from pyrmq.broker.config.updates import ConfigUpdates
from pyrmq.broker.delay import DelayService
from pyrmq.broker.pop.parts import PopParts
from pyrmq.broker.pop.routes import Routes
from pyrmq.broker.reclaim import Reclaim
from pyrmq.broker.registration import Registration
from pyrmq.broker.replication.replicating import HaStatus, Replicating
from pyrmq.broker.requests.admin_queries import AdminTables, ConsumeQueryProcessor
from pyrmq.broker.requests.ask_clients import ClientQuestions
from pyrmq.broker.requests.assignment import Assignments, RequestModes
from pyrmq.broker.requests.client_manage import ClientManageProcessor
from pyrmq.broker.requests.disk_use import DiskUseProcessor
from pyrmq.broker.requests.group_admin import GroupProcessor
from pyrmq.broker.requests.plain_acl import PlainAclProcessor
from pyrmq.broker.requests.pop_processors import pop_processors
from pyrmq.broker.requests.pull import PullProcessor, Suggestion
from pyrmq.broker.requests.query import QueryProcessor
from pyrmq.broker.requests.queues import QueueProcessor
from pyrmq.broker.requests.recall import RecallProcessor
from pyrmq.broker.requests.reply import ReplyProcessor
from pyrmq.broker.requests.reset_offsets import ResetOffsetProcessor
from pyrmq.broker.requests.runtime import ChangeRole, ConfigProcessor, RuntimeInfo, why_it_refuses
from pyrmq.broker.requests.send import SendBackProcessor, SendProcessor
from pyrmq.broker.requests.timers import TimerProcessor
from pyrmq.broker.requests.transactions import TransactionProcessor
from pyrmq.broker.requests.use import UseProcessor
from pyrmq.broker.stats.broker_stats import BrokerStats, StatsProcessor
from pyrmq.broker.stats.consume_stats import ConsumeStatsProcessor
from pyrmq.broker.stats.put_times import longest_read_ms
from pyrmq.broker.stats.use import Use
from pyrmq.broker.tables.locks import QueueLocks
from pyrmq.broker.tables.offsets_and_queues import DeletedUnread, NewQueues
from pyrmq.broker.tables.tables import Tables
from pyrmq.broker.tables.topic_removal import TopicDeletion
from pyrmq.broker.timer import TimerService
from pyrmq.engine import Command, PullGrants, Store
from pyrmq.errors import ResponseError, ServiceNotAvailableError
from pyrmq.model.codes import RequestCode, ResponseCode
from pyrmq.model.request_kinds import ACCESS_REQUESTS, refusal
from pyrmq.net.address import Address
from pyrmq.net.server.admin_access import AdminAccess
from pyrmq.net.server.answers import Answer, Processor
from pyrmq.net.server.connection import MAX_ELSEWHERE, Connection
from pyrmq.net.server.dispatch import MAX_WAITING
from pyrmq.net.server.questions import Questions
from pyrmq.net.server.server import RemotingServer
from pyrmq.txn import TransactionService

_WRITES = (
    RequestCode.SEND_MESSAGE,
    RequestCode.SEND_MESSAGE_V2,
    RequestCode.SEND_BATCH_MESSAGE,
    RequestCode.CONSUMER_SEND_MSG_BACK,
    RequestCode.SEND_REPLY_MESSAGE,
    RequestCode.SEND_REPLY_MESSAGE_V2,
    RequestCode.RESUME_CHECK_HALF_MESSAGE,
    RequestCode.POP_MESSAGE,
    RequestCode.ACK_MESSAGE,
    RequestCode.BATCH_ACK_MESSAGE,
    RequestCode.CHANGE_MESSAGE_INVISIBLETIME,
)
_CHANGES = (
    RequestCode.UPDATE_AND_CREATE_TOPIC,
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST,
    RequestCode.DELETE_TOPIC_IN_BROKER,
    RequestCode.CLEAN_UNUSED_TOPIC,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
    RequestCode.DELETE_SUBSCRIPTIONGROUP,
)


def _refuse(connection: Connection, command: Command) -> Answer:
    raise ResponseError(refusal(command.code), ResponseCode.SYSTEM_ERROR)


def refused_requests() -> dict[int, Processor]:
    """By request code."""
    return {RequestCode.GET_BROKER_EPOCH_CACHE: _refuse}


def _write(connection: Connection, command: Command) -> Answer:
    """[HookUtils.checkBeforePutMessage]"""
    raise ServiceNotAvailableError(
        "message store is slave mode, so putMessage is forbidden: send to the master"
    )


def _end(connection: Connection, command: Command) -> Answer:
    """[EndTransactionProcessor]"""
    raise ResponseError(
        "message store is slave mode, so end transaction is forbidden: tell the master",
        ResponseCode.SLAVE_NOT_AVAILABLE,
    )


def _change(connection: Connection, command: Command) -> Answer:
    """[AdminBrokerProcessor.validateSlave]"""
    raise ResponseError(
        "topics and subscription groups are changed at the master, not at a slave",
        ResponseCode.SYSTEM_ERROR,
    )


def _reset(connection: Connection, command: Command) -> Answer:
    """[AdminBrokerProcessor.resetOffsetInner]"""
    raise ResponseError(
        "offsets are reset at the master, not at a slave, which follows it",
        ResponseCode.SYSTEM_ERROR,
    )


def slave_refusals() -> dict[int, Processor]:
    """By request code."""
    return {
        **dict.fromkeys(_WRITES, _write),
        **dict.fromkeys(_CHANGES, _change),
        RequestCode.END_TRANSACTION: _end,
        RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: _reset,
    }


def processors(
    *,
    live: LiveConfig,
    updates: ConfigUpdates,
    change_role: ChangeRole,
    address: Address,
    store: Store,
    tables: Tables,
    grants: PullGrants,
    stats: BrokerStats,
    use: Use,
    deleted_unread: DeletedUnread,
    request_modes: RequestModes,
    pop: PopParts,
    routes: Routes,
    registration: Registration,
    replicating: Replicating,
    transactions: TransactionService,
    delays: DelayService,
    timers: TimerService,
    deletion: TopicDeletion,
    questions: Questions,
    server: RemotingServer,
    access: AccessControl,
    waiting: dict[str, Callable[[], int]],
    reclaim: Reclaim | None,
) -> dict[int, Processor]:
    """By request code. `change_role` changes the broker's role; `access` answers requests about
    users, access lists and accounts, if the broker has them. `waiting` is filled: by processor how
    many requests wait now."""
    locks = QueueLocks()
    topics, groups = tables.topics.table, tables.groups
    clients, offsets = tables.clients, tables.offsets
    pull = PullProcessor(
        live,
        store,
        topics,
        groups,
        clients,
        offsets,
        stats,
        grants,
        tables.filters,
        Suggestion(live, store, groups, replicating.has_master),
    )
    send = SendProcessor(live, tables.topics, groups, locks)
    back = SendBackProcessor(live, tables.topics, groups, delays.engine, stats)
    manage = ClientManageProcessor(live, tables.topics, groups, clients)
    query = QueryProcessor(live, store)
    config = ConfigProcessor(updates, address, registration.told, change_role)
    transaction = TransactionProcessor(transactions)
    assignments = Assignments(live, routes, clients, request_modes)
    reply = ReplyProcessor(live, store, topics, clients, questions, address)
    consume_stats = ConsumeStatsProcessor(
        live.now.broker_name,
        address,
        store,
        topics,
        groups,
        clients,
        offsets,
        stats,
        deleted_unread,
    )
    runtime = RuntimeInfo(
        live.now,
        store,
        transactions,
        delays.engine,
        stats,
        lambda: {
            **timers.runtime(),
            "connections": len(server.connections),
            "deletedUnread": deleted_unread.total,
            "refusesMessages": why_it_refuses(live.now, store),
            "brokerDrain": live.now.broker_drain,
            "pageCacheLockTimeMills": server.stalled_ms(),
            "getMessageEntireTimeMax": longest_read_ms(server.figures),
            "sendThreadPoolQueueSize": len(server.line),
            "sendThreadPoolQueueCapacity": MAX_WAITING,
            "sendThreadPoolQueueHeadWaitTimeMills": server.line.head_wait_ms(),
            "pullThreadPoolQueueSize": len(pull.line),
            "pullThreadPoolQueueCapacity": MAX_ELSEWHERE,
            "pullThreadPoolQueueHeadWaitTimeMills": pull.line.head_wait_ms(),
            "queryThreadPoolQueueSize": query.line.waiting,
            "queryThreadPoolQueueCapacity": query.line.capacity,
            "queryThreadPoolQueueHeadWaitTimeMills": query.line.head_wait_ms(),
            **pop.revive.figures(),
        },
    )
    waiting |= {
        "send": lambda: len(server.line),
        "pull": lambda: len(pull.line),
        "query_message": lambda: query.line.waiting,
    }
    timer = TimerProcessor(timers)
    used = UseProcessor(use, lambda: stats.clock())
    group_admin = GroupProcessor(groups, offsets, clients)
    times = stats.create_times
    resets = ResetOffsetProcessor(
        live,
        store,
        topics,
        groups,
        clients,
        offsets,
        server.release_parked,
    )
    queues = QueueProcessor(
        store,
        tables.topics,
        groups,
        offsets,
        locks,
        NewQueues(live, topics, offsets),
        replicating.is_slave,
        partial(access.check_deletes, AdminAccess(live.now.admin_address_allow_list)),
    )
    return {
        RequestCode.SEND_MESSAGE: send,
        RequestCode.SEND_MESSAGE_V2: send,
        RequestCode.SEND_BATCH_MESSAGE: send,
        RequestCode.CONSUMER_SEND_MSG_BACK: back,
        RequestCode.RECALL_MESSAGE: RecallProcessor(live, store, topics),
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
        RequestCode.GET_TOPIC_STATS_INFO: consume_stats.topic_stats,
        RequestCode.GET_CONSUME_STATS: consume_stats.consume_stats,
        RequestCode.GET_BROKER_CONSUME_STATS: consume_stats.all_consume_stats,
        RequestCode.GET_CONSUMER_CONNECTION_LIST: consume_stats.consumers,
        RequestCode.GET_PRODUCER_CONNECTION_LIST: consume_stats.producers,
        RequestCode.GET_ALL_PRODUCER_INFO: consume_stats.all_producers,
        RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: resets.reset,
        RequestCode.CLONE_GROUP_OFFSET: resets.clone,
        RequestCode.LOCK_BATCH_MQ: queues.lock,
        RequestCode.UNLOCK_BATCH_MQ: queues.unlock,
        RequestCode.UPDATE_AND_CREATE_TOPIC: times.of_topic(queues.update_topic, topics.is_system),
        RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: times.of_topic(
            queues.update_topics, topics.is_system
        ),
        RequestCode.GET_TOPIC_CONFIG: queues.topic_config,
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: times.of_group(group_admin.update),
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: times.of_group(
            group_admin.update_list
        ),
        RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: group_admin.get,
        RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: group_admin.all,
        RequestCode.DELETE_SUBSCRIPTIONGROUP: group_admin.delete,
        RequestCode.END_TRANSACTION: transaction.end,
        RequestCode.RESUME_CHECK_HALF_MESSAGE: transaction.resume,
        RequestCode.GET_BROKER_CONFIG: config.get,
        RequestCode.UPDATE_BROKER_CONFIG: config.update,
        **_of_operators(
            live.now.broker_name, address, store, tables, delays, deletion, questions, replicating
        ),
        **pop_processors(live, store, tables, grants, pop),
        RequestCode.QUERY_ASSIGNMENT: assignments.query,
        RequestCode.GET_TIMER_CHECK_POINT: timer.check_point,
        RequestCode.GET_TIMER_METRICS: timer.metrics,
        RequestCode.SET_MESSAGE_REQUEST_MODE: request_modes.set,
        RequestCode.GET_ALL_MESSAGE_REQUEST_MODE: request_modes.all,
        RequestCode.GET_BROKER_RUNTIME_INFO: runtime,
        RequestCode.VIEW_BROKER_STATS_DATA: StatsProcessor(stats),
        RequestCode.GET_BROKER_USE: used.use,
        RequestCode.GET_BROKER_HISTORY: used.history,
        RequestCode.GET_DISK_USE: DiskUseProcessor(
            live, store, offsets, use.bytes_per_second, reclaim
        ),
        **(access.requests or dict.fromkeys(ACCESS_REQUESTS, _refuse)),
        **PlainAclProcessor(
            access.plain, live.now.broker_cluster_name, live.now.broker_name, address
        ).processors(),
        **(slave_refusals() if live.now.is_slave else {}),
    }


def _of_operators(
    broker_name: str,
    address: Address,
    store: Store,
    tables: Tables,
    delays: DelayService,
    deletion: TopicDeletion,
    questions: Questions,
    replicating: Replicating,
) -> dict[int, Processor]:
    """Requests that only operators make, and tools."""
    topics, clients, offsets = tables.topics.table, tables.clients, tables.offsets
    ask = ClientQuestions(broker_name, store, topics, tables.groups, clients, questions)
    whole = AdminTables(topics, offsets, delays)
    server = replicating.server
    ha = HaStatus(
        store, server.master if server else None, replicating.replication, replicating.since
    )
    query = ConsumeQueryProcessor(broker_name, address, store, topics, clients, offsets)
    return {
        RequestCode.DELETE_TOPIC_IN_BROKER: deletion.delete,
        RequestCode.CLEAN_UNUSED_TOPIC: deletion.clean_unused,
        RequestCode.GET_ALL_TOPIC_CONFIG: whole.topics,
        RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: whole.system_topics,
        RequestCode.GET_ALL_CONSUMER_OFFSET: whole.offsets,
        RequestCode.GET_ALL_DELAY_OFFSET: whole.delays,
        RequestCode.GET_BROKER_HA_STATUS: ha.status,
        RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: query.consumed_by,
        RequestCode.QUERY_TOPICS_BY_CONSUMER: query.topics_of,
        RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: query.subscription,
        RequestCode.QUERY_CONSUME_TIME_SPAN: query.time_span,
        RequestCode.QUERY_CORRECTION_OFFSET: query.correction,
        RequestCode.QUERY_CONSUME_QUEUE: query.queue_entries,
        RequestCode.GET_CONSUMER_RUNNING_INFO: ask.running_info,
        RequestCode.CONSUME_MESSAGE_DIRECTLY: ask.consume_directly,
        RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: ask.consumer_status,
        **refused_requests(),
    }
