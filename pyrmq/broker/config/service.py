"""The keys of what a broker serves: names and addresses, topics, groups, delays, transactions; and
those of replication: what it is to others of its name.
[BrokerConfig, NettyServerConfig, MessageStoreConfig]
"""

from __future__ import annotations

import os
import re
import socket
from dataclasses import dataclass

from pyrmq.config.table import key
from pyrmq.engine import delay_levels
from pyrmq.errors import ConfigError
from pyrmq.net.address import is_host, parse_address, parse_addresses
from pyrmq.net.server.admin_access import parse_networks

SLAVE = "SLAVE"
SYNC_MASTER = "SYNC_MASTER"


def _address_or_none(text: str) -> None:
    if text:
        try:
            port = parse_address(text)[1]
        except ConfigError as e:
            raise ValueError(str(e)) from None
        if port == 0:
            raise ValueError("port 0 cannot be connected to")


@dataclass(frozen=True, slots=True)
class ReplicationConfig:
    """The part of BrokerConfig that says how the log is replicated; times are ms, sizes bytes."""

    broker_role: str = key(
        "ASYNC_MASTER",
        "A master takes messages and sends its log to slaves; SYNC_MASTER confirms what "
        "inSyncReplicas have. A SLAVE follows the master of its brokerName.",
        choices=("ASYNC_MASTER", SYNC_MASTER, SLAVE),
        section="Replication ([replication.md](replication.md))",
    )
    broker_id: int = key(0, "0 for a master, another one for each slave of it.", high=(1 << 31) - 1)
    ha_listen_port: int = key(
        0,
        "A master's port for slaves; 0: listenPort + 1 (any free one with listenPort=0).",
        high=65535,
    )
    ha_master_address: str = key(
        "",
        "A slave's master, its HA port; empty: as the name servers say.",
        check=_address_or_none,
        values="HOST:PORT",
    )
    ha_address_allow_list: str = key(
        "",
        "Addresses and networks from which slaves may connect; empty: those at which name servers "
        "list a slave of this brokerName (any, without name servers). Not RocketMQ's.",
        check=parse_networks,
        values="such as 10.0.0.5,10.1.0.0/16,fd00::/8",
    )
    in_sync_replicas: int = key(
        1,
        "Replicas, a SYNC_MASTER among them, that have a message before it is confirmed. With 1 it "
        "waits for nobody.",
        low=1,
        high=64,
        live=True,
    )
    min_in_sync_replicas: int = key(
        1,
        "Replicas of a SYNC_MASTER that have to be in sync: with fewer, messages are refused.",
        low=1,
        high=64,
        live=True,
    )
    enable_auto_in_sync_replicas: bool = key(
        False,
        "Whether a SYNC_MASTER waits for as many replicas as are in sync, minInSyncReplicas at "
        "least and inSyncReplicas at most.",
    )
    slave_timeout: int = key(
        3000, "ms after which it answers FLUSH_SLAVE_TIMEOUT.", low=1, high=600_000
    )
    ha_max_gap_not_in_sync: int = key(256 << 20, "Bytes that a slave in sync may be behind.", low=1)
    slave_read_enable: bool = key(
        False,
        "At a slave: whether consumers may read there. At a master: whether it sends those there "
        "that are far behind.",
        live=True,
    )
    ha_send_heartbeat_interval: int = key(
        5000, "ms of silence after which either side says something.", low=10, high=3_599_999
    )
    ha_housekeeping_interval: int = key(
        20_000, "ms of silence after which a connection is given up.", low=100, high=3_600_000
    )
    ha_transfer_batch_size: int = key(
        32 << 10, "Most bytes that a master sends at a time.", low=1024, high=4 << 20
    )
    ha_flow_control_enable: bool = key(False, "Whether maxHaTransferByteInSecond applies.")
    max_ha_transfer_byte_in_second: int = key(
        100 << 20, "Most bytes that a slave is sent in a second.", low=1024
    )

    @property
    def is_slave(self) -> bool:
        return self.broker_role == SLAVE

    @property
    def waits_for_slaves(self) -> bool:
        """Whether what is stored is confirmed by slaves."""
        return self.broker_role == SYNC_MASTER and self.in_sync_replicas > 1

    def check_replication(self) -> None:
        """ConfigError for keys that do not go together."""
        if self.is_slave and not self.broker_id:
            raise ConfigError("brokerRole=SLAVE needs a brokerId above 0: 0 is its master's")
        if not self.is_slave and self.broker_id:
            raise ConfigError(
                f"brokerId={self.broker_id} is a slave's: a master has brokerId=0, or set "
                "brokerRole=SLAVE"
            )
        if self.min_in_sync_replicas > self.in_sync_replicas:
            raise ConfigError("minInSyncReplicas is at most inSyncReplicas")
        if self.ha_housekeeping_interval <= self.ha_send_heartbeat_interval:
            raise ConfigError("haHousekeepingInterval has to be above haSendHeartbeatInterval")


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
    slow_log_ms: int = key(
        1000,
        "ms after which a request is slow, and has a line in the log; 0: none is. Not RocketMQ's.",
        high=3_600_000,
        live=True,
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
