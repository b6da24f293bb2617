"""The metrics of a broker. Those that begin with rocketmq_ have RocketMQ's names and labels; ours
begin with pyrmq_. [BrokerMetricsConstant, PopMetricsConstant, DefaultStoreMetricsConstant]
"""

from __future__ import annotations

from pyrmq.broker.stats.create_times import BOUNDS_MS
from pyrmq.engine import DELAY_BOUNDS, FINISH_BOUNDS, SIZE_BOUNDS, TIME_BOUNDS_US
from pyrmq.metrics.families import Family, counter, gauge, histogram

# The broker itself
PERMISSION = gauge("rocketmq_broker_permission", "brokerPermission: 2 write, 4 read, 6 both.")
TOPICS = gauge("rocketmq_topic_number", "Topics, those of the system among them.")
GROUPS = gauge("rocketmq_consumer_group_number", "Consumer groups.")
WATERMARK = gauge(
    "rocketmq_processor_watermark",
    "Requests that wait: sends until their topic is made, pulls for the disk, queries by key.",
    "processor",
)
CONNECTIONS = gauge("pyrmq_connections", "Open connections of clients.")
REFUSES = gauge("pyrmq_broker_refuses_messages", "1 while messages of producers are refused.")
TOPIC_CREATE = histogram(
    "rocketmq_topic_create_execution_time",
    "ms that requests take which make or change topics.",
    BOUNDS_MS,
    "invocation_status",
    "is_system",
)
GROUP_CREATE = histogram(
    "rocketmq_consumer_group_create_execution_time",
    "ms that requests take which make or change consumer groups.",
    BOUNDS_MS,
    "invocation_status",
)

# What comes in, by topic
_IN = ("topic", "message_type", "is_system")
MESSAGES_IN = counter("rocketmq_messages_in_total", "Messages that a topic has stored.", *_IN)
BYTES_IN = counter(
    "rocketmq_throughput_in_total", "Bytes of records that a topic has stored.", *_IN
)

SIZE_IN = histogram(
    "rocketmq_message_size",
    "Bytes of the records of messages that clients sent; a batch counts once, with the average of "
    "its messages.",
    SIZE_BOUNDS,
    *_IN,
)

# What goes out, by group and topic
_PAIR = ("consumer_group", "topic", "is_retry", "is_system")
MESSAGES_OUT = counter(
    "rocketmq_messages_out_total", "Messages that a group has got of a topic.", *_PAIR
)
BYTES_OUT = counter(
    "rocketmq_throughput_out_total", "Bytes of records that a group has got of a topic.", *_PAIR
)
LAG = gauge(
    "rocketmq_consumer_lag_messages",
    "Messages of a topic that a group has not committed.",
    *_PAIR,
)
LAG_LATENCY = gauge(
    "rocketmq_consumer_lag_latency",
    "ms since the first message was stored that the group has not committed; 0 if there is none.",
    *_PAIR,
)
INFLIGHT = gauge(
    "rocketmq_consumer_inflight_messages",
    "Messages that members of a group have got and not committed.",
    *_PAIR,
)
QUEUEING = gauge(
    "rocketmq_consumer_queueing_latency",
    "ms since the first message was stored that no member of the group has got; 0 if there is "
    "none.",
    *_PAIR,
)
READY = gauge(
    "rocketmq_consumer_ready_messages",
    "Messages of a topic that no member of a group has got.",
    *_PAIR,
)
DEAD = counter(
    "rocketmq_send_to_dlq_messages_total",
    "Messages of a topic that a group failed on so often that they became dead letters.",
    "consumer_group",
    "topic",
    "is_system",
)
FOLDED_TOPICS = gauge(
    "pyrmq_metrics_folded_topics",
    "Topics without rows of their own: they share the one whose topic is (others).",
)
FOLDED_PAIRS = gauge(
    "pyrmq_metrics_folded_groups",
    "Pairs of group and topic without rows of their own: they share the one of (others).",
)

# Clients
PRODUCERS = gauge(
    "rocketmq_producer_connections",
    "Connections of producers.",
    "language",
    "version",
    "protocol_type",
)
CONSUMERS = gauge(
    "rocketmq_consumer_connections",
    "Connections of the members of a group.",
    "consumer_group",
    "language",
    "version",
    "consume_mode",
    "protocol_type",
    "is_system",
)

# Transactions
HALVES = gauge("rocketmq_half_messages", "Halves that wait, by the topic they are for.", "topic")
COMMITS = counter("rocketmq_commit_messages_total", "Halves that were committed.", "topic")
ROLLBACKS = counter("rocketmq_rollback_messages_total", "Halves that were rolled back.", "topic")
FINISH = histogram(
    "rocketmq_finish_message_latency",
    "Whole seconds from the birth of halves to their commit.",
    FINISH_BOUNDS,
    "topic",
)
HALVES_TAKEN = counter("pyrmq_transaction_halves_total", "Halves that were stored.")
CHECKS = counter("pyrmq_transaction_checks_total", "Questions to producers about halves.")
DISCARDED = counter(
    "pyrmq_transaction_discarded_total", "Halves moved to TRANS_CHECK_MAX_TIME_TOPIC."
)
OLDEST_HALF = gauge(
    "pyrmq_transaction_oldest_pending_seconds", "Age of the oldest half that waits; 0: none does."
)
UNREACHABLE = gauge(
    "pyrmq_transaction_unreachable",
    "Halves that the last pass could ask no producer about: none of their group is connected.",
)

