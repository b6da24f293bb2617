"""RocketMQ's configuration keys for which BrokerConfig has no field."""

from __future__ import annotations

from pyrmq.net.config_table import FixedKey, UnusedKey

_THREADS = "there are no thread pools here: trio and one native writer do the work"
_QUEUES = "requests wait in sockets here, not in queues of thread pools"
_REPLICATION = "this version does not replicate"
_TIMER = "this version refuses timer messages"
_DELAY = "delayed messages are delivered in rounds, and their progress is kept once a second"
_OP_BATCH = "op records are written along with what they settle"
_DELETING = "a file in use stays readable, and a failed deletion is tried again in the next round"

OTHER_KEYS: tuple[FixedKey | UnusedKey, ...] = (
    FixedKey("brokerRole", ("ASYNC_MASTER", "SYNC_MASTER")),
    FixedKey("inSyncReplicas", ("1",)),
    FixedKey("totalReplicas", ("1",)),
    FixedKey("storeType", ("default",)),
    FixedKey("enableDLegerCommitLog", ("false",)),
    FixedKey("enableControllerMode", ("false",)),
    FixedKey("enableSlaveActingMaster", ("false",)),
    FixedKey("duplicationEnable", ("false",)),
    FixedKey("aclEnable", ("false",)),
    FixedKey("authenticationEnabled", ("false",)),
    FixedKey("authorizationEnabled", ("false",)),
    FixedKey("enableCalcFilterBitMap", ("false",)),
    FixedKey("enableLmq", ("false",)),
    FixedKey("enableMultiDispatch", ("false",)),
    FixedKey("enabledAppendPropCRC", ("false",)),
    FixedKey("forceVerifyPropCRC", ("false",)),
    FixedKey("transientStorePoolEnable", ("false",)),
    FixedKey("slaveReadEnable", ("false",)),
    FixedKey("lockInStrictMode", ("false",)),
    FixedKey("rejectPullConsumerEnable", ("false",)),
    FixedKey("fetchNamesrvAddrByAddressServer", ("false",)),
    FixedKey("fetchNameSrvAddrByDnsLookup", ("false",)),
    FixedKey("coldDataFlowControlEnable", ("false",)),
    FixedKey("defaultMessageRequestMode", ("PULL",)),
    FixedKey("metricsExporterType", ("DISABLE",)),
    UnusedKey("brokerIP2", _REPLICATION),
    UnusedKey("haListenPort", _REPLICATION),
    UnusedKey("haMasterAddress", _REPLICATION),
    UnusedKey("slaveTimeout", _REPLICATION),
    UnusedKey("minInSyncReplicas", _REPLICATION),
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
    UnusedKey("flushDelayOffsetInterval", _DELAY),
    UnusedKey("delayOffsetUpdateVersionStep", _DELAY),
    UnusedKey("enableScheduleAsyncDeliver", _DELAY),
    UnusedKey("transactionOpBatchInterval", _OP_BATCH),
    UnusedKey("endTransactionPoolQueueCapacity", _QUEUES),
    UnusedKey("waitTimeMillsInTransactionQueue", _QUEUES),
    UnusedKey("rocketmqHome", "nothing is read from there"),
)
