"""What each request code needs: one row for every request that a broker or a name server takes.

A code without a row is refused to all but super users, and fails a test. Rows follow RocketMQ 5.5;
where one asks for more, it says why: RocketMQ lets every user do what has no annotation, and its
name server checks nothing at all.
"""

from __future__ import annotations

from pyrmq.auth.needs import (
    CREATE,
    DELETE,
    GET,
    PUB,
    SUB,
    SUB_GET,
    SUB_UPDATE,
    UPDATE,
    Actions,
    AllClusters,
    Assigned,
    BatchAcks,
    Cluster,
    End,
    Group,
    GroupBody,
    Heartbeat,
    Locks,
    Part,
    Popped,
    Route,
    Row,
    Send,
    Topic,
    TopicList,
)
from pyrmq.model.codes import RequestCode as Code

_OPEN = "RocketMQ asks every user for nothing"
_OPEN_NS = "RocketMQ's name server has no access control"
_RETRY = "RocketMQ does not check whose retry topic it is"
_ANY_MESSAGE = "RocketMQ believes the topic that is stated; the offset says which message it is"


def _row(*parts: Part, stricter: str = "", of_message: Actions = frozenset()) -> Row:
    return Row(parts, stricter, of_message)


_CLUSTER_GET = Cluster(GET)
_CLUSTER_UPDATE = Cluster(UPDATE)
_PULL = _row(Topic(SUB), Group(SUB), stricter=_RETRY)
_POP = _row(Popped())

CLIENTS: dict[int, Row] = {
    Code.SEND_MESSAGE: _row(Send(), stricter=_RETRY),
    Code.SEND_MESSAGE_V2: _row(Send(), stricter=_RETRY),
    Code.SEND_BATCH_MESSAGE: _row(Send(), stricter=_RETRY),
    Code.RECALL_MESSAGE: _row(Topic(PUB)),
    Code.SEND_REPLY_MESSAGE: _row(Send(), stricter=_OPEN),
    Code.SEND_REPLY_MESSAGE_V2: _row(Send(), stricter=_OPEN),
    Code.END_TRANSACTION: _row(End(), stricter=_ANY_MESSAGE, of_message=PUB),
    Code.PULL_MESSAGE: _PULL,
    Code.LITE_PULL_MESSAGE: _row(*_PULL.parts, stricter=_OPEN),
    Code.QUERY_MESSAGE: _row(Topic(SUB_GET)),
    Code.QUERY_CONSUMER_OFFSET: _row(Topic(SUB_GET), Group(SUB_GET), stricter=_RETRY),
    Code.UPDATE_CONSUMER_OFFSET: _row(Topic(SUB_UPDATE), Group(SUB_UPDATE), stricter=_RETRY),
    Code.HEART_BEAT: _row(Heartbeat(), stricter=_RETRY),
    Code.UNREGISTER_CLIENT: _row(Group(SUB, optional=True)),
    Code.CONSUMER_SEND_MSG_BACK: _row(Group(SUB, "group"), stricter=_ANY_MESSAGE, of_message=SUB),
    Code.POP_MESSAGE: _POP,
    Code.ACK_MESSAGE: _POP,
    Code.BATCH_ACK_MESSAGE: _row(BatchAcks(), stricter=_OPEN),
    Code.CHANGE_MESSAGE_INVISIBLETIME: _POP,
    Code.PEEK_MESSAGE: _POP,
    Code.NOTIFICATION: _POP,
    Code.POLLING_INFO: _row(Popped(GET)),
    Code.QUERY_ASSIGNMENT: _row(Assigned(), stricter=_OPEN),
    Code.GET_CONSUMER_LIST_BY_GROUP: _row(Group(SUB_GET)),
    Code.LOCK_BATCH_MQ: _row(Locks(), stricter=_RETRY),
    Code.UNLOCK_BATCH_MQ: _row(Locks(), stricter=_RETRY),
    Code.CHECK_CLIENT_CONFIG: _row(),
    Code.SEARCH_OFFSET_BY_TIMESTAMP: _row(Topic(GET)),
    Code.GET_MAX_OFFSET: _row(Topic(GET)),
    Code.GET_MIN_OFFSET: _row(Topic(GET)),
    Code.GET_EARLIEST_MSG_STORETIME: _row(Topic(GET)),
    Code.VIEW_MESSAGE_BY_ID: _row(Topic(GET, optional=True), stricter=_ANY_MESSAGE, of_message=GET),
}
"""Requests of producers and consumers."""

