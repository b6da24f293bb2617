"""The keys of what a broker serves: names and addresses, topics, groups, delays, transactions.
[BrokerConfig, NettyServerConfig]"""

from __future__ import annotations

import os
import re
import socket
from dataclasses import dataclass

from pyrmq.broker.config.replication import ReplicationConfig
from pyrmq.config.table import key
from pyrmq.engine import delay_levels
from pyrmq.errors import ConfigError
from pyrmq.net.address import is_host, parse_addresses
from pyrmq.net.server.admin_access import parse_networks

_DAY = 86_400_000
"""Milliseconds."""


def _host_name() -> str:
    name = re.sub(r"[^%|a-zA-Z0-9_-]", "-", socket.gethostname())
    return name or "DEFAULT_BROKER"


def _name(text: str) -> None:
    if not re.fullmatch(r"[%|a-zA-Z0-9_-]{1,100}", text):
        raise ValueError("1 to 100 of the characters %|a-zA-Z0-9_-")


def _announced(text: str) -> None:
    if text and not is_host(text):
        raise ValueError("a numeric address or a host name expected, without a port")
    if text in ("0.0.0.0", "::"):
        raise ValueError("nobody can connect to this address; leave it empty, or name one")


def _name_servers(text: str) -> None:
    try:
        parse_addresses(text, "name server")
    except ConfigError as e:
        raise ValueError(str(e)) from None


