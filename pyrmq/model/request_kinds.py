"""Request codes by kind: which have a body, which we do not have, which administrate.

A server forgets the body of any request that needs none, so that nobody makes it keep 16 MiB with
a pull that waits. What a processor takes may be less: then it says so itself. Requests that
administrate change topics, groups, offsets of groups, transactions or configuration, clean up, or
have others do something. All of RocketMQ's are here under their published names, also those that
no server of this version takes.
"""

from __future__ import annotations

from pyrmq.model.codes import RequestCode as Code

MAX_FRAME = 16 << 20
"""Bytes of the longest frame. [NettyDecoder]"""
_SETTINGS = 1 << 20
"""One or several configurations."""

BODIES: dict[int, int] = {
    # messages: maxMessageSize is below
    Code.SEND_MESSAGE: MAX_FRAME,
    Code.SEND_MESSAGE_V2: MAX_FRAME,
    Code.SEND_BATCH_MESSAGE: MAX_FRAME,
    Code.SEND_REPLY_MESSAGE: MAX_FRAME,
    Code.SEND_REPLY_MESSAGE_V2: MAX_FRAME,
    # of clients
    Code.HEART_BEAT: 4 << 20,
    Code.CHECK_CLIENT_CONFIG: 256 << 10,
    Code.LOCK_BATCH_MQ: 8 << 20,
    Code.UNLOCK_BATCH_MQ: 8 << 20,
    Code.BATCH_ACK_MESSAGE: _SETTINGS,
    Code.QUERY_ASSIGNMENT: 64 << 10,
    # of operators
    Code.UPDATE_AND_CREATE_TOPIC_LIST: 2 * _SETTINGS,
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: _SETTINGS,
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: 2 * _SETTINGS,
    Code.UPDATE_BROKER_CONFIG: _SETTINGS,
    Code.SET_MESSAGE_REQUEST_MODE: _SETTINGS,
    Code.AUTH_CREATE_USER: _SETTINGS,
    Code.AUTH_UPDATE_USER: _SETTINGS,
    Code.AUTH_CREATE_ACL: _SETTINGS,
    Code.AUTH_UPDATE_ACL: _SETTINGS,
    Code.UPDATE_NAMESRV_CONFIG: _SETTINGS,
    # of brokers: some 16 MiB state 76,000 topics
    Code.REGISTER_BROKER: MAX_FRAME,
    Code.QUERY_DATA_VERSION: _SETTINGS,
    Code.REGISTER_TOPIC_IN_NAMESRV: _SETTINGS,
}
"""By request code: bytes of the longest body."""


def most_body(code: int) -> int:
    """Bytes of the longest body that such a request may have; 0: it has none."""
    return BODIES.get(code, 0)


_STATIC = (
    "static topics are not supported: make an ordinary topic (UPDATE_AND_CREATE_TOPIC), whose "
    "queues are numbered by broker"
)
_CONTROLLER = "there is no controller, a broker's role is in its configuration (brokerRole)"
_NO_USERS = (
    "this server keeps no users and access lists: "
    "authenticationMetadataProvider=LocalAuthenticationMetadataProvider makes it do so"
)
_COLD = (
    "cold data flow control is not supported: this broker does not count what groups read from the "
    "disk, and holds none of them back"
)
_ROCKSDB = "there is no RocksDB: tables are JSON files, queues are files of RocketMQ's format"
_POP_RECORDS = (
    "POP keeps its state in the log: there are no records in RocksDB to be written back there"
)
_TIMER_ENGINE = (
    "timers have one engine here, the time wheel in files (F): there is no RocksDB to switch to"
)
_CONTAINER = "this is no broker container: start another broker instead"
_HA = "the default HA protocol has no such request"
_FLUSHED = (
    "a slave takes from its master how far the master is, and a master has none: there is no "
    "offset to set"
)
_READ_AHEAD = (
    "the broker asks the system for just the pages of the log that a read needs: there is no mode "
    "to set"
)