# The store
_STORE = ("storage_type", "storage_medium")
SIZE = gauge("rocketmq_storage_size", "Bytes of the files of log, queues and index.", *_STORE)
FLUSH_BEHIND = gauge(
    "rocketmq_storage_flush_behind_bytes", "Bytes of the log that are not on disk.", *_STORE
)
DISPATCH_BEHIND = gauge(
    "rocketmq_storage_dispatch_behind_bytes", "Bytes of the log that are not indexed.", *_STORE
)
RESERVED = gauge(
    "rocketmq_storage_message_reserve_time",
    "ms since the first message that is still there was stored.",
    *_STORE,
)
LOG_END = gauge("pyrmq_store_log_end_offset", "Physical offset behind the last record.")
LOG_START = gauge("pyrmq_store_log_start_offset", "Physical offset of the first record.")
CONFIRMED = gauge("pyrmq_store_confirmed_offset", "Physical offset below which all is confirmed.")
FAILED = gauge("pyrmq_store_failed", "1 after a write or flush failed: nothing is confirmed.")
STALL = gauge(
    "pyrmq_store_stall_seconds", "How long a write of the log takes so far; 0: none is waited for."
)
QUEUES = gauge("pyrmq_store_queues", "Message queues.")
DISK_USED = gauge(
    "pyrmq_disk_used_ratio", "Part of a folder's disk that is in use, as retention counts.", "path"
)
DISK_FREE = gauge("pyrmq_disk_free_bytes", "Bytes of a folder's disk that are free.", "path")

_TIMES = tuple(bound / 1e6 for bound in TIME_BOUNDS_US)
PUT_TIME = histogram(
    "pyrmq_store_put_seconds",
    "How long writes into the log take, one for all that came together. Long ones wait for the "
    "page cache.",
    _TIMES,
)
FLUSH_TIME = histogram(
    "pyrmq_store_flush_seconds", "How long flushes (fdatasync) of a log file take.", _TIMES
)
COMMIT_TIME = histogram(
    "pyrmq_store_commit_seconds",
    "Group commits: from the first write that one carries to the end of its flush.",
    _TIMES,
)
LOCK_WAIT = histogram(
    "pyrmq_store_lock_wait_seconds", "Waits for the put lock, where it was not free.", _TIMES
)
BARRIER_WAIT = histogram(
    "pyrmq_store_barrier_wait_seconds",
    "How long answers waited to be confirmed, once their records were written.",
    _TIMES,
)
SEND_TIME = histogram("pyrmq_store_send_seconds", "From sends to their answers.", _TIMES)
FLUSHED = counter("pyrmq_store_flushed_bytes_total", "Bytes of the log that were flushed.")
WRITE_STALLS = counter("pyrmq_store_write_stalls_total", "Writes into the log above 100 ms.")
BUSY = counter(
    "pyrmq_store_busy_refusals_total",
    "Messages refused with SYSTEM_BUSY, as a write of the log took too long.",
)
CONFIRM_LAG = gauge(
    "pyrmq_store_confirm_lag_bytes", "Bytes of the log that are written and not confirmed."
)
RECOVERY = gauge("pyrmq_store_recovery_seconds", "How long the store took to open at the start.")
RECOVERED = gauge(
    "pyrmq_store_recovered_records", "Records of the log that the start read to check them."
)
RECOVERED_BYTES = gauge("pyrmq_store_recovered_bytes", "Bytes of the log that the start read.")

# Delays and timers
DELAY_BEHIND = gauge(
    "pyrmq_delay_waiting_messages", "Messages with a delay level that are not delivered.", "level"
)
ENQUEUE_LAG = gauge(
    "rocketmq_timer_enqueue_lag", "Timer messages that are not in the wheel.", *_STORE
)
ENQUEUE_LATENCY = gauge(
    "rocketmq_timer_enqueue_latency",
    "ms between the last timer message that was stored and the last one in the wheel.",
    *_STORE,
)
DEQUEUE_LAG = gauge(
    "rocketmq_timer_dequeue_lag", "Timer messages in the wheel that are not delivered.", *_STORE
)
DEQUEUE_LATENCY = gauge(
    "rocketmq_timer_dequeue_latency", "ms that the wheel is behind the clock.", *_STORE
)
_OF_TIMERS = ("topic", *_STORE)
TIMERS_IN = counter(
    "rocketmq_timer_enqueue_total",
    "Timer messages put into the wheel, those that are recalls or come anew among them.",
    *_OF_TIMERS,
)
TIMERS_OUT = counter("rocketmq_timer_dequeue_total", "Timer messages delivered.", *_OF_TIMERS)
DELAYS = histogram(
    "rocketmq_delay_message_latency",
    "Whole seconds from the birth of timer messages to the time they are for.",
    DELAY_BOUNDS,
    *_OF_TIMERS,
)
SNAPSHOT = gauge(
    "rocketmq_timer_message_snapshot",
    "Timer messages in the wheel that are due within so many seconds, and not within the bound "
    "before.",
    "timer_bound_s",
    *_STORE,
)
TIMERS_LOST = counter("pyrmq_timer_lost_total", "Timer messages whose record is not there.")
TIMING = gauge("rocketmq_timing_messages", "Timer messages that wait, by topic.", *_OF_TIMERS)

