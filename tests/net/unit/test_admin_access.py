"""adminAddressAllowList: which addresses, and which requests."""

from __future__ import annotations

import pytest

from pyrmq.broker.config.broker_config import BrokerConfig
from pyrmq.errors import ConfigError
from pyrmq.model.codes import RequestCode as Code
from pyrmq.model.request_kinds import ADMIN_REQUESTS
from pyrmq.namesrv.config import NamesrvConfig
from pyrmq.net.address import format_address
from pyrmq.net.server.admin_access import MAX_NETWORKS, AdminAccess, parse_networks

OF_CLIENTS_AND_BROKERS = {
    Code.SEND_MESSAGE, Code.PULL_MESSAGE, Code.QUERY_MESSAGE, Code.QUERY_CONSUMER_OFFSET,
    Code.UPDATE_CONSUMER_OFFSET, Code.SEARCH_OFFSET_BY_TIMESTAMP, Code.GET_MAX_OFFSET,
    Code.GET_MIN_OFFSET, Code.GET_EARLIEST_MSG_STORETIME, Code.VIEW_MESSAGE_BY_ID, Code.HEART_BEAT,
    Code.UNREGISTER_CLIENT, Code.CONSUMER_SEND_MSG_BACK, Code.END_TRANSACTION,
    Code.GET_CONSUMER_LIST_BY_GROUP, Code.CHECK_TRANSACTION_STATE, Code.NOTIFY_CONSUMER_IDS_CHANGED,
    Code.NOTIFY_BROKER_LEAVES,
    Code.LOCK_BATCH_MQ, Code.UNLOCK_BATCH_MQ, Code.CHECK_CLIENT_CONFIG, Code.REGISTER_BROKER,
    Code.UNREGISTER_BROKER, Code.GET_ROUTEINFO_BY_TOPIC, Code.GET_BROKER_CLUSTER_INFO,
    Code.REGISTER_TOPIC_IN_NAMESRV, Code.RESET_CONSUMER_CLIENT_OFFSET,
    Code.GET_CONSUMER_STATUS_FROM_CLIENT, Code.GET_CONSUMER_RUNNING_INFO, Code.SEND_MESSAGE_V2,
    Code.SEND_BATCH_MESSAGE, Code.QUERY_DATA_VERSION, Code.SEND_REPLY_MESSAGE,
    Code.SEND_REPLY_MESSAGE_V2, Code.PUSH_REPLY_MESSAGE_TO_CLIENT, Code.LITE_PULL_MESSAGE,
    Code.GET_BROKER_MEMBER_GROUP, Code.BROKER_HEARTBEAT, Code.NOTIFY_MIN_BROKER_ID_CHANGE,
    Code.RECALL_MESSAGE, Code.QUERY_ASSIGNMENT, Code.POP_MESSAGE, Code.ACK_MESSAGE,
    Code.BATCH_ACK_MESSAGE, Code.CHANGE_MESSAGE_INVISIBLETIME, Code.PEEK_MESSAGE, Code.NOTIFICATION,
    Code.POLLING_INFO,
}  # fmt: skip
"""Requests that do the work of producers, consumers and brokers."""
LOOKS = {
    Code.GET_ALL_TOPIC_CONFIG, Code.GET_BROKER_CONFIG, Code.GET_BROKER_RUNTIME_INFO,
    Code.GET_ALL_CONSUMER_OFFSET, Code.GET_ALL_DELAY_OFFSET, Code.GET_KV_CONFIG,
    Code.GET_TIMER_CHECK_POINT, Code.GET_TIMER_METRICS,
    Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, Code.GET_TOPIC_STATS_INFO,
    Code.GET_CONSUMER_CONNECTION_LIST, Code.GET_PRODUCER_CONNECTION_LIST,
    Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, Code.GET_CONSUME_STATS, Code.GET_KVLIST_BY_NAMESPACE,
    Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, Code.GET_TOPICS_BY_CLUSTER,
    Code.QUERY_TOPIC_CONSUME_BY_WHO, Code.QUERY_CONSUME_TIME_SPAN,
    Code.GET_SYSTEM_TOPIC_LIST_FROM_NS, Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER,
    Code.QUERY_CORRECTION_OFFSET, Code.GET_UNIT_TOPIC_LIST, Code.GET_HAS_UNIT_SUB_TOPIC_LIST,
    Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, Code.VIEW_BROKER_STATS_DATA,
    Code.GET_BROKER_CONSUME_STATS, Code.GET_NAMESRV_CONFIG, Code.QUERY_CONSUME_QUEUE,
    Code.GET_ALL_PRODUCER_INFO, Code.QUERY_TOPICS_BY_CONSUMER, Code.QUERY_SUBSCRIPTION_BY_CONSUMER,
    Code.GET_TOPIC_CONFIG, Code.GET_SUBSCRIPTIONGROUP_CONFIG, Code.CHECK_ROCKSDB_CQ_WRITE_PROGRESS,
    Code.GET_ALL_MESSAGE_REQUEST_MODE, Code.GET_BROKER_HA_STATUS, Code.CONTROLLER_GET_METADATA_INFO,
    Code.CONTROLLER_GET_SYNC_STATE_DATA, Code.GET_BROKER_EPOCH_CACHE, Code.GET_CONTROLLER_CONFIG,
    Code.GET_COLD_DATA_FLOW_CTR_INFO, Code.AUTH_GET_USER, Code.AUTH_LIST_USER, Code.AUTH_GET_ACL,
    Code.GET_BROKER_CLUSTER_ACL_INFO, Code.GET_BROKER_CLUSTER_ACL_CONFIG,
    Code.AUTH_LIST_ACL,
}  # fmt: skip
"""Requests that show something and change nothing."""