OPERATORS: dict[int, Row] = {
    Code.UPDATE_AND_CREATE_TOPIC: _row(Topic(CREATE)),
    Code.UPDATE_AND_CREATE_TOPIC_LIST: _row(TopicList(), stricter=_OPEN),
    Code.DELETE_TOPIC_IN_BROKER: _row(Topic(DELETE)),
    Code.GET_TOPIC_CONFIG: _row(Topic(GET)),
    Code.GET_ALL_TOPIC_CONFIG: _row(_CLUSTER_GET, stricter=_OPEN),
    Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: _row(_CLUSTER_GET, stricter=_OPEN),
    Code.CLEAN_UNUSED_TOPIC: _row(_CLUSTER_UPDATE, stricter=_OPEN),
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: _row(GroupBody(CREATE, "groupName"), stricter=_OPEN),
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: _row(
        GroupBody(CREATE, "groupName", "groupConfigList"), stricter=_OPEN
    ),
    Code.DELETE_SUBSCRIPTIONGROUP: _row(Group(DELETE, "groupName")),
    Code.GET_SUBSCRIPTIONGROUP_CONFIG: _row(Group(GET, "group")),
    Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: _row(_CLUSTER_GET, stricter=_OPEN),
    Code.SET_MESSAGE_REQUEST_MODE: _row(GroupBody(UPDATE, "consumerGroup"), stricter=_OPEN),
    Code.GET_ALL_MESSAGE_REQUEST_MODE: _row(_CLUSTER_GET, stricter=_OPEN),
    Code.UPDATE_BROKER_CONFIG: _row(_CLUSTER_UPDATE, stricter=_OPEN),
    Code.GET_BROKER_CONFIG: _row(_CLUSTER_GET, stricter=_OPEN),
    Code.GET_BROKER_RUNTIME_INFO: _row(_CLUSTER_GET, stricter=_OPEN),
    Code.VIEW_BROKER_STATS_DATA: _row(_CLUSTER_GET),
    Code.GET_BROKER_USE: _row(_CLUSTER_GET),
    Code.GET_BROKER_HISTORY: _row(_CLUSTER_GET),
    Code.GET_DISK_USE: _row(_CLUSTER_GET),
    Code.GET_BROKER_HA_STATUS: _row(_CLUSTER_GET, stricter=_OPEN),
    Code.GET_BROKER_EPOCH_CACHE: _row(_CLUSTER_GET, stricter=_OPEN),
    Code.GET_ALL_CONSUMER_OFFSET: _row(_CLUSTER_GET, stricter=_OPEN),
    Code.GET_ALL_DELAY_OFFSET: _row(_CLUSTER_GET, stricter=_OPEN),
    Code.GET_TIMER_CHECK_POINT: _row(_CLUSTER_GET, stricter=_OPEN),
    Code.GET_TIMER_METRICS: _row(_CLUSTER_GET, stricter=_OPEN),
    Code.DELETE_EXPIRED_COMMITLOG: _row(_CLUSTER_UPDATE, stricter=_OPEN),
    Code.CLEAN_EXPIRED_CONSUMEQUEUE: _row(_CLUSTER_UPDATE, stricter=_OPEN),
    Code.GET_TOPIC_STATS_INFO: _row(Topic(GET)),
    Code.GET_CONSUME_STATS: _row(
        Group(GET),
        Topic(GET, optional=True, split=";"),
        Topic(GET, "topicList", optional=True, split=";"),
    ),
    Code.GET_BROKER_CONSUME_STATS: _row(_CLUSTER_GET),
    Code.GET_CONSUMER_CONNECTION_LIST: _row(Group(GET)),
    Code.GET_PRODUCER_CONNECTION_LIST: _row(_CLUSTER_GET),
    Code.GET_ALL_PRODUCER_INFO: _row(_CLUSTER_GET),
    Code.GET_CONSUMER_RUNNING_INFO: _row(Group(GET)),
    Code.CONSUME_MESSAGE_DIRECTLY: _row(
        Group(SUB), Topic(SUB, optional=True), stricter=_ANY_MESSAGE, of_message=SUB
    ),
    Code.INVOKE_BROKER_TO_RESET_OFFSET: _row(Group(UPDATE, "group"), Topic(UPDATE)),
    Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: _row(Group(GET, "group"), Topic(GET)),
    Code.CLONE_GROUP_OFFSET: _row(Group(UPDATE, "destGroup"), Topic(UPDATE, optional=True)),
    Code.QUERY_TOPIC_CONSUME_BY_WHO: _row(Topic(GET)),
    Code.QUERY_TOPICS_BY_CONSUMER: _row(Group(GET, "group")),
    Code.QUERY_SUBSCRIPTION_BY_CONSUMER: _row(Group(GET, "group"), Topic(GET, optional=True)),
    Code.QUERY_CONSUME_TIME_SPAN: _row(Group(GET, "group"), Topic(GET)),
    Code.QUERY_CORRECTION_OFFSET: _row(
        Topic(GET),
        Group(GET, "compareGroup"),
        Group(GET, "filterGroups", optional=True, split=","),
    ),
    Code.QUERY_CONSUME_QUEUE: _row(Topic(GET), Group(GET, optional=True)),
    Code.RESUME_CHECK_HALF_MESSAGE: _row(
        Topic(UPDATE, optional=True), stricter=_ANY_MESSAGE, of_message=UPDATE
    ),
}
"""Requests of tools, operators and slaves to a broker."""