ABSENT_REQUESTS: dict[int, str] = {
    **dict.fromkeys((2001, 2002, 2003), _COLD),
    2004: _READ_AHEAD,
    **dict.fromkeys((354, 355), _ROCKSDB),
    Code.POP_ROLLBACK: _POP_RECORDS,
    5001: _TIMER_ENGINE,
    **dict.fromkeys((513,), _STATIC),
    **dict.fromkeys((902, 903), _CONTAINER),
    906: _HA,
    908: _FLUSHED,
    **dict.fromkeys(range(1001, 1014), _CONTROLLER),
}
"""By request code."""
ACCESS_REQUESTS = range(3001, 3011)
"""AUTH_CREATE_USER to AUTH_LIST_ACL, which a server takes that keeps users."""


def refusal(code: int) -> str:
    """The text for a request that is not taken."""
    why = _NO_USERS if code in ACCESS_REQUESTS else ABSENT_REQUESTS.get(code)
    text = f"request type {code} not supported"
    return f"{text}: {why}" if why else text


ADMIN_REQUESTS: dict[int, str] = {
    17: "UPDATE_AND_CREATE_TOPIC",
    18: "UPDATE_AND_CREATE_TOPIC_LIST",
    25: "UPDATE_BROKER_CONFIG",
    27: "TRIGGER_DELETE_FILES",
    50: "UPDATE_AND_CREATE_ACL_CONFIG",
    51: "DELETE_ACL_CONFIG",
    53: "UPDATE_GLOBAL_WHITE_ADDRS_CONFIG",
    100: "PUT_KV_CONFIG",
    102: "DELETE_KV_CONFIG",
    200: "UPDATE_AND_CREATE_SUBSCRIPTIONGROUP",
    205: "WIPE_WRITE_PERM_OF_BROKER",
    207: "DELETE_SUBSCRIPTIONGROUP",
    209: "SUSPEND_CONSUMER",
    210: "RESUME_CONSUMER",
    211: "RESET_CONSUMER_OFFSET_IN_CONSUMER",
    212: "RESET_CONSUMER_OFFSET_IN_BROKER",
    213: "ADJUST_CONSUMER_THREAD_POOL",
    215: "DELETE_TOPIC_IN_BROKER",
    216: "DELETE_TOPIC_IN_NAMESRV",
    222: "INVOKE_BROKER_TO_RESET_OFFSET",
    225: "UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST",
    301: "REGISTER_FILTER_SERVER",
    302: "REGISTER_MESSAGE_FILTER_CLASS",
    306: "CLEAN_EXPIRED_CONSUMEQUEUE",
    309: "CONSUME_MESSAGE_DIRECTLY",
    314: "CLONE_GROUP_OFFSET",
    316: "CLEAN_UNUSED_TOPIC",
    318: "UPDATE_NAMESRV_CONFIG",
    323: "RESUME_CHECK_HALF_MESSAGE",
    327: "ADD_WRITE_PERM_OF_BROKER",
    329: "DELETE_EXPIRED_COMMITLOG",
    353: "UPDATE_AND_GET_GROUP_FORBIDDEN",
    355: "EXPORT_ROCKSDB_CONFIG_TO_JSON",
    401: "SET_MESSAGE_REQUEST_MODE",
    513: "UPDATE_AND_CREATE_STATIC_TOPIC",
    902: "ADD_BROKER",
    903: "REMOVE_BROKER",
    908: "RESET_MASTER_FLUSH_OFFSET",
    1002: "CONTROLLER_ELECT_MASTER",
    1009: "UPDATE_CONTROLLER_CONFIG",
    1011: "CLEAN_BROKER_DATA",
    2001: "UPDATE_COLD_DATA_FLOW_CTR_CONFIG",
    2002: "REMOVE_COLD_DATA_FLOW_CTR_CONFIG",
    2004: "SET_COMMITLOG_READ_MODE",
    3001: "AUTH_CREATE_USER",
    3002: "AUTH_UPDATE_USER",
    3003: "AUTH_DELETE_USER",
    3006: "AUTH_CREATE_ACL",
    3007: "AUTH_UPDATE_ACL",
    3008: "AUTH_DELETE_ACL",
    5001: "SWITCH_TIMER_ENGINE",
    200056: "POP_ROLLBACK",
}
"""By code."""
