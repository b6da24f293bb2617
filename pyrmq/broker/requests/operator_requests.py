"""Requests that only operators make, and tools: which processor takes which."""

from __future__ import annotations

from pyrmq.broker.delay import DelayService
from pyrmq.broker.replication.replicating import Replicating
from pyrmq.broker.replication.status import HaStatus
from pyrmq.broker.requests.admin_tables import AdminTables
from pyrmq.broker.requests.ask_clients import ClientQuestions
from pyrmq.broker.requests.consume_queries import ConsumeQueryProcessor
from pyrmq.broker.requests.refused_requests import refused_requests
from pyrmq.broker.tables.clients import ClientTable
from pyrmq.broker.tables.groups import GroupTable
from pyrmq.broker.tables.offsets import OffsetTable
from pyrmq.broker.tables.topic_delete import TopicDeletion
from pyrmq.broker.tables.topics import TopicTable
from pyrmq.engine import Store
from pyrmq.model.codes import RequestCode
from pyrmq.net.address import Address
from pyrmq.net.server.answers import Processor
from pyrmq.net.server.questions import Questions


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
