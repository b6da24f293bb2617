"""The broker's configuration: keys of BrokerConfig, MessageStoreConfig and NettyServerConfig."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path

from pyrmq.errors import ConfigError
from pyrmq.net.address import parse_addresses
from pyrmq.net.properties_file import settings

_THREADS = "there are no thread pools here: trio and one native writer do the work"
_QUEUES = "requests wait in sockets here, not in queues of thread pools"
_RETENTION = "this version keeps every file: delete old stores by hand"
_REPLICATION = "this version does not replicate"
_TIMER = "this version refuses delayed messages"
_TRANSACTION = "this version refuses transactional messages"


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
        if any(sep in self.store_path_commit_log for sep in ",;"):
            raise ConfigError("storePathCommitLog: this version takes one folder only")
        if self.broker_ip1:
            try:
                ip_address(self.broker_ip1)
            except ValueError:
                raise ConfigError(
                    f"brokerIP1={self.broker_ip1}: a numeric address expected"
                ) from None
        parse_addresses(self.namesrv_addr, "namesrvAddr")

    @property
    def sync_flush(self) -> bool:
        return self.flush_disk_type == "SYNC_FLUSH"

    @classmethod
    def from_properties(cls, values: Mapping[str, str]) -> BrokerConfig:
        """From a broker.conf's values. ConfigError for keys unknown or out of bounds."""
        return settings(cls, values, fixed=_FIXED, without_effect=_WITHOUT_EFFECT, bounds=_BOUNDS)


_BOUNDS: dict[str, tuple[int, int]] = {
    "brokerId": (0, 0),
    "listenPort": (0, 65535),
    "brokerPermission": (0, 7),
    "defaultTopicQueueNums": (1, 65_536),
    "flushConsumerOffsetInterval": (100, 86_400_000),
    "registerNameServerPeriod": (1, 86_400_000),
    "registerBrokerTimeoutMills": (1, 600_000),
    "channelExpiredTimeout": (1000, 86_400_000),
    "serverChannelMaxIdleTimeSeconds": (1, 86_400),
    "mappedFileSizeCommitLog": (4096, (1 << 31) - 1),
    "mappedFileSizeConsumeQueue": (20, 1 << 30),
    "flushIntervalCommitLog": (1, 3_600_000),
    "flushIntervalConsumeQueue": (1, 3_600_000),
    "syncFlushTimeout": (1, 600_000),
    "maxMessageSize": (1, 16 << 20),
    "maxFilterMessageSize": (20, 1 << 30),
    "accessMessageInMemoryMaxRatio": (0, 100),
    "maxTransferCountOnMessageInMemory": (1, 256),
    "maxTransferCountOnMessageInDisk": (1, 256),
    "maxTransferBytesOnMessageInMemory": (100, 1 << 30),
    "maxTransferBytesOnMessageInDisk": (100, 1 << 30),
}

_FIXED: dict[str, tuple[str, ...]] = {
    "brokerRole": ("ASYNC_MASTER", "SYNC_MASTER"),
    "inSyncReplicas": ("1",),
    "totalReplicas": ("1",),
    "storeType": ("default",),
    "enableDLegerCommitLog": ("false",),
    "enableControllerMode": ("false",),
    "enableSlaveActingMaster": ("false",),
    "duplicationEnable": ("false",),
    "aclEnable": ("false",),
    "authenticationEnabled": ("false",),
    "authorizationEnabled": ("false",),
    "enablePropertyFilter": ("false",),
    "enableConsumeQueueExt": ("false",),
    "enableLmq": ("false",),
    "enableMultiDispatch": ("false",),
    "enabledAppendPropCRC": ("false",),
    "forceVerifyPropCRC": ("false",),
    "transientStorePoolEnable": ("false",),
    "writeWithoutMmap": ("false",),
    "slaveReadEnable": ("false",),
    "lockInStrictMode": ("false",),
    "rejectPullConsumerEnable": ("false",),
    "fetchNamesrvAddrByAddressServer": ("false",),
    "fetchNameSrvAddrByDnsLookup": ("false",),
    "coldDataFlowControlEnable": ("false",),
    "defaultMessageRequestMode": ("PULL",),
    "metricsExporterType": ("DISABLE",),
}

_WITHOUT_EFFECT: dict[str, str] = {
    "brokerIP2": _REPLICATION,
    "haListenPort": _REPLICATION,
    "haMasterAddress": _REPLICATION,
    "slaveTimeout": _REPLICATION,
    "minInSyncReplicas": _REPLICATION,
    "deleteWhen": _RETENTION,
    "fileReservedTime": _RETENTION,
    "diskMaxUsedSpaceRatio": _RETENTION,
    "diskSpaceWarningLevelRatio": _RETENTION,
    "diskSpaceCleanForciblyRatio": _RETENTION,
    "cleanFileForciblyEnable": _RETENTION,
    "cleanResourceInterval": _RETENTION,
    "destroyMapedFileIntervalForcibly": _RETENTION,
    "redeleteHangedFileInterval": _RETENTION,
    "messageIndexEnable": "this version keeps no index files",
    "maxHashSlotNum": "this version keeps no index files",
    "maxIndexNum": "this version keeps no index files",
    "messageIndexSafe": "this version keeps no index files",
    "storePathConsumeQueue": "queues are always below storePathRootDir",
    "storePathIndex": "this version keeps no index files",
    "storeCheckpoint": "the checkpoint is always below storePathRootDir",
    "abortFile": "it is always below storePathRootDir",
    "warmMapedFileEnable": "pages are always faulted in ahead of the writer",
    "useReentrantLockWhenPutMessage": "the native writer has one lock",
    "flushCommitLogTimed": "the flusher always waits for its interval",
    "flushCommitLogLeastPages": "every interval flushes what there is",
    "flushConsumeQueueLeastPages": "every interval flushes what there is",
    "flushCommitLogThoroughInterval": "every interval flushes what there is",
    "flushConsumeQueueThoroughInterval": "every interval flushes what there is",
    "osPageCacheBusyTimeOutMills": "appending never waits behind a busy page cache here",
    "brokerFastFailureEnable": _QUEUES,
    "waitTimeMillsInSendQueue": _QUEUES,
    "waitTimeMillsInPullQueue": _QUEUES,
    "sendThreadPoolQueueCapacity": _QUEUES,
    "pullThreadPoolQueueCapacity": _QUEUES,
    "sendMessageThreadPoolNums": _THREADS,
    "pullMessageThreadPoolNums": _THREADS,
    "queryMessageThreadPoolNums": _THREADS,
    "adminBrokerThreadPoolNums": _THREADS,
    "clientManageThreadPoolNums": _THREADS,
    "consumerManageThreadPoolNums": _THREADS,
    "heartbeatThreadPoolNums": _THREADS,
    "endTransactionThreadPoolNums": _THREADS,
    "useEpollNativeSelector": _THREADS,
    "serverWorkerThreads": _THREADS,
    "serverSelectorThreads": _THREADS,
    "transferMsgByHeap": "bodies always go from the mapped log to the socket",
    "timerWheelEnable": _TIMER,
    "messageDelayLevel": _TIMER,
    "transactionTimeOut": _TRANSACTION,
    "transactionCheckMax": _TRANSACTION,
    "transactionCheckInterval": _TRANSACTION,
    "rocketmqHome": "nothing is read from there",
}