# POP
POP_CHECK_POINTS = gauge(
    "rocketmq_pop_checkpoint_buffer_size", "Check points of pops that are kept in memory."
)
REVIVE_LAG = gauge(
    "rocketmq_pop_revive_lag", "Records of a revive queue that are not dealt with.", "queue_id"
)
REVIVE_LATENCY = gauge(
    "rocketmq_pop_revive_latency",
    "ms for which the first message of a revive queue has been visible.",
    "queue_id",
)
_POPPED = ("consumer_group", "topic")
REVIVE_IN = counter(
    "rocketmq_pop_revive_in_message_total",
    "Records stored for the revive topic: check points (CK), and acknowledgements (ACK).",
    *_POPPED,
    "revive_message_type",
    "put_status",
)
REVIVE_OUT = counter(
    "rocketmq_pop_revive_out_message_total",
    "Records read from the revive topic, when invisible times were over.",
    *_POPPED,
    "revive_message_type",
    "queue_id",
)
REVIVED = counter(
    "rocketmq_pop_revive_retry_messages_total",
    "Popped messages that came again, unacknowledged.",
    *_POPPED,
    "put_status",
)
JUDGED = counter("pyrmq_pop_check_points_total", "Check points of pops that were dealt with.")

# Replication
ROLE = gauge("pyrmq_ha_role", "1 for the role that the broker has.", "role")
SLAVES = gauge("pyrmq_ha_slaves", "Slaves that are connected to this master.")
IN_SYNC = gauge("pyrmq_ha_in_sync_slaves", "Slaves of this master that are in sync.")
SLAVE_LAG = gauge(
    "pyrmq_ha_slave_lag_bytes", "Bytes of the log that a slave has not reported.", "slave"
)
SLAVE_BEHIND = gauge(
    "pyrmq_ha_slave_lag_seconds", "How long ago a slave had all of the log.", "slave"
)
FOLLOWING = gauge("pyrmq_ha_following", "1 while this slave is connected to its master.")
MASTER_LAG = gauge("pyrmq_ha_master_lag_bytes", "Bytes that this slave is behind its master.")
HA_RATE = gauge("pyrmq_ha_received_bytes_per_second", "Bytes of the log that this slave receives.")

FAMILIES: tuple[Family, ...] = (
    PERMISSION, TOPICS, GROUPS, WATERMARK, CONNECTIONS, REFUSES,
    TOPIC_CREATE, GROUP_CREATE,
    MESSAGES_IN, BYTES_IN, FOLDED_TOPICS, SIZE_IN,
    MESSAGES_OUT, BYTES_OUT, LAG, LAG_LATENCY, INFLIGHT, QUEUEING, READY, DEAD, FOLDED_PAIRS,
    PRODUCERS, CONSUMERS,
    HALVES, COMMITS, ROLLBACKS, FINISH, HALVES_TAKEN, CHECKS, DISCARDED, OLDEST_HALF, UNREACHABLE,
    SIZE, FLUSH_BEHIND, DISPATCH_BEHIND, RESERVED, LOG_END, LOG_START, CONFIRMED, FAILED, STALL,
    QUEUES, DISK_USED, DISK_FREE,
    PUT_TIME, FLUSH_TIME, COMMIT_TIME, LOCK_WAIT, BARRIER_WAIT, SEND_TIME, FLUSHED, WRITE_STALLS,
    BUSY, CONFIRM_LAG, RECOVERY, RECOVERED, RECOVERED_BYTES,
    DELAY_BEHIND, ENQUEUE_LAG, ENQUEUE_LATENCY, DEQUEUE_LAG, DEQUEUE_LATENCY,
    TIMERS_IN, TIMERS_OUT, TIMERS_LOST, DELAYS, SNAPSHOT, TIMING,
    POP_CHECK_POINTS, REVIVE_LAG, REVIVE_LATENCY, REVIVE_IN, REVIVE_OUT, REVIVED, JUDGED,
    ROLE, SLAVES, IN_SYNC, SLAVE_LAG, SLAVE_BEHIND, FOLLOWING, MASTER_LAG, HA_RATE,
)  # fmt: skip
"""All of them, in the order of the page."""
