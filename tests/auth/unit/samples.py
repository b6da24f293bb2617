"""One request of every kind that brokers and name servers take, and what it needs: written out, so
that a change of a row is seen. `C` is the server's own cluster."""

from __future__ import annotations

import json
from typing import Any

from pyrmq.model.codes import RequestCode as Code

Sample = tuple[dict[str, str], bytes, set[str]]


def _body(value: Any) -> bytes:
    return json.dumps(value).encode()


T_G = {"topic": "T", "consumerGroup": "G"}
T_GROUP = {"topic": "T", "group": "G"}
QUEUES = _body({"consumerGroup": "G", "clientId": "c", "mqSet": [{"topic": "T"}]})
POP_RETRY = {"topic": "%RETRY%G_T", "consumerGroup": "G"}
ACKS = _body({"acks": [{"c": "G", "t": "T"}, {"consumerGroup": "G", "topic": "%RETRY%G+T"}]})
HEARTBEAT = _body(
    {
        "clientID": "c",
        "producerDataSet": [{"groupName": "P"}],
        "consumerDataSet": [{"groupName": "G", "subscriptionDataSet": [{"topic": "T"}]}],
    }
)
GET_C, UPDATE_C = {"Get on Cluster:C"}, {"Update on Cluster:C"}
GET_ALL, UPDATE_ALL = {"Get on Cluster:*"}, {"Update on Cluster:*"}
UPDATE_D = {"Update on Cluster:D"}
D = {"clusterName": "D", "brokerName": "b"}
GET_T = {"Get on Topic:T"}

