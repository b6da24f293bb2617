"""The broker's configuration: keys of BrokerConfig, MessageStoreConfig and NettyServerConfig."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path

from pyrmq.broker.config_keys import BOUNDS, FIXED, WITHOUT_EFFECT
from pyrmq.errors import ConfigError
from pyrmq.net.address import parse_addresses
from pyrmq.net.properties_file import settings


def _paths(text: str) -> list[Path]:
    return [Path(part.strip()).expanduser() for part in text.split(",") if part.strip()]


def _host_name() -> str:
    name = re.sub(r"[^%|a-zA-Z0-9_-]", "-", socket.gethostname())
    return name or "DEFAULT_BROKER"


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """Field names are RocketMQ's keys in snake_case; times are ms, sizes bytes."""

    broker_name: str = field(default_factory=_host_name)
    broker_cluster_name: str = "DefaultCluster"
    broker_id: int = 0
    broker_ip1: str = ""
    """The address told to clients and stored in storeHost; empty: found out at start."""
    bind_address: str = "0.0.0.0"
    listen_port: int = 10911
    namesrv_addr: str = field(default_factory=lambda: os.environ.get("NAMESRV_ADDR", ""))
    broker_permission: int = 6
    auto_create_topic_enable: bool = True
    default_topic_queue_nums: int = 8
    auto_create_subscription_group: bool = True
    cluster_topic_enable: bool = True
    broker_topic_enable: bool = True
    trace_topic_enable: bool = False
    msg_trace_topic_name: str = "RMQ_SYS_TRACE_TOPIC"
    trace_on: bool = True
    region_id: str = "DefaultRegion"
    flush_consumer_offset_interval: int = 5000
    consumer_offset_update_version_step: int = 500
    long_polling_enable: bool = True
    short_polling_time_mills: int = 1000
    notify_consumer_ids_changed_enable: bool = True
    lite_pull_message_enable: bool = True
    register_name_server_period: int = 30_000
    register_broker_timeout_mills: int = 24_000
    channel_expired_timeout: int = 120_000
    server_channel_max_idle_time_seconds: int = 120
    transaction_time_out: int = 6000
    transaction_check_max: int = 15
    transaction_check_interval: int = 30_000
    transaction_op_msg_max_size: int = 4096
    transaction_metric_flush_interval: int = 10_000
    reject_transaction_message: bool = False

    store_path_root_dir: Path = field(default_factory=lambda: Path.home() / "store")
    store_path_commit_log: str = ""
    mapped_file_size_commit_log: int = 1 << 30
    mapped_file_size_consume_queue: int = 300_000 * 20
    flush_disk_type: str = "ASYNC_FLUSH"
    flush_interval_commit_log: int = 500
    flush_interval_consume_queue: int = 1000
    sync_flush_timeout: int = 5000
    max_message_size: int = 4 << 20
    max_filter_message_size: int = 16_000
    access_message_in_memory_max_ratio: int = 40
    max_transfer_bytes_on_message_in_memory: int = 256 << 10
    max_transfer_count_on_message_in_memory: int = 32
    max_transfer_bytes_on_message_in_disk: int = 64 << 10
    max_transfer_count_on_message_in_disk: int = 8
    check_crc_on_recover: bool = True
    read_only_commit_log_store_paths: str = ""
    mapper_file_size_batch_consume_queue: int = 300_000 * 46
    enable_consume_queue_ext: bool = False
    mapped_file_size_consume_queue_ext: int = 48 << 20
    flush_consume_queue_least_pages: int = 2
    flush_consume_queue_thorough_interval: int = 60_000
    warm_maped_file_enable: bool = False
    message_index_enable: bool = True
    max_hash_slot_num: int = 5_000_000
    max_index_num: int = 20_000_000
    default_query_max_num: int = 32
    file_reserved_time: int = 72
    """Hours."""
    delete_when: str = "04"
    """Hours of the day in local time, separated by `;`."""
    disk_max_used_space_ratio: int = 75
    disk_space_clean_forcibly_ratio: int = 85
    disk_space_warning_level_ratio: int = 90
    clean_file_forcibly_enable: bool = True
    clean_resource_interval: int = 10_000
    delete_commit_log_files_interval: int = 100
    delete_file_batch_max: int = 10

    def __post_init__(self) -> None:
        if self.flush_disk_type not in ("ASYNC_FLUSH", "SYNC_FLUSH"):
            raise ConfigError(
                f"flushDiskType={self.flush_disk_type}: ASYNC_FLUSH or SYNC_FLUSH expected"
            )
        for key, name in (
            ("brokerName", self.broker_name),
            ("brokerClusterName", self.broker_cluster_name),
            ("msgTraceTopicName", self.msg_trace_topic_name),
        ):
            if not re.fullmatch(r"[%|a-zA-Z0-9_-]{1,100}", name):
                raise ConfigError(f"{key}={name}: 1 to 100 of the characters %|a-zA-Z0-9_-")
        if not re.fullmatch(r"\d{1,2}(;\d{1,2})*", self.delete_when) or max(self.hours) > 23:
            raise ConfigError(
                f"deleteWhen={self.delete_when}: hours from 00 to 23 expected, separated by ';'"
            )
        if self.broker_ip1:
            try:
                ip_address(self.broker_ip1)
            except ValueError:
                raise ConfigError(
                    f"brokerIP1={self.broker_ip1}: a numeric address expected"
                ) from None
        parse_addresses(self.namesrv_addr, "namesrvAddr")

    @property
    def hours(self) -> list[int]:
        """deleteWhen as numbers."""
        return [int(hour) for hour in self.delete_when.split(";")]

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
        return settings(cls, values, fixed=FIXED, without_effect=WITHOUT_EFFECT, bounds=BOUNDS)