ACCESS: dict[int, Row] = {
    Code.AUTH_CREATE_USER: _row(_CLUSTER_UPDATE),
    Code.AUTH_UPDATE_USER: _row(_CLUSTER_UPDATE),
    Code.AUTH_DELETE_USER: _row(_CLUSTER_UPDATE),
    Code.AUTH_GET_USER: _row(_CLUSTER_GET),
    Code.AUTH_LIST_USER: _row(_CLUSTER_GET),
    Code.AUTH_CREATE_ACL: _row(_CLUSTER_UPDATE),
    Code.AUTH_UPDATE_ACL: _row(_CLUSTER_UPDATE),
    Code.AUTH_DELETE_ACL: _row(_CLUSTER_UPDATE),
    Code.AUTH_GET_ACL: _row(_CLUSTER_GET),
    Code.AUTH_LIST_ACL: _row(_CLUSTER_GET),
    Code.UPDATE_AND_CREATE_ACL_CONFIG: _row(_CLUSTER_UPDATE),
    Code.DELETE_ACL_CONFIG: _row(_CLUSTER_UPDATE),
    Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: _row(_CLUSTER_UPDATE),
    Code.GET_BROKER_CLUSTER_ACL_INFO: _row(_CLUSTER_GET),
    Code.GET_BROKER_CLUSTER_ACL_CONFIG: _row(_CLUSTER_GET),
}
"""Requests about users, access lists and accounts. At a name server its own cluster is `*`."""

_ALL_GET = AllClusters(GET)
_ALL_UPDATE = AllClusters(UPDATE)
_REGISTERS = _row(Cluster(UPDATE, "clusterName"), stricter=_OPEN_NS)
_LISTS = _row(_ALL_GET, stricter=_OPEN_NS)
_CHANGES = _row(_ALL_UPDATE, stricter=_OPEN_NS)

NAMES: dict[int, Row] = {
    Code.REGISTER_BROKER: _REGISTERS,
    Code.UNREGISTER_BROKER: _REGISTERS,
    Code.BROKER_HEARTBEAT: _REGISTERS,
    Code.QUERY_DATA_VERSION: _row(Cluster(GET, "clusterName"), stricter=_OPEN_NS),
    Code.GET_BROKER_MEMBER_GROUP: _row(Cluster(GET, "clusterName"), stricter=_OPEN_NS),
    Code.REGISTER_TOPIC_IN_NAMESRV: _CHANGES,
    Code.GET_ROUTEINFO_BY_TOPIC: _row(Route(), stricter=_OPEN_NS),
    Code.GET_BROKER_CLUSTER_INFO: _LISTS,
    Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: _LISTS,
    Code.GET_TOPICS_BY_CLUSTER: _row(Cluster(GET, "cluster"), stricter=_OPEN_NS),
    Code.GET_SYSTEM_TOPIC_LIST_FROM_NS: _LISTS,
    Code.GET_UNIT_TOPIC_LIST: _LISTS,
    Code.GET_HAS_UNIT_SUB_TOPIC_LIST: _LISTS,
    Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: _LISTS,
    Code.DELETE_TOPIC_IN_NAMESRV: _CHANGES,
    Code.WIPE_WRITE_PERM_OF_BROKER: _CHANGES,
    Code.ADD_WRITE_PERM_OF_BROKER: _CHANGES,
    Code.PUT_KV_CONFIG: _CHANGES,
    Code.DELETE_KV_CONFIG: _CHANGES,
    Code.GET_KV_CONFIG: _LISTS,
    Code.GET_KVLIST_BY_NAMESPACE: _LISTS,
    Code.UPDATE_NAMESRV_CONFIG: _CHANGES,
    Code.GET_NAMESRV_CONFIG: _LISTS,
}
"""Requests to a name server."""

NEEDS: dict[int, Row] = CLIENTS | OPERATORS | ACCESS | NAMES
"""By request code."""
