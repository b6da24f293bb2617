"""The broker's configuration: keys of BrokerConfig, MessageStoreConfig and NettyServerConfig.

Each field is the row of its key: type, default, bounds, checks and documentation are said here and
nowhere else; docs/configuration.md is written from it.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pyrmq.broker.config.keys import OTHER_KEYS
from pyrmq.broker.config.replication import ReplicationConfig
from pyrmq.config.table import (
    FOLDERS,
    check_fields,
    from_properties,
    key,
)
from pyrmq.engine import delay_levels
from pyrmq.errors import ConfigError
from pyrmq.net.address import is_host, parse_addresses
from pyrmq.net.server.admin_access import parse_networks

_DAY = 86_400_000
"""Milliseconds."""


def _paths(text: str) -> list[Path]:
    return [Path(part.strip()).expanduser() for part in text.split(",") if part.strip()]


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


def _hours(text: str) -> list[int]:
    hours = text.split(";") if re.fullmatch(r"\d{1,2}(;\d{1,2})*", text) else ["99"]
    if max(map(int, hours)) > 23:
        raise ValueError("hours from 00 to 23 expected, separated by ';'")
    return [int(hour) for hour in hours]


def _name_servers(text: str) -> None:
    try:
        parse_addresses(text, "name server")
    except ConfigError as e:
        raise ValueError(str(e)) from None


@dataclass(frozen=True, slots=True)
class BrokerConfig(ReplicationConfig):
    """Field names are RocketMQ's keys in snake_case; times are ms, sizes bytes.

    A running broker has it in a `LiveConfig`, as keys with `live` may change. Such a key must take
    effect wherever it is used: see there. A key is not live if it holds a path, an address or a
    name, if it says who may do what, or if the engine is told at start only.
    """

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
        30_000, "ms between two rounds of checks.", low=10, high=_DAY, live=True
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

    store_path_root_dir: Path = key(  # noqa: RUF009
        lambda: Path.home() / "store", "Folder of the store.", shown="~/store", section="Files"
    )
    store_path_commit_log: str = key(
        "",
        "Folders of the log; empty: commitlog below storePathRootDir.",
        values=FOLDERS,
    )
    read_only_commit_log_store_paths: str = key(
        "", "Of these, those that get no new files.", values=FOLDERS
    )
    mapped_file_size_commit_log: int = key(
        1 << 30, "Bytes of a log file.", low=4096, high=(1 << 31) - 1
    )
    mapped_file_size_consume_queue: int = key(
        300_000 * 20, "Bytes of a queue file; an entry has 20.", low=20, high=1 << 30
    )
    mapper_file_size_batch_consume_queue: int = key(
        300_000 * 46, "Bytes of a batch queue file; an entry has 46.", low=46, high=1 << 30
    )
    enable_consume_queue_ext: bool = key(
        False, "Whether queues have extension files (consumequeue_ext)."
    )
    mapped_file_size_consume_queue_ext: int = key(
        48 << 20, "Bytes of an extension file.", low=4096, high=1 << 30
    )
    warm_maped_file_enable: bool = key(
        False,
        "Whether the log file that is written and the next one are held in memory, whole (mlock).",
    )

    page_cache_drop_behind: bool = key(
        False,
        "Whether the kernel gives up log files that all connected consumers have read. "
        "Not RocketMQ's.",
    )

    message_index_enable: bool = key(True, "Whether keys are indexed.", section="Index")
    max_hash_slot_num: int = key(5_000_000, "Hash slots of an index file.", low=1, high=100_000_000)
    max_index_num: int = key(20_000_000, "Entries of an index file.", low=2, high=100_000_000)
    default_query_max_num: int = key(
        32,
        "Most messages that a query by message id (unique key) finds. A query by key says itself "
        "how many it wants, up to 64.",
        low=1,
        high=64,
        live=True,
    )

    file_reserved_time: int = key(
        72,
        "Hours after its last change that a log file is kept.",
        high=1_000_000,
        section="Retention ([store.md](store.md))",
    )
    delete_when: str = key(
        "04",
        "Hours of the day, local time, at which expired files are deleted.",
        check=_hours,
        values="00 to 23, separated by `;`",
    )
    disk_max_used_space_ratio: int = key(
        75, "% of a disk in use above which expired files are deleted at any hour.", high=100
    )
    disk_space_clean_forcibly_ratio: int = key(
        85, "% of a disk in use above which files are deleted before they expire.", high=100
    )
    disk_space_warning_level_ratio: int = key(
        90, "% of a disk in use above which messages are refused.", high=100
    )
    clean_file_forcibly_enable: bool = key(True, "Whether diskSpaceCleanForciblyRatio applies.")
    clean_resource_interval: int = key(
        10_000, "ms between two rounds of deletion.", low=1, high=_DAY
    )
    delete_commit_log_files_interval: int = key(
        100, "ms between two log files that are deleted.", high=60_000
    )
    delete_file_batch_max: int = key(10, "Most log files of a round.", low=1, high=10_000)

    flush_disk_type: str = key(
        "ASYNC_FLUSH",
        "When a send is answered: before, or after its record is on disk.",
        choices=("ASYNC_FLUSH", "SYNC_FLUSH"),
        section="Durability",
    )
    flush_interval_commit_log: int = key(
        500, "ms between flushes of the log with ASYNC_FLUSH.", low=1, high=3_600_000
    )
    os_page_cache_busy_time_out_mills: int = key(
        1000,
        "ms that a write of the log may take before messages are refused (SYSTEM_BUSY).",
        low=10,
        high=3_600_000,
    )
    flush_interval_consume_queue: int = key(
        1000, "ms between flushes of the queues.", low=1, high=3_600_000
    )
    flush_consume_queue_least_pages: int = key(
        2,
        "With more than 256 queues to flush those with fewer new pages wait.",
        high=1 << 20,
    )
    flush_consume_queue_thorough_interval: int = key(
        60_000, "ms that these wait at most.", high=_DAY
    )
    sync_flush_timeout: int = key(
        5000, "ms after which SYNC_FLUSH answers FLUSH_DISK_TIMEOUT.", low=1, high=600_000
    )
    check_crc_on_recover: bool = key(
        True, "Whether the CRC of bodies is checked at start.", name="checkCRCOnRecover"
    )

    max_message_size: int = key(
        4 << 20,
        "Most bytes of a body. With its properties it has 16711168 at most.",
        low=1,
        high=16 << 20,
        section="Limits",
    )
    max_filter_message_size: int = key(
        16_000, "Most bytes of queue entries that one pull examines.", low=20, high=1 << 30
    )
    access_message_in_memory_max_ratio: int = key(
        40, "% of the machine's memory: newer messages count as in memory.", high=100
    )
    new_queues_from_first_message: bool = key(
        True,
        "A group that has offsets in a topic starts queues of it in which it has none at their "
        "first message. false: where its client says, as with Apache's broker.",
    )
    max_transfer_bytes_on_message_in_memory: int = key(
        256 << 10, "Most bytes of a pull's answer from memory.", low=100, high=1 << 30
    )
    max_transfer_count_on_message_in_memory: int = key(
        32, "Most messages of a pull's answer from memory.", low=1, high=256
    )
    max_transfer_bytes_on_message_in_disk: int = key(
        64 << 10, "Most bytes of a pull's answer from disk.", low=100, high=1 << 30
    )
    max_transfer_count_on_message_in_disk: int = key(
        8, "Most messages of a pull's answer from disk.", low=1, high=256
    )

    def __post_init__(self) -> None:
        check_fields(self)
        if self.enable_calc_filter_bit_map and not self.enable_consume_queue_ext:
            raise ConfigError("enableCalcFilterBitMap=true needs enableConsumeQueueExt=true")
        self.check_replication()

    @property
    def delay_levels(self) -> list[int]:
        """messageDelayLevel in ms, level 1 first."""
        return delay_levels(self.message_delay_level)

    @property
    def hours(self) -> list[int]:
        """deleteWhen as numbers."""
        return _hours(self.delete_when)

    @property
    def commit_log_dirs(self) -> list[Path]:
        """The folders of storePathCommitLog, a list with commas; default: below the root."""
        return _paths(self.store_path_commit_log) or [self.store_path_root_dir / "commitlog"]

    @property
    def read_only_commit_log_dirs(self) -> list[Path]:
        return _paths(self.read_only_commit_log_store_paths)

    @property
    def sync_flush(self) -> bool:
        return self.flush_disk_type == "SYNC_FLUSH"

    @classmethod
    def from_properties(cls, values: Mapping[str, str]) -> BrokerConfig:
        """From a broker.conf's values. ConfigError for keys unknown or out of bounds."""
        return from_properties(cls, values, OTHER_KEYS)