SAMPLES: dict[int, Sample] = {
    Code.SEND_MESSAGE: ({"topic": "T"}, b"x", {"Pub on Topic:T"}),
    Code.SEND_MESSAGE_V2: ({"b": "T"}, b"x", {"Pub on Topic:T"}),
    Code.SEND_BATCH_MESSAGE: ({"b": "T"}, b"x", {"Pub on Topic:T"}),
    Code.RECALL_MESSAGE: ({"topic": "T", "recallHandle": "x"}, b"", {"Pub on Topic:T"}),
    Code.SEND_REPLY_MESSAGE: ({"topic": "T"}, b"x", {"Pub on Topic:T"}),
    Code.SEND_REPLY_MESSAGE_V2: ({"b": "T"}, b"x", {"Pub on Topic:T"}),
    Code.END_TRANSACTION: ({"topic": "T"}, b"", {"Pub on Topic:T"}),
    Code.PULL_MESSAGE: (T_G, b"", {"Sub on Topic:T", "Sub on Group:G"}),
    Code.LITE_PULL_MESSAGE: (T_G, b"", {"Sub on Topic:T", "Sub on Group:G"}),
    Code.QUERY_MESSAGE: ({"topic": "T"}, b"", {"Sub/Get on Topic:T"}),
    Code.QUERY_CONSUMER_OFFSET: (T_G, b"", {"Sub/Get on Topic:T", "Sub/Get on Group:G"}),
    Code.UPDATE_CONSUMER_OFFSET: (T_G, b"", {"Sub/Update on Topic:T", "Sub/Update on Group:G"}),
    Code.HEART_BEAT: ({}, HEARTBEAT, {"Sub on Topic:T", "Sub on Group:G"}),
    Code.UNREGISTER_CLIENT: ({"consumerGroup": "G"}, b"", {"Sub on Group:G"}),
    Code.CONSUMER_SEND_MSG_BACK: ({"group": "G"}, b"", {"Sub on Group:G"}),
    Code.POP_MESSAGE: (T_G, b"", {"Sub on Topic:T", "Sub on Group:G"}),
    Code.ACK_MESSAGE: (POP_RETRY, b"", {"Sub on Topic:T", "Sub on Group:G"}),
    Code.BATCH_ACK_MESSAGE: ({}, ACKS, {"Sub on Topic:T", "Sub on Group:G"}),
    Code.CHANGE_MESSAGE_INVISIBLETIME: (T_G, b"", {"Sub on Topic:T", "Sub on Group:G"}),
    Code.PEEK_MESSAGE: (T_G, b"", {"Sub on Topic:T", "Sub on Group:G"}),
    Code.NOTIFICATION: (T_G, b"", {"Sub on Topic:T", "Sub on Group:G"}),
    Code.POLLING_INFO: (T_G, b"", {"Get on Group:G"} | GET_T),
    Code.QUERY_ASSIGNMENT: (
        {}, _body({"topic": "T", "consumerGroup": "G"}), {"Sub on Topic:T", "Sub on Group:G"},
    ),
    Code.GET_CONSUMER_LIST_BY_GROUP: ({"consumerGroup": "G"}, b"", {"Sub/Get on Group:G"}),
    Code.LOCK_BATCH_MQ: ({}, QUEUES, {"Sub on Topic:T", "Sub on Group:G"}),
    Code.UNLOCK_BATCH_MQ: ({}, QUEUES, {"Sub on Topic:T", "Sub on Group:G"}),
    Code.CHECK_CLIENT_CONFIG: ({}, b"{}", set()),
    Code.SEARCH_OFFSET_BY_TIMESTAMP: ({"topic": "T"}, b"", GET_T),
    Code.GET_MAX_OFFSET: ({"topic": "T"}, b"", GET_T),
    Code.GET_MIN_OFFSET: ({"topic": "T"}, b"", GET_T),
    Code.GET_EARLIEST_MSG_STORETIME: ({"topic": "T"}, b"", GET_T),
    Code.VIEW_MESSAGE_BY_ID: ({"topic": "T", "offset": "0"}, b"", GET_T),
    Code.UPDATE_AND_CREATE_TOPIC: ({"topic": "T"}, b"", {"Create on Topic:T"}),
    Code.UPDATE_AND_CREATE_TOPIC_LIST: (
        {}, _body({"topicConfigList": [{"topicName": "T"}]}), {"Create on Topic:T"},
    ),
    Code.DELETE_TOPIC_IN_BROKER: ({"topic": "T"}, b"", {"Delete on Topic:T"}),
    Code.GET_TOPIC_CONFIG: ({"topic": "T"}, b"", GET_T),
    Code.GET_ALL_TOPIC_CONFIG: ({}, b"", GET_C),
    Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: ({}, b"", GET_C),
    Code.CLEAN_UNUSED_TOPIC: ({}, b"", UPDATE_C),
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: (
        {}, _body({"groupName": "G"}), {"Create on Group:G"},
    ),
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: (
        {}, _body({"groupConfigList": [{"groupName": "G"}]}), {"Create on Group:G"},
    ),
    Code.DELETE_SUBSCRIPTIONGROUP: ({"groupName": "G"}, b"", {"Delete on Group:G"}),
    Code.GET_SUBSCRIPTIONGROUP_CONFIG: ({"group": "G"}, b"", {"Get on Group:G"}),
    Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: ({}, b"", GET_C),
    Code.SET_MESSAGE_REQUEST_MODE: (
        {}, _body({"topic": "T", "consumerGroup": "G"}), {"Update on Group:G"},
    ),
    Code.GET_ALL_MESSAGE_REQUEST_MODE: ({}, b"", GET_C),
    Code.UPDATE_BROKER_CONFIG: ({}, b"a=b", UPDATE_C),
    Code.GET_BROKER_CONFIG: ({}, b"", GET_C),
    Code.GET_BROKER_RUNTIME_INFO: ({}, b"", GET_C),
    Code.VIEW_BROKER_STATS_DATA: ({"statsName": "s", "statsKey": "T"}, b"", GET_C),
    Code.GET_BROKER_USE: ({"kind": "client"}, b"", GET_C),
    Code.GET_BROKER_HISTORY: ({}, b"", GET_C),
    Code.GET_DISK_USE: ({"topic": "T"}, b"", GET_C),
    Code.GET_BROKER_HA_STATUS: ({}, b"", GET_C),
    Code.GET_BROKER_EPOCH_CACHE: ({}, b"", GET_C),
    Code.GET_ALL_CONSUMER_OFFSET: ({}, b"", GET_C),
    Code.GET_ALL_DELAY_OFFSET: ({}, b"", GET_C),
    Code.GET_TIMER_CHECK_POINT: ({}, b"", GET_C),
    Code.GET_TIMER_METRICS: ({}, b"", GET_C),
    Code.DELETE_EXPIRED_COMMITLOG: ({}, b"", UPDATE_C),
    Code.CLEAN_EXPIRED_CONSUMEQUEUE: ({}, b"", UPDATE_C),
    Code.GET_TOPIC_STATS_INFO: ({"topic": "T"}, b"", GET_T),
    Code.GET_CONSUME_STATS: (T_G, b"", {"Get on Topic:T", "Get on Group:G"}),
    Code.GET_BROKER_CONSUME_STATS: ({"isOrder": "false"}, b"", GET_C),
    Code.GET_CONSUMER_CONNECTION_LIST: ({"consumerGroup": "G"}, b"", {"Get on Group:G"}),
    Code.GET_PRODUCER_CONNECTION_LIST: ({"producerGroup": "G"}, b"", GET_C),
    Code.GET_ALL_PRODUCER_INFO: ({}, b"", GET_C),
    Code.GET_CONSUMER_RUNNING_INFO: ({"consumerGroup": "G"}, b"", {"Get on Group:G"}),
    Code.CONSUME_MESSAGE_DIRECTLY: (T_G, b"", {"Sub on Topic:T", "Sub on Group:G"}),
    Code.INVOKE_BROKER_TO_RESET_OFFSET: (
        T_GROUP, b"", {"Update on Topic:T", "Update on Group:G"},
    ),
    Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: (T_GROUP, b"", {"Get on Group:G"} | GET_T),
    Code.CLONE_GROUP_OFFSET: (
        {"srcGroup": "S", "destGroup": "G", "topic": "T"}, b"",
        {"Update on Group:G", "Update on Topic:T"},
    ),
    Code.QUERY_TOPIC_CONSUME_BY_WHO: ({"topic": "T"}, b"", GET_T),
    Code.QUERY_TOPICS_BY_CONSUMER: ({"group": "G"}, b"", {"Get on Group:G"}),
    Code.QUERY_SUBSCRIPTION_BY_CONSUMER: (T_GROUP, b"", {"Get on Group:G"} | GET_T),
    Code.QUERY_CONSUME_TIME_SPAN: (T_GROUP, b"", {"Get on Group:G"} | GET_T),
    Code.QUERY_CORRECTION_OFFSET: (
        {"topic": "T", "compareGroup": "G", "filterGroups": "H"}, b"",
        {"Get on Group:G", "Get on Group:H"} | GET_T,
    ),
    Code.QUERY_CONSUME_QUEUE: (T_G, b"", {"Get on Group:G"} | GET_T),
    Code.RESUME_CHECK_HALF_MESSAGE: ({"topic": "T"}, b"", {"Update on Topic:T"}),
    Code.AUTH_CREATE_USER: ({"username": "u"}, b"{}", UPDATE_C),
    Code.AUTH_UPDATE_USER: ({"username": "u"}, b"{}", UPDATE_C),
    Code.AUTH_DELETE_USER: ({"username": "u"}, b"", UPDATE_C),
    Code.AUTH_GET_USER: ({"username": "u"}, b"", GET_C),
    Code.AUTH_LIST_USER: ({}, b"", GET_C),
    Code.AUTH_CREATE_ACL: ({"subject": "User:u"}, b"{}", UPDATE_C),
    Code.AUTH_UPDATE_ACL: ({"subject": "User:u"}, b"{}", UPDATE_C),
    Code.AUTH_DELETE_ACL: ({"subject": "User:u"}, b"", UPDATE_C),
    Code.AUTH_GET_ACL: ({"subject": "User:u"}, b"", GET_C),
    Code.AUTH_LIST_ACL: ({}, b"", GET_C),
    Code.UPDATE_AND_CREATE_ACL_CONFIG: ({"accessKey": "u"}, b"", UPDATE_C),
    Code.DELETE_ACL_CONFIG: ({"accessKey": "u"}, b"", UPDATE_C),
    Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: ({"globalWhiteAddrs": "10.0.0.1"}, b"", UPDATE_C),
    Code.GET_BROKER_CLUSTER_ACL_INFO: ({}, b"", GET_C),
    Code.GET_BROKER_CLUSTER_ACL_CONFIG: ({}, b"", GET_C),
    Code.REGISTER_BROKER: (D, b"", UPDATE_D),
    Code.UNREGISTER_BROKER: (D, b"", UPDATE_D),
    Code.BROKER_HEARTBEAT: (D, b"", UPDATE_D),
    Code.QUERY_DATA_VERSION: (D, b"", {"Get on Cluster:D"}),
    Code.GET_BROKER_MEMBER_GROUP: (D, b"", {"Get on Cluster:D"}),
    Code.REGISTER_TOPIC_IN_NAMESRV: ({"topic": "T"}, b"", UPDATE_ALL),
    Code.GET_ROUTEINFO_BY_TOPIC: ({"topic": "T"}, b"", {"Pub/Sub/Get on Topic:T"}),
    Code.GET_BROKER_CLUSTER_INFO: ({}, b"", GET_ALL),
    Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: ({}, b"", GET_ALL),
    Code.GET_TOPICS_BY_CLUSTER: ({"cluster": "D"}, b"", {"Get on Cluster:D"}),
    Code.GET_SYSTEM_TOPIC_LIST_FROM_NS: ({}, b"", GET_ALL),
    Code.GET_UNIT_TOPIC_LIST: ({}, b"", GET_ALL),
    Code.GET_HAS_UNIT_SUB_TOPIC_LIST: ({}, b"", GET_ALL),
    Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: ({}, b"", GET_ALL),
    Code.DELETE_TOPIC_IN_NAMESRV: ({"topic": "T"}, b"", UPDATE_ALL),
    Code.WIPE_WRITE_PERM_OF_BROKER: ({"brokerName": "b"}, b"", UPDATE_ALL),
    Code.ADD_WRITE_PERM_OF_BROKER: ({"brokerName": "b"}, b"", UPDATE_ALL),
    Code.PUT_KV_CONFIG: ({"namespace": "n", "key": "k", "value": "v"}, b"", UPDATE_ALL),
    Code.DELETE_KV_CONFIG: ({"namespace": "n", "key": "k"}, b"", UPDATE_ALL),
    Code.GET_KV_CONFIG: ({"namespace": "n", "key": "k"}, b"", GET_ALL),
    Code.GET_KVLIST_BY_NAMESPACE: ({"namespace": "n"}, b"", GET_ALL),
    Code.UPDATE_NAMESRV_CONFIG: ({}, b"a=b", UPDATE_ALL),
    Code.GET_NAMESRV_CONFIG: ({}, b"", GET_ALL),
}  # fmt: skip
"""By request code: fields, body, needs."""