@dataclass(frozen=True, slots=True)
class ServiceConfig(ReplicationConfig):
    """The part of BrokerConfig about clients, operators and name servers; times are ms."""

    broker_name: str = key(
        _host_name,
        "Name of the broker; master and replicas have the same.",
        check=_name,
        values="1 to 100 of %\\|a-zA-Z0-9_-",
        shown="the host name",
        section="Names and addresses",
    )
    broker_cluster_name: str = key(
        "DefaultCluster", "Name of the cluster.", check=_name, values="as brokerName"
    )
    broker_ip1: str = key(
        "",
        "Address that clients get and that storeHost has; a name is resolved at start; empty: "
        "bindAddress, or, where that is all addresses, the one of the route to other networks.",
        name="brokerIP1",
        check=_announced,
        values="a numeric address, or a host name",
    )
    broker_ip2: str = key(
        "",
        "Address of the HA port that slaves get; empty: brokerIP1.",
        name="brokerIP2",
        check=_announced,
        values="a numeric address, or a host name",
    )
    bind_address: str = key("0.0.0.0", "Address to listen on.")
    listen_port: int = key(10911, "Port to listen on; 0: any free one.", high=65535)
    namesrv_addr: str = key(
        lambda: os.environ.get("NAMESRV_ADDR", ""),
        "Name servers to register with; empty: none.",
        check=_name_servers,
        values="HOST:PORT, separated by `;` or `,`",
        shown="NAMESRV_ADDR of the environment",
    )
    register_name_server_period: int = key(
        30_000, "ms between registrations at the name servers.", low=1, high=_DAY, live=True
    )
    register_broker_timeout_mills: int = key(
        24_000, "ms that a name server may take to answer one.", low=1, high=600_000, live=True
    )
    force_register: bool = key(
        True,
        "Whether each of them states all topics; else only where the name server says that it "
        "knows others.",
    )
    enable_single_topic_register: bool = key(
        False,
        "Whether new and changed topics are registered one by one, as name servers with "
        "deleteTopicWithBrokerRegistration=true need it.",
    )

    broker_permission: int = key(
        6,
        "Sum of 4 (consumers may read) and 2 (producers may write). They learn it from routes; "
        "other requests get NO_PERMISSION. Transactions that were begun before may end.",
        high=7,
        section="Topics and groups",
        live=True,
    )
    auto_create_topic_enable: bool = key(
        True, "Whether a message to an unknown topic creates the topic.", live=True
    )
    default_topic_queue_nums: int = key(
        8, "Queues of TBW102, the topic that such topics are copied from.", low=1, high=65_536
    )
    auto_create_subscription_group: bool = key(
        True, "Whether a consumer of an unknown group creates the group.", live=True
    )
    max_auto_created_topics: int = key(
        20_000,
        "Topics after which senders create no more; an operator still can. Topics of retries and "
        "dead letters do not count. Not RocketMQ's.",
        high=1_000_000,
        live=True,
    )
    max_auto_created_groups: int = key(
        20_000,
        "Groups that consumers create, at most; an operator's do not count. Not RocketMQ's.",
        high=1_000_000,
        live=True,
    )
    max_new_topics_per_connection: int = key(
        1000,
        "Topics that one connection creates by sending, at most. Not RocketMQ's.",
        high=1_000_000,
        live=True,
    )
    max_new_groups_per_connection: int = key(
        1000,
        "Groups that one connection creates by consuming, at most. Not RocketMQ's.",
        high=1_000_000,
        live=True,
    )
    auto_created_group_expire_time: int = key(
        7 * _DAY,
        "ms after which a group that a consumer created is removed, if nobody used it since and it "
        "has no members, no offsets and no messages to retry; 0: never. Not RocketMQ's.",
        high=3650 * _DAY,
        live=True,
    )
    clear_retry_topic_when_delete_topic: bool = key(
        True,
        "Whether the retry topics that POP consumers have of a topic are deleted with it.",
        live=True,
    )
    enable_mixed_message_type: bool = key(
        False, "Whether topics may be made with message.type=MIXED.", live=True
    )
    cluster_topic_enable: bool = key(
        True, "Whether the topic with the cluster's name may be read and written."
    )
    broker_topic_enable: bool = key(
        True, "Whether the topic with the broker's name may be read and written."
    )
    trace_topic_enable: bool = key(False, "Whether the broker has the trace topic.")
    msg_trace_topic_name: str = key(
        "RMQ_SYS_TRACE_TOPIC", "Name of the trace topic.", check=_name, values="as brokerName"
    )
    trace_on: bool = key(True, "TRACE_ON of answers to sends: whether clients trace.")
    region_id: str = key("DefaultRegion", "MSG_REGION of answers to sends.")

    flush_consumer_offset_interval: int = key(
        5000,
        "ms between writes of config/consumerOffset.json.",
        low=100,
        high=_DAY,
        section="Consumers and connections",
        live=True,
    )
    consumer_offset_update_version_step: int = key(
        500, "Commits of offsets after which the version of their table grows."
    )
    enable_property_filter: bool = key(
        False,
        "Whether consumers may select messages by SQL92 expressions over their properties.",
        live=True,
    )
    enable_calc_filter_bit_map: bool = key(
        False,
        "Whether SQL92 expressions are evaluated as messages are stored, so that pulls by them "
        "read little else; needs enableConsumeQueueExt=true.",
    )
    max_error_rate_of_bloom_filter: int = key(
        20, "Percent of unwanted messages that are read all the same.", low=1, high=99
    )
    expect_consumer_num_use_filter: int = key(
        32, "Groups of a topic with expressions for which that holds.", low=1, high=10_000
    )
    filter_data_clean_time_span: int = key(
        _DAY, "ms after which the expression of a group without members is forgotten.", low=1
    )
    use_server_side_reset_offset: bool = key(
        True,
        "Whether the broker resets the offsets of a group by itself; "
        "else it has the group's connected clients do it.",
        live=True,
    )
    store_reply_message_enable: bool = key(
        True,
        "Whether replies to requests are stored in the topic that they name as well.",
        live=True,
    )
    long_polling_enable: bool = key(
        True, "Whether a pull without messages is parked as long as its client allows.", live=True
    )
    short_polling_time_mills: int = key(
        1000, "ms that it is parked without longPollingEnable, at most.", live=True
    )
    notify_consumer_ids_changed_enable: bool = key(
        True, "Whether consumers are notified when their group changes.", live=True
    )
    lite_pull_message_enable: bool = key(True, "Whether LITE_PULL_MESSAGE is served.", live=True)
    channel_expired_timeout: int = key(
        120_000,
        "ms without a heartbeat after which a client is removed.",
        low=1000,
        high=_DAY,
        live=True,
    )
    server_channel_max_idle_time_seconds: int = key(
        120, "Seconds after which an idle connection is closed.", low=1, high=86_400, live=True
    )

    admin_address_allow_list: str = key(
        "",
        "Addresses and networks from which requests that administrate are taken; empty: any. "
        "Not RocketMQ's.",
        check=parse_networks,
        values="such as 10.0.0.5,10.1.0.0/16,fd00::/8",
    )

    message_delay_level: str = key(
        "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h",
        "The delays of the levels 1, 2, ….",
        check=delay_levels,
        values="numbers with s, m, h or d, separated by spaces",
        section="Delayed messages ([delay.md](delay.md))",
    )

    transaction_time_out: int = key(
        6000,
        "ms after which an undecided half is checked.",
        high=_DAY,
        section="Transactions ([transactions.md](transactions.md))",
        live=True,
    )
    transaction_check_max: int = key(
        15,
        "Checks of a half, then it is moved to TRANS_CHECK_MAX_TIME_TOPIC.",
        low=1,
        high=10_000,
        live=True,
    )
    transaction_check_interval: int = key(
        30_000, "ms between two check passes.", low=10, high=_DAY, live=True
    )
    transaction_op_msg_max_size: int = key(
        4096, "Most bytes of an op message.", low=32, high=1 << 20
    )
    transaction_max_pending_halves: int = key(
        5_000_000,
        "Most halves that wait (some 120 bytes each); others get SYSTEM_BUSY. Not RocketMQ's.",
        low=1,
        high=(1 << 31) - 1,
    )
    transaction_metric_flush_interval: int = key(
        10_000, "ms between writes of config/transactionMetrics.", low=100, high=_DAY, live=True
    )
    reject_transaction_message: bool = key(False, "Whether halves are refused.")

    @property
    def delay_levels(self) -> list[int]:
        """messageDelayLevel in ms, level 1 first."""
        return delay_levels(self.message_delay_level)
