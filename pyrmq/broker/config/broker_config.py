"""The broker's configuration: keys of BrokerConfig, MessageStoreConfig and NettyServerConfig.

Each field is the row of its key: type, default, bounds, checks and documentation are said here and
nowhere else; docs/configuration.md is written from it. The fields stand in `replication`, `service`
and `store`; OTHER_KEYS has RocketMQ's keys without a field.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyrmq.broker.config.store import StoreConfig
from pyrmq.config import table
from pyrmq.config.table import FixedKey, RenamedKey, UnusedKey, check_fields, from_properties
from pyrmq.errors import ConfigError

_THREADS = "there are no thread pools here: trio and one native writer do the work"
_QUEUES = "requests wait in sockets here, not in queues of thread pools"
_TIMER = "this version refuses timer messages"
_DELAY = "delayed messages are delivered in rounds, and their progress is kept once a second"
_OP_BATCH = "op records are written along with what they settle"
_POOL = "it belongs to transientStorePoolEnable, which is not there"
_SOCKETS = "the system sizes the buffers of sockets"
_COMMERCIAL = "it belongs to a service of Alibaba Cloud"
_DELETING = "a file in use stays readable, and a failed deletion is tried again in the next round"

OTHER_KEYS: tuple[FixedKey | UnusedKey | RenamedKey, ...] = (
    UnusedKey("totalReplicas", "it only counts in controller mode, which is not there"),
    FixedKey("storeType", ("default",)),
    FixedKey("enableDLegerCommitLog", ("false",)),
    FixedKey("enableControllerMode", ("false",)),
    FixedKey("enableSlaveActingMaster", ("false",)),
    FixedKey("duplicationEnable", ("false",)),
    FixedKey("aclEnable", ("false",)),
    FixedKey("authenticationEnabled", ("false",)),
    FixedKey("authorizationEnabled", ("false",)),
    FixedKey("enableLmq", ("false",)),
    FixedKey("enableMultiDispatch", ("false",)),
    FixedKey("enabledAppendPropCRC", ("false",)),
    FixedKey("forceVerifyPropCRC", ("false",)),
    FixedKey("transientStorePoolEnable", ("false",)),
    FixedKey("rejectPullConsumerEnable", ("false",)),
    FixedKey("fetchNamesrvAddrByAddressServer", ("false",)),
    FixedKey("fetchNameSrvAddrByDnsLookup", ("false",)),
    FixedKey("coldDataFlowControlEnable", ("false",)),
    FixedKey("defaultMessageRequestMode", ("PULL",)),
    FixedKey("metricsExporterType", ("DISABLE",)),
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
    UnusedKey("timerWheelEnable", _TIMER),
    UnusedKey("timerPrecisionMs", _TIMER),
    UnusedKey("timerMaxDelaySec", _TIMER),
    UnusedKey("timerRollWindowSlot", _TIMER),
    UnusedKey("timerFlushIntervalMs", _TIMER),
    FixedKey("filterSupportRetry", ("false",)),
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
    UnusedKey("rocketmqHome", "nothing is read from there"),
    FixedKey("compressedRegister", ("false",)),
    FixedKey("maxMsgsNumBatch", ("64",)),
    FixedKey("disableConsumeIfConsumerReadSlowly", ("false",)),
    FixedKey("filterServerNums", ("0",)),
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
class BrokerConfig(StoreConfig):
    """Field names are RocketMQ's keys in snake_case; times are ms, sizes bytes.

    A running broker has it in a `LiveConfig`, as keys with `live` may change. Such a key must take
    effect wherever it is used: see there. A key is not live if it holds a path, an address or a
    name, if it says who may do what, or if the engine is told at start only.
    """

    def __post_init__(self) -> None:
        check_fields(self)
        if self.enable_calc_filter_bit_map and not self.enable_consume_queue_ext:
            raise ConfigError("enableCalcFilterBitMap=true needs enableConsumeQueueExt=true")
        self.check_replication()

    @classmethod
    def from_properties(cls, values: Mapping[str, str]) -> BrokerConfig:
        """From a broker.conf's values. ConfigError for keys unknown or out of bounds."""
        return from_properties(cls, values, OTHER_KEYS)


LiveConfig = table.LiveConfig[BrokerConfig]
"""The configuration while the broker runs."""
