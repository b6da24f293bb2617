"""The table of a broker's requests: which processor answers which request code."""

from __future__ import annotations

from typing import Protocol

from pyrmq.broker.config.broker_config import LiveConfig
from pyrmq.broker.config.updates import ConfigUpdates
from pyrmq.broker.delay import DelayService
from pyrmq.broker.registration import Registration
from pyrmq.broker.replication.replicating import HaStatus, Replicating
from pyrmq.broker.requests.admin_queries import AdminTables, ConsumeQueryProcessor
from pyrmq.broker.requests.ask_clients import ClientQuestions
from pyrmq.broker.requests.broker_config import ConfigProcessor
from pyrmq.broker.requests.client_manage import ClientManageProcessor
from pyrmq.broker.requests.group_admin import GroupProcessor, RequestModes
from pyrmq.broker.requests.pull import PullProcessor, Suggestion
from pyrmq.broker.requests.query import QueryProcessor
from pyrmq.broker.requests.queues import QueueProcessor
from pyrmq.broker.requests.refusals import refused_requests, slave_refusals
from pyrmq.broker.requests.reply import ReplyProcessor
from pyrmq.broker.requests.reset_offsets import ResetOffsetProcessor
from pyrmq.broker.requests.runtime import RuntimeInfo, refusal
from pyrmq.broker.requests.send import SendProcessor
from pyrmq.broker.requests.send_back import SendBackProcessor
from pyrmq.broker.requests.transactions import TransactionProcessor
from pyrmq.broker.stats.broker_stats import BrokerStats, StatsProcessor
from pyrmq.broker.stats.consume_stats import ConsumeStatsProcessor
from pyrmq.broker.tables.clients import ClientTable
from pyrmq.broker.tables.consumer_filters import ConsumerFilters
from pyrmq.broker.tables.deleted_unread import DeletedUnread
from pyrmq.broker.tables.groups import GroupTable
from pyrmq.broker.tables.locks import QueueLocks
from pyrmq.broker.tables.new_queues import NewQueues
from pyrmq.broker.tables.offsets import OffsetTable
from pyrmq.broker.tables.topic_delete import TopicDeletion
from pyrmq.broker.tables.topics import TopicTable
from pyrmq.engine import PullGrants, Store
from pyrmq.model.codes import RequestCode
from pyrmq.net.address import Address
from pyrmq.net.server.answers import Processor
from pyrmq.net.server.questions import Questions
from pyrmq.net.server.server import RemotingServer
from pyrmq.txn import TransactionService


def operator_processors(
    broker_name: str,
    address: Address,
    *,
    store: Store,
    topics: TopicTable,
    groups: GroupTable,
    clients: ClientTable,
    offsets: OffsetTable,
    delays: DelayService,
    deletion: TopicDeletion,
    questions: Questions,
    replicating: Replicating,
) -> dict[int, Processor]:
    """By request code."""
    ask = ClientQuestions(broker_name, store, topics, groups, clients, questions)
    tables = AdminTables(topics, offsets, delays)
    server = replicating.server
    ha = HaStatus(
        store, server.master if server else None, replicating.replication, replicating.since
    )
    query = ConsumeQueryProcessor(broker_name, address, store, topics, clients, offsets)
    return {
        RequestCode.DELETE_TOPIC_IN_BROKER: deletion.delete,
        RequestCode.CLEAN_UNUSED_TOPIC: deletion.clean_unused,
        RequestCode.GET_ALL_TOPIC_CONFIG: tables.topics,
        RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: tables.system_topics,
        RequestCode.GET_ALL_CONSUMER_OFFSET: tables.offsets,
        RequestCode.GET_ALL_DELAY_OFFSET: tables.delays,
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


class Parts(Protocol):
    """What processors are made of: a broker."""

    address: Address
    clients: ClientTable
    delays: DelayService
    deleted_unread: DeletedUnread
    deletion: TopicDeletion
    filters: ConsumerFilters
    grants: PullGrants
    groups: GroupTable
    live: LiveConfig
    offsets: OffsetTable
    questions: Questions
    registration: Registration
    replicating: Replicating
    request_modes: RequestModes
    server: RemotingServer
    stats: BrokerStats
    store: Store
    topics: TopicTable
    transactions: TransactionService
    updates: ConfigUpdates


def processors(broker: Parts) -> dict[int, Processor]:
    """By request code."""
    locks = QueueLocks()
    live = broker.live
    pull = PullProcessor(
        live,
        broker.store,
        broker.topics,
        broker.groups,
        broker.clients,
        broker.offsets,
        broker.stats,
        broker.grants,
        broker.filters,
        Suggestion(live, broker.store, broker.groups, broker.replicating.has_master),
    )
    send = SendProcessor(live, broker.topics, broker.groups, locks)
    back = SendBackProcessor(live, broker.topics, broker.groups, broker.delays.engine, broker.stats)
    manage = ClientManageProcessor(live, broker.topics, broker.groups, broker.clients)
    query = QueryProcessor(live, broker.store)
    config = ConfigProcessor(broker.updates, broker.address, broker.registration.told)
    transaction = TransactionProcessor(broker.transactions)
    reply = ReplyProcessor(
        live, broker.store, broker.topics, broker.clients, broker.questions, broker.address
    )
    stats = ConsumeStatsProcessor(
        live.now.broker_name,
        broker.address,
        broker.store,
        broker.topics,
        broker.groups,
        broker.clients,
        broker.offsets,
        broker.stats,
        broker.deleted_unread,
    )
    runtime = RuntimeInfo(
        live.now,
        broker.store,
        broker.transactions,
        broker.delays.engine,
        broker.stats,
        lambda: {
            "connections": len(broker.server.connections),
            "deletedUnread": broker.deleted_unread.total,
            "refusesMessages": refusal(broker.live.now, broker.store),
            "pageCacheLockTimeMills": broker.server.stalled_ms(),
            "sendThreadPoolQueueSize": len(broker.server.line),
            "sendThreadPoolQueueHeadWaitTimeMills": broker.server.line.head_wait_ms(),
            "pullThreadPoolQueueSize": len(pull.line),
            "pullThreadPoolQueueHeadWaitTimeMills": pull.line.head_wait_ms(),
            "queryThreadPoolQueueSize": query.line.waiting,
            "queryThreadPoolQueueCapacity": query.line.room,
        },
    )
    groups = GroupProcessor(broker.groups, broker.offsets, broker.clients)
    resets = ResetOffsetProcessor(
        live,
        broker.store,
        broker.topics,
        broker.groups,
        broker.clients,
        broker.offsets,
        lambda topic, queue_id: broker.server.release_parked(topic, queue_id),
    )
    queues = QueueProcessor(
        broker.store,
        broker.topics,
        broker.groups,
        broker.offsets,
        locks,
        NewQueues(live, broker.topics, broker.offsets),
        broker.replicating.is_slave,
    )
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
            broker.address,
            store=broker.store,
            topics=broker.topics,
            groups=broker.groups,
            clients=broker.clients,
            offsets=broker.offsets,
            delays=broker.delays,
            deletion=broker.deletion,
            questions=broker.questions,
            replicating=broker.replicating,
        ),
        RequestCode.SET_MESSAGE_REQUEST_MODE: broker.request_modes.set,
        RequestCode.GET_ALL_MESSAGE_REQUEST_MODE: broker.request_modes.all,
        RequestCode.GET_BROKER_RUNTIME_INFO: runtime,
        RequestCode.VIEW_BROKER_STATS_DATA: StatsProcessor(broker.stats),
        **(slave_refusals() if live.now.is_slave else {}),
    }