def test_every_request_is_of_one_kind() -> None:
    """A new code comes with a decision: who may ask for it."""
    kinds = [set(ADMIN_REQUESTS), OF_CLIENTS_AND_BROKERS, LOOKS]
    for code in Code:
        assert sum(code in kind for kind in kinds) == 1, (
            f"{code.name} belongs into one of these: ADMIN_REQUESTS of pyrmq.model.request_kinds, "
            "OF_CLIENTS_AND_BROKERS and LOOKS of this file"
        )
        assert ADMIN_REQUESTS.get(code, code.name) == code.name


def test_the_codes_that_were_asked_for_are_there() -> None:
    for name in (
        "UPDATE_AND_CREATE_TOPIC", "UPDATE_AND_CREATE_SUBSCRIPTIONGROUP", "CLONE_GROUP_OFFSET",
        "INVOKE_BROKER_TO_RESET_OFFSET", "UPDATE_BROKER_CONFIG", "RESUME_CHECK_HALF_MESSAGE",
        "DELETE_EXPIRED_COMMITLOG", "CLEAN_EXPIRED_CONSUMEQUEUE",
    ):  # fmt: skip
        assert ADMIN_REQUESTS[Code[name]] == name


@pytest.mark.parametrize(
    ("allowed", "host", "taken"),
    [
        ("", "203.0.113.9", True),
        ("  ", "203.0.113.9", True),
        ("10.0.0.5", "10.0.0.5", True),
        ("10.0.0.5", "10.0.0.6", False),
        ("10.0.0.0/8", "10.255.0.1", True),
        ("10.0.0.0/8", "11.0.0.1", False),
        ("192.168.0.1, 10.0.0.0/8", "10.1.2.3", True),
        ("10.0.0.0/8", "::ffff:10.1.2.3", True),
        ("10.0.0.0/8", "::ffff:11.1.2.3", False),
        ("::ffff:10.0.0.0/104", "10.1.2.3", True),
        ("::ffff:10.0.0.0/104", "::ffff:10.1.2.3", True),
        ("::ffff:10.0.0.5", "10.0.0.6", False),
        ("0.0.0.0/0", "203.0.113.9", True),
        ("0.0.0.0/0", "2001:db8::1", False),
        ("::/0", "2001:db8::1", True),
        ("::/0", "203.0.113.9", False),
        ("fd00::/8", "fd12::1", True),
        ("fd00::/8", "2001:db8::1", False),
        ("2001:DB8:0::1", "2001:db8::1", True),
        ("fe80::1", "fe80::1%eth0", True),
        ("::1", "127.0.0.1", False),
        ("127.0.0.1", "::1", False),
    ],
)
def test_addresses(allowed: str, host: str, taken: bool) -> None:
    assert AdminAccess(allowed).allows(format_address((host, 4711))) is taken


def test_a_peer_without_an_address_is_nobody() -> None:
    assert not AdminAccess("0.0.0.0/0,::/0").allows("peer")
    assert not AdminAccess("0.0.0.0/0,::/0").allows("")


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("localhost", "'localhost' is no address or network"),
        ("10.0.0.5/8", "write 10.0.0.0/8"),
        ("10.0.0.0/33", "is no address"),
        ("10.0.0.0/255.0.0.0", "is no address"),
        ("10.0.0.0/", "is no address"),
        ("10.0.0", "is no address"),
        ("010.0.0.1", "is no address"),
        ("167772160", "is no address"),
        ("10.0.0.1:80", "is no address"),
        ("[::1]", "is no address"),
        ("fe80::1%eth0", "is no address"),
        ("10.0.0.1,", "'' is no address"),
        (",", "'' is no address"),
        ("10.0.0.1;10.0.0.2", "is no address"),
        (",".join(["::1"] * (MAX_NETWORKS + 1)), "at most 1024"),
    ],
)
def test_what_is_no_list(text: str, word: str) -> None:
    """None of them may come to mean everybody."""
    for config in (BrokerConfig, NamesrvConfig):
        with pytest.raises(ConfigError, match="adminAddressAllowList") as caught:
            config.from_properties({"adminAddressAllowList": text})
        assert word in str(caught.value)


def test_networks_may_have_blanks_around_them() -> None:
    assert len(parse_networks(" 10.0.0.1 ,\tfd00::/8 ")) == 2
