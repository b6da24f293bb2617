"""The keys of timer messages, of their recall, and of message types.
[MessageStoreConfig, BrokerConfig, ProxyConfig]"""

from __future__ import annotations

from dataclasses import dataclass

from pyrmq.broker.config.drain_keys import DrainConfig
from pyrmq.config.table import FixedKey, UnusedKey, key

PRECISIONS = (100, 200, 500, 1000)
"""ms that timerPrecisionMs may be."""
MOST_SLOTS = 7 * 86_400 - 60
"""Slots of the wheel that messages may be in at once: a wheel is made for seven days at a precision
of 1 s, and 60 slots stay free. [TimerMessageStore]"""
_MAX_INT = (1 << 31) - 1


def _precision(ms: int) -> None:
    if ms not in PRECISIONS:
        raise ValueError(f"{', '.join(map(str, PRECISIONS))} ms are possible")


@dataclass(frozen=True, slots=True)
class TimerConfig(DrainConfig):
    """The part of BrokerConfig about timer messages."""

    timer_wheel_enable: bool = key(
        True,
        "Whether the broker takes timer messages. Those that wait are kept while it does not.",
        section="Timer messages ([timers.md](timers.md))",
    )
    timer_precision_ms: int = key(
        1000,
        "ms that a timer message is late at most. The start after a change makes the wheel anew.",
        low=100,
        high=1000,
        check=_precision,
        values="100, 200, 500, 1000",
    )
    timer_max_delay_sec: int = key(
        3 * 86_400,
        "Longest delay of a timer message, seconds.",
        low=1,
        high=100 * 365 * 86_400,
    )
    timer_roll_window_slot: int = key(
        2 * 86_400,
        "A message with more slots (of timerPrecisionMs) to its time is set anew on the way.",
        low=2,
        high=MOST_SLOTS,
    )
    timer_congest_num_each_slot: int = key(
        _MAX_INT,
        "Timer messages of one slot above which some are refused; above twice as many all are.",
        low=1,
        high=_MAX_INT,
    )
    timer_flush_interval_ms: int = key(
        1000, "ms between flushes of wheel, timer log and their check point.", low=1, high=60_000
    )
    mapped_file_size_timer_log: int = key(
        100 << 20, "Bytes of a file of the timer log; an entry has 52.", low=4096, high=1 << 30
    )
    timer_stop_enqueue: bool = key(
        False, "Whether new timer messages wait in the log only, outside of the wheel."
    )
    timer_stop_dequeue: bool = key(False, "Whether due timer messages are held back.")
    recall_message_enable: bool = key(
        False, "Whether producers may recall timer messages (RECALL_MESSAGE).", live=True
    )
    allow_recall_when_broker_not_writeable: bool = key(
        True, "Whether they may also where brokerPermission is without 2 (write).", live=True
    )
    append_topic_for_timer_delete_key: bool = key(
        False,
        "Whether a recall names its message by topic+key, as RocketMQ up to 5.4 does, or by key "
        "alone. This broker reads both.",
        live=True,
    )
    enable_topic_message_type_check: bool = key(
        False,
        "Whether a send is refused whose type is not the message.type of its topic. In RocketMQ "
        "proxies do it, with this key.",
        section="Message types",
        live=True,
    )


_PASSES = "one task of the broker does the work of these threads"
_METRICS = "`pyrmq admin timer` counts what waits whenever it is asked"
_ROCKSDB = "it belongs to timerRocksDBEnable, which is not there"

OTHER_TIMER_KEYS: tuple[FixedKey | UnusedKey, ...] = (
    FixedKey(
        "timerRocksDBEnable",
        ("false",),
        "timers are in timerwheel and timerlog, there is no RocksDB",
    ),
    FixedKey(
        "timerWheelSnapshotFlush",
        ("false",),
        "pages of timerwheel are written in place, as RocketMQ does by default",
    ),
    FixedKey("timerInterceptDelayLevel", ("false",), "delay levels have a service of their own"),
    FixedKey(
        "timerSkipUnknownError",
        ("false",),
        "a delivery that fails is tried again until it succeeds",
    ),
    UnusedKey(
        "timerEnableRetryUntilSuccess", "a delivery that fails is tried again until it succeeds"
    ),
    UnusedKey("timerGetMessageThreadNum", _PASSES),
    UnusedKey("timerPutMessageThreadNum", _PASSES),
    UnusedKey("timerEnableDisruptor", _PASSES),
    UnusedKey("timerEnableCheckMetrics", _METRICS),
    UnusedKey("timerCheckMetricsWhen", _METRICS),
    UnusedKey("timerMetricSmallThreshold", _METRICS),
    UnusedKey("timerProgressLogIntervalMs", "the progress is part of the runtime information"),
    UnusedKey("timerWarmEnable", "what is due soon is read by the system ahead of its time"),
    UnusedKey("timerColdDataCheckIntervalMs", "it belongs to cold data flow control"),
    UnusedKey("timerWheelSnapshotIntervalMs", "it belongs to timerWheelSnapshotFlush"),
    UnusedKey("timerRocksDBStopScan", _ROCKSDB),
    UnusedKey("timerRocksDBPrecisionMs", _ROCKSDB),
    UnusedKey("timerRocksDBRollMaxTps", _ROCKSDB),
    UnusedKey("timerRocksDBTimeExpiredMaxTps", _ROCKSDB),
    UnusedKey("timerRocksDBRollIntervalHours", _ROCKSDB),
    UnusedKey("timerRocksDBRollRangeHours", _ROCKSDB),
    UnusedKey("timerRecallToTimeWheelEnable", _ROCKSDB),
    UnusedKey("timerRecallToTimelineEnable", _ROCKSDB),
    UnusedKey("timerReputServiceCorePoolSize", _ROCKSDB),
    UnusedKey("timerReputServiceMaxPoolSize", _ROCKSDB),
    UnusedKey("timerReputServiceQueueCapacity", _ROCKSDB),
)
"""RocketMQ's keys about timers without a field."""
