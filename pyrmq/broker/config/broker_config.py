"""The broker's configuration: keys of BrokerConfig, MessageStoreConfig and NettyServerConfig.

Each field is the row of its key: type, default, bounds, checks and documentation are said here and
nowhere else; docs/configuration.md is written from it. The keys of the store stand here: its files,
the index, retention, durability and limits; those of what the broker serves, and of replication, in
`service`, of timer messages in `timers`, of POP in `pop_keys`. OTHER_KEYS has RocketMQ's keys
without a field.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pyrmq.auth.settings import OTHER_ACCESS_KEYS, AccessKeys
from pyrmq.broker.config.pop_keys import OTHER_POP_KEYS, PopConfig
from pyrmq.broker.config.reclaim_keys import ReclaimKeys
from pyrmq.broker.config.timers import OTHER_TIMER_KEYS
from pyrmq.config import table
from pyrmq.config.log_keys import LogKeys
from pyrmq.config.table import (
    FOLDERS,
    FixedKey,
    RenamedKey,
    UnusedKey,
    check_fields,
    from_properties,
    key,
)
from pyrmq.errors import ConfigError
from pyrmq.metrics.settings import OTHER_METRICS_KEYS, MetricsKeys

_DAY = 86_400_000
"""Milliseconds."""


def _paths(text: str) -> list[Path]:
    return [Path(part.strip()).expanduser() for part in text.split(",") if part.strip()]


def _without_controls(path: Path) -> None:
    """A line end in it would break the ready line, which programs read."""
    if any(unicodedata.category(char) == "Cc" for char in str(path)):
        raise ValueError("a path without line ends and other control characters expected")


def _hours(text: str) -> list[int]:
    hours = text.split(";") if re.fullmatch(r"\d{1,2}(;\d{1,2})*", text) else ["99"]
    if max(map(int, hours)) > 23:
        raise ValueError("hours from 00 to 23 expected, separated by ';'")
    return [int(hour) for hour in hours]


@dataclass(frozen=True, slots=True)
class StoreConfig(PopConfig):
    """The part of BrokerConfig about the store; times are ms, sizes bytes."""

    store_path_root_dir: Path = key(  # noqa: RUF009
        lambda: Path.home() / "store",
        "Folder of the store; its path has no control characters.",
        check=_without_controls,
        shown="~/store",
        section="Files",
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
        live=True,
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
        10_000, "ms between two passes that delete files.", low=1, high=_DAY
    )
    delete_commit_log_files_interval: int = key(
        100, "ms between two log files that are deleted.", high=60_000
    )
    delete_file_batch_max: int = key(10, "Most log files that a pass deletes.", low=1, high=10_000)

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


_THREADS = "there are no thread pools here: trio and one native writer do the work"
_QUEUES = "requests wait in sockets here, not in queues of thread pools"
_DELAY = "delayed messages are delivered in rounds, and their progress is kept once a second"
_OP_BATCH = "op records are written along with what they settle"
_POOL = "it belongs to transientStorePoolEnable, which is not there"
_SOCKETS = "the system sizes the buffers of sockets"
_COMMERCIAL = "it belongs to a service of Alibaba Cloud"
_DELETING = "a file in use stays readable, and a failed deletion is tried again in the next round"

OTHER_KEYS: tuple[FixedKey | UnusedKey | RenamedKey, ...] = (
    UnusedKey("totalReplicas", "it only counts in controller mode, which is not there"),
    FixedKey("storeType", ("default",), "there is no RocksDB store"),
    FixedKey("enableDLegerCommitLog", ("false",), "there is no DLedger"),
    FixedKey("enableControllerMode", ("false",), "there is no controller"),
    FixedKey(
        "enableSlaveActingMaster", ("false",), "a slave becomes a master by an operator's word"
    ),
    FixedKey("duplicationEnable", ("false",), "the log has one copy in its store"),
    *OTHER_ACCESS_KEYS,
    FixedKey("enableLmq", ("false",), "there are no light message queues"),
    FixedKey("enableMultiDispatch", ("false",), "a message is in one queue"),
    FixedKey("enabledAppendPropCRC", ("false",), "a record has a checksum of its body"),
    FixedKey("forceVerifyPropCRC", ("false",), "a record has a checksum of its body"),
    FixedKey(
        "transientStorePoolEnable", ("false",), "the log is written by system calls, without a pool"
    ),
    FixedKey("rejectPullConsumerEnable", ("false",), "all consumers may pull"),
    FixedKey(
        "fetchNamesrvAddrByAddressServer",
        ("false",),
        "addresses of name servers come from namesrvAddr",
    ),
    FixedKey(
        "fetchNameSrvAddrByDnsLookup", ("false",), "addresses of name servers come from namesrvAddr"
    ),
    FixedKey("coldDataFlowControlEnable", ("false",), "there is no cold data flow control"),
    *OTHER_METRICS_KEYS,
    UnusedKey("destroyMapedFileIntervalForcibly", _DELETING),
    UnusedKey("redeleteHangedFileInterval", _DELETING),
    UnusedKey("messageIndexSafe", "the index is always completed from the log"),
    UnusedKey("storePathConsumeQueue", "queues are always below storePathRootDir"),
    UnusedKey("storePathIndex", "the index is always below storePathRootDir"),
    UnusedKey("storeCheckpoint", "the checkpoint is always below storePathRootDir"),
    UnusedKey("abortFile", "it is always below storePathRootDir"),
    UnusedKey("flushLeastPagesWhenWarmMapedFile", "warming writes nothing"),
    UnusedKey("useReentrantLockWhenPutMessage", "the native writer has one lock"),
    UnusedKey("flushCommitLogTimed", "the flusher always waits for its interval"),
    UnusedKey("flushCommitLogLeastPages", "every interval flushes what there is"),
    UnusedKey("flushCommitLogThoroughInterval", "every interval flushes what there is"),
    UnusedKey("writeWithoutMmap", "the log is always written by system calls"),
    UnusedKey("brokerFastFailureEnable", _QUEUES),
    UnusedKey("waitTimeMillsInSendQueue", _QUEUES),
    UnusedKey("waitTimeMillsInPullQueue", _QUEUES),
    UnusedKey("sendThreadPoolQueueCapacity", _QUEUES),
    UnusedKey("pullThreadPoolQueueCapacity", _QUEUES),
    UnusedKey("sendMessageThreadPoolNums", _THREADS),
    UnusedKey("pullMessageThreadPoolNums", _THREADS),
    UnusedKey("queryMessageThreadPoolNums", _THREADS),
    UnusedKey("adminBrokerThreadPoolNums", _THREADS),
    UnusedKey("clientManageThreadPoolNums", _THREADS),
    UnusedKey("consumerManageThreadPoolNums", _THREADS),
    UnusedKey("heartbeatThreadPoolNums", _THREADS),
    UnusedKey("endTransactionThreadPoolNums", _THREADS),
    UnusedKey("useEpollNativeSelector", _THREADS),
    UnusedKey("serverWorkerThreads", _THREADS),
    UnusedKey("serverSelectorThreads", _THREADS),
    UnusedKey("transferMsgByHeap", "bodies always go from the mapped log to the socket"),
    *OTHER_TIMER_KEYS,
    *OTHER_POP_KEYS,
    FixedKey(
        "filterSupportRetry",
        ("false",),
        "what comes again is not filtered a second time",
    ),
    UnusedKey("lockInStrictMode", "a broker without replicas is a majority by itself"),
    UnusedKey(
        "bitMapLengthConsumeQueueExt",
        "it follows from expectConsumerNumUseFilter and maxErrorRateOfBloomFilter",
    ),
    UnusedKey("enableScheduleMessageStats", "what is delivered always counts for its topic"),
    UnusedKey("enableDetailStat", "there are no statistics of single queues"),
    UnusedKey("maxStatsIdleTimeInMinutes", "statistics go after a day without anything to count"),
    UnusedKey("flushDelayOffsetInterval", _DELAY),
    UnusedKey("delayOffsetUpdateVersionStep", _DELAY),
    UnusedKey("enableScheduleAsyncDeliver", _DELAY),
    UnusedKey("transactionOpBatchInterval", _OP_BATCH),
    UnusedKey("endTransactionPoolQueueCapacity", _QUEUES),
    UnusedKey("waitTimeMillsInTransactionQueue", _QUEUES),
    FixedKey("compressedRegister", ("false",), "registrations are sent as JSON"),
    FixedKey("maxMsgsNumBatch", ("64",), "a query by key gives 64 messages at most"),
    FixedKey("disableConsumeIfConsumerReadSlowly", ("false",), "a group that lags reads on"),
    FixedKey("filterServerNums", ("0",), "there are no filter servers"),
    UnusedKey("checkTransactionMessageEnable", "producers of halves are always asked"),
    UnusedKey("commitIntervalCommitLog", _POOL),
    UnusedKey("commitCommitLogLeastPages", _POOL),
    UnusedKey("commitCommitLogThoroughInterval", _POOL),
    UnusedKey("transientStorePoolSize", _POOL),
    UnusedKey("fastFailIfNoBufferInStorePool", _POOL),
    UnusedKey("serverSocketSndBufSize", _SOCKETS),
    UnusedKey("serverSocketRcvBufSize", _SOCKETS),
    UnusedKey("serverPooledByteBufAllocatorEnable", "there is no Netty here"),
    UnusedKey("serverCallbackExecutorThreads", _THREADS),
    UnusedKey("processReplyMessageThreadPoolNums", _THREADS),
    UnusedKey("litePullMessageThreadPoolNums", _THREADS),
    UnusedKey("queryThreadPoolQueueCapacity", _QUEUES),
    UnusedKey("replyThreadPoolQueueCapacity", _QUEUES),
    UnusedKey("litePullThreadPoolQueueCapacity", _QUEUES),
    UnusedKey("heartbeatThreadPoolQueueCapacity", _QUEUES),
    UnusedKey("clientManagerThreadPoolQueueCapacity", _QUEUES),
    UnusedKey("consumerManagerThreadPoolQueueCapacity", _QUEUES),
    UnusedKey("waitTimeMillsInHeartbeatQueue", _QUEUES),
    UnusedKey(
        "serverOnewaySemaphoreValue", "requests are answered in turn, connection by connection"
    ),
    UnusedKey(
        "serverAsyncSemaphoreValue", "requests are answered in turn, connection by connection"
    ),
    UnusedKey("offsetCheckInSlave", "a slave always checks offsets"),
    UnusedKey("debugLockEnable", "it shows locks of Java"),
    UnusedKey("highSpeedMode", "Apache's broker reads it nowhere"),
    UnusedKey("diskFallRecorded", "what a group is behind on the disk is not recorded"),
    UnusedKey("flushConsumerOffsetHistoryInterval", "there is no history of offsets"),
    UnusedKey("consumerFallbehindThreshold", "it belongs to disableConsumeIfConsumerReadSlowly"),
    UnusedKey("commercialEnable", _COMMERCIAL),
    UnusedKey("commercialTimerCount", _COMMERCIAL),
    UnusedKey("commercialTransCount", _COMMERCIAL),
    UnusedKey("commercialBigCount", _COMMERCIAL),
    UnusedKey("commercialBaseCount", _COMMERCIAL),
    RenamedKey("mapedFileSizeCommitLog", "mappedFileSizeCommitLog"),
    RenamedKey("mapedFileSizeConsumeQueue", "mappedFileSizeConsumeQueue"),
    RenamedKey("mapedFileSizeConsumeQueueExt", "mappedFileSizeConsumeQueueExt"),
    RenamedKey("autoTraceBrokerEnable", "traceTopicEnable"),
    RenamedKey("msgTrackTopicName", "msgTraceTopicName"),
    RenamedKey("haSlaveFallbehindMax", "haMaxGapNotInSync"),
    RenamedKey("brokerIP", "brokerIP1"),
)


@dataclass(frozen=True, slots=True)
class BrokerConfig(AccessKeys, LogKeys, MetricsKeys, ReclaimKeys, StoreConfig):
    """Field names are RocketMQ's keys in snake_case; times are ms, sizes bytes.

    A running broker has it in a `LiveConfig`, as keys with `live` may change. Such a key must take
    effect wherever it is used: see there. A key is not live if it holds a path, an address or a
    name, if it says who may do what, or if the engine is told at start only.
    """

    acl_enable: bool = key(
        False,
        "Whether the accounts of plain_acl.yml and conf/acl say who may do what (ACL 1.0).",
        section="Access control of RocketMQ 4 ([security.md](security.md))",
    )
    rocketmq_home: str = key(
        lambda: os.environ.get("ROCKETMQ_HOME", ""),
        "Folder in which conf/plain_acl.yml and conf/acl are, for aclEnable and "
        "migrateAuthFromV1Enabled.",
        values="a folder",
        shown="ROCKETMQ_HOME of the environment",
    )
    migrate_auth_from_v1_enabled: bool = key(
        False,
        "Whether the start makes users of the accounts of ACL 1.0, those that are missing. Needs "
        "aclEnable=false and the two metadata providers.",
    )

    def __post_init__(self) -> None:
        check_fields(self)
        if self.enable_calc_filter_bit_map and not self.enable_consume_queue_ext:
            raise ConfigError("enableCalcFilterBitMap=true needs enableConsumeQueueExt=true")
        self.check_plain_access()
        self.check_replication()
        self.check_access()
        self.check_log()
        self.check_reclaim()

    def check_plain_access(self) -> None:
        """ConfigError for access control that cannot be."""
        if self.migrate_auth_from_v1_enabled:
            self._check_migration()
        if not self.acl_enable:
            return
        if not self.rocketmq_home:
            raise ConfigError(
                "aclEnable=true needs rocketmqHome, or the variable ROCKETMQ_HOME: the folder with "
                "conf/plain_acl.yml"
            )
        values = table.values_of(self)
        for name in ("authenticationEnabled", "authorizationEnabled"):
            if values.get(name) == "true":
                raise ConfigError(
                    f"aclEnable and {name} are both true: set aclEnable=false, and "
                    "migrateAuthFromV1Enabled=true for one start to take the accounts along"
                )

    def _check_migration(self) -> None:
        this = "migrateAuthFromV1Enabled=true"
        if self.acl_enable:
            raise ConfigError(f"{this} makes users of accounts: set aclEnable=false")
        if not (self.authentication_metadata_provider and self.authorization_metadata_provider):
            raise ConfigError(
                f"{this} makes users and access lists: set authenticationMetadataProvider="
                "LocalAuthenticationMetadataProvider and authorizationMetadataProvider="
                "LocalAuthorizationMetadataProvider"
            )
        if not self.rocketmq_home:
            raise ConfigError(
                f"{this} needs rocketmqHome, or the variable ROCKETMQ_HOME: the folder with "
                "conf/plain_acl.yml"
            )

    @classmethod
    def from_properties(cls, values: Mapping[str, str]) -> BrokerConfig:
        """From a broker.conf's values. ConfigError for keys unknown or out of bounds."""
        return from_properties(cls, values, OTHER_KEYS)


LiveConfig = table.LiveConfig[BrokerConfig]
"""The configuration while the broker runs."""
