"""The keys of POP consumption, and of queues that the broker assigns. [BrokerConfig]"""

from __future__ import annotations

from dataclasses import dataclass

from pyrmq.broker.config.timers import TimerConfig
from pyrmq.config.table import FixedKey, UnusedKey, key

MODES = ("PULL", "POP")
"""[MessageRequestMode]"""


@dataclass(frozen=True, slots=True)
class PopConfig(TimerConfig):
    """The part of BrokerConfig about POP consumption; times are ms."""

    pop_from_retry_probability: int = key(
        20,
        "% of pops that read the retry topic first; the others read it last, if they have room.",
        high=100,
        section="POP consumption ([pop.md](pop.md))",
        live=True,
    )
    pop_from_retry_probability_for_priority: int = key(
        0, "The same for topics with message.type=PRIORITY.", high=100, live=True
    )
    priority_order_asc: bool = key(
        True,
        "Whether the queues with higher numbers have the higher priority.",
        live=True,
    )
    enable_retry_topic_v2: bool = key(
        False,
        "Whether retry topics of POP are %RETRY%group+topic, not %RETRY%group_topic.",
        name="enableRetryTopicV2",
        live=True,
    )
    retrieve_message_from_pop_retry_topic_v1: bool = key(
        True,
        "With enableRetryTopicV2: whether %RETRY%group_topic is read as well.",
        name="retrieveMessageFromPopRetryTopicV1",
        live=True,
    )
    pop_response_return_actual_retry_topic: bool = key(
        False,
        "Whether messages of a retry topic keep its name in the answer to a pop; else they have "
        "the topic that was asked for.",
        live=True,
    )
    init_pop_offset_by_check_msg_in_mem: bool = key(
        True,
        "Whether a new group that asks for new messages only gets all of a queue whose first "
        "message is in memory still.",
        live=True,
    )
    revive_queue_num: int = key(
        8, "Queues of rmq_sys_REVIVE_LOG_<cluster> that check points go to.", low=1, high=8
    )
    revive_interval: int = key(
        1000,
        "ms between two looks for messages that were popped and not acknowledged in time.",
        low=10,
        high=3_600_000,
        live=True,
    )
    skip_when_ck_re_put_reach_max_times: bool = key(
        False,
        "Whether a message that could not be revived 18 times is dropped; else it is tried again "
        "every 2 hours.",
        name="skipWhenCKRePutReachMaxTimes",
    )
    pop_polling_size: int = key(
        1024, "Pops of one group that may wait for one queue, or for all of a topic.", live=True
    )
    max_pop_polling_size: int = key(
        100_000, "Pops that may wait in all; more are answered POLLING_FULL.", live=True
    )
    enable_pop_message_threshold: bool = key(
        False, "Whether popInflightMessageThreshold applies.", live=True
    )
    pop_inflight_message_threshold: int = key(
        10_000,
        "Messages of a queue that a group may have popped without an ack: with more it pops "
        "nothing of that queue.",
        low=1,
        live=True,
    )
    server_load_balancer_enable: bool = key(
        True,
        "Whether QUERY_ASSIGNMENT shares queues out; else each member gets all of them.",
        section="Queues that the broker assigns ([pop.md](pop.md))",
        live=True,
    )
    default_message_request_mode: str = key(
        "PULL",
        "How members of a group for which no mode is set (setConsumeMode) get their messages.",
        choices=MODES,
        live=True,
    )
    default_pop_share_queue_num: int = key(
        -1,
        "With POP: members whose queues a member pops as well; 0 and less: all of them.",
        low=-1,
        live=True,
    )


_AT_ONCE = "check points and acks are stored at once, a session's acks together"
_KV = "state of POP is in the log: there is no RocksDB"
_READ_ON = "revive queues are read as they grow, by one task"
_STRAY = "an ack without a check point is passed at once"
_WAITS = "pops that wait are kept as long as they wait"

OTHER_POP_KEYS: tuple[FixedKey | UnusedKey, ...] = (
    FixedKey(
        "popConsumerKVServiceInit", ("false",), "POP's state is in the log, there is no RocksDB"
    ),
    FixedKey(
        "popConsumerKVServiceEnable", ("false",), "POP's state is in the log, there is no RocksDB"
    ),
    UnusedKey("popConsumerKVServiceLog", _KV),
    UnusedKey("popConsumerFSServiceInit", "the file form of POP's state is the only one"),
    UnusedKey("enablePopBufferMerge", _AT_ONCE),
    UnusedKey("enablePopBatchAck", _AT_ONCE),
    UnusedKey("appendAckAsync", _AT_ONCE),
    UnusedKey("appendCkAsync", _AT_ONCE),
    UnusedKey("popCkStayBufferTime", _AT_ONCE),
    UnusedKey("popCkStayBufferTimeOut", _AT_ONCE),
    UnusedKey("popCkMaxBufferSize", _AT_ONCE),
    UnusedKey("popCkOffsetMaxQueueSize", _AT_ONCE),
    UnusedKey("reviveScanTime", _READ_ON),
    UnusedKey("reviveMaxSlow", _READ_ON),
    UnusedKey("enableSkipLongAwaitingAck", _STRAY),
    UnusedKey("reviveAckWaitMs", _STRAY),
    UnusedKey("popReviveConcurrency", _KV),
    UnusedKey("popReviveMaxAttemptTimes", _KV),
    UnusedKey("popReviveMaxReturnSizePerRead", _KV),
    FixedKey("useSeparateRetryQueue", ("false",), "a retry topic of POP has one queue"),
    UnusedKey("popPollingMapSize", _WAITS),
    UnusedKey("popPollingMapExpireTimeSeconds", _WAITS),
    UnusedKey("popLongPollingForceNotifyInterval", "a pop that waits reads whatever has come"),
    UnusedKey("enablePopLog", "pops are not logged one by one"),
    UnusedKey("useMessageFilterForNotification", "a notification always looks at tags"),
    UnusedKey("maxMessageFilterNumForNotification", "it looks at those of 63 messages"),
    UnusedKey("loadBalancePollNameServerInterval", "routes are asked for as they are needed"),
)
"""RocketMQ's keys about POP without a field."""
