"""What the Grafana dashboards show: expressions over the metrics of docs/metrics.md.

Master and slave of a broker have one `node_id`, and both show what they store: `_of_pair` takes the
larger of the two, so that a message counts once.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Panel:
    """`targets`: expression and legend of each line. `bad`: from this value on a stat is red."""

    title: str
    unit: str
    targets: tuple[tuple[str, str], ...]
    kind: str = "timeseries"
    width: int = 8
    bad: float | None = None


@dataclass(frozen=True)
class Dashboard:
    """`variables`: name and query of each; `rows`: title and panels of each."""

    name: str
    title: str
    description: str
    variables: tuple[tuple[str, str], ...]
    rows: tuple[tuple[str, tuple[Panel, ...]], ...]


RATE = "[$__rate_interval]"
CLUSTER = ("cluster", "label_values(rocketmq_broker_permission, cluster)")
NODE = ("node_id", 'label_values(rocketmq_broker_permission{cluster=~"$cluster"}, node_id)')
TOPIC = ("topic", 'label_values(rocketmq_messages_in_total{cluster=~"$cluster"}, topic)')
GROUP = (
    "consumer_group",
    'label_values(rocketmq_consumer_lag_messages{cluster=~"$cluster"}, consumer_group)',
)
AT = '{cluster=~"$cluster", node_id=~"$node_id"}'
_T = 'cluster=~"$cluster", topic=~"$topic"'
OF_TOPIC = f"{{{_T}}}"
OF_GROUP = f'{{{_T}, consumer_group=~"$consumer_group"}}'
SERVER = "{{instance}}"


def stat(
    title: str, expression: str, unit: str = "short", bad: float | None = None, width: int = 4
) -> Panel:
    return Panel(title, unit, ((expression, ""),), "stat", width, bad)


def lines(title: str, unit: str, *targets: tuple[str, str], width: int = 8) -> Panel:
    return Panel(title, unit, targets, width=width)


def quantiles(title: str, metric: str, labels: str, unit: str = "s", by: str = "") -> Panel:
    """Half, and one of a hundred, are below."""
    legend = f"{{{{{by}}}}}" if by else SERVER
    by = by or "instance"
    targets = tuple(
        (
            f"histogram_quantile({part}, sum by ({by}, le) (rate({metric}_bucket{labels}{RATE})))",
            f"{name} {legend}",
        )
        for part, name in ((0.5, "p50"), (0.99, "p99"))
    )
    return Panel(title, unit, targets)


def _of_pair(by: str, expression: str) -> str:
    return f"sum by ({by}) (max by (cluster, node_id, {by}) ({expression}))"


def _topic(name: str) -> tuple[str, str]:
    return _of_pair("topic", f"sum by (cluster, node_id, instance, topic) ({name})"), "{{topic}}"


def _group(name: str) -> tuple[str, str]:
    inner = f"sum by (cluster, node_id, instance, consumer_group, topic) ({name})"
    return _of_pair("consumer_group, topic", inner), "{{consumer_group}} {{topic}}"


def _oldest(name: str) -> tuple[str, str]:
    pair = "consumer_group, topic"
    return f"max by ({pair}) ({name}{OF_GROUP})", "{{consumer_group}} {{topic}}"


def process(at: str) -> tuple[str, tuple[Panel, ...]]:
    return (
        "Process",
        (
            lines("CPU", "percentunit", (f"rate(process_cpu_seconds_total{at}{RATE})", SERVER)),
            lines("Memory", "bytes", (f"process_resident_memory_bytes{at}", SERVER)),
            quantiles("How late the event loop is", "pyrmq_loop_lag_seconds", at),
            lines(
                "Descriptors in use",
                "percentunit",
                (f"process_open_fds{at} / process_max_fds{at}", SERVER),
            ),
            lines("Threads", "short", (f"pyrmq_threads{at}", SERVER)),
            lines("Page of metrics", "s", (f"pyrmq_metrics_page_seconds{at}", SERVER)),
        ),
    )


def requests(at: str) -> tuple[str, tuple[Panel, ...]]:
    answered = at.replace("}", ', is_long_polling="false"}')
    return (
        "Requests",
        (
            lines(
                "Requests",
                "reqps",
                (f"sum by (request_code) (rate(rocketmq_rpc_latency_count{at}{RATE}))",
                 "{{request_code}}"),
            ),
            lines(
                "Answers other than success",
                "reqps",
                ("sum by (request_code, response_code) (rate(rocketmq_rpc_latency_count"
                 + at.replace("}", ', response_code!="success"}') + f"{RATE}))",
                 "{{request_code}} {{response_code}}"),
            ),
            quantiles("Time to the answer", "rocketmq_rpc_latency", answered, "ms", "request_code"),
        ),
    )  # fmt: skip


BROKERS = Dashboard(
    "brokers",
    "brokers",
    "Cluster and brokers: traffic, requests, store, process.",
    (CLUSTER, NODE),
    (
        (
            "Cluster",
            (
                stat("Brokers", f"count(rocketmq_broker_permission{AT})"),
                stat("Refusing messages", f"sum(pyrmq_broker_refuses_messages{AT})", bad=1),
                stat("Failed stores", f"sum(pyrmq_store_failed{AT})", bad=1),
                stat("Fullest disk", f"max(pyrmq_disk_used_ratio{AT})", "percentunit", 0.8),
                stat("Topics", f"max(rocketmq_topic_number{AT})"),
                stat("Groups", f"max(rocketmq_consumer_group_number{AT})"),
            ),
        ),
        (
            "Traffic",
            (
                lines("Messages in", "mps",
                      (f"sum by (instance) (rate(rocketmq_messages_in_total{AT}{RATE}))", SERVER)),
                lines("Messages out", "mps",
                      (f"sum by (instance) (rate(rocketmq_messages_out_total{AT}{RATE}))", SERVER)),
                lines("Bytes in and out", "Bps",
                      (f"sum by (instance) (rate(rocketmq_throughput_in_total{AT}{RATE}))",
                       f"in {SERVER}"),
                      (f"sum by (instance) (rate(rocketmq_throughput_out_total{AT}{RATE}))",
                       f"out {SERVER}")),
                lines("Connections", "short", (f"pyrmq_connections{AT}", SERVER)),
                lines("Requests that wait", "short",
                      (f"rocketmq_processor_watermark{AT}", f"{{{{processor}}}} {SERVER}")),
                quantiles("Sizes of messages", "rocketmq_message_size", AT, "bytes"),
            ),
        ),
        requests(AT),
        (
            "Store",
            (
                quantiles("Sends", "pyrmq_store_send_seconds", AT),
                quantiles("Writes into the log", "pyrmq_store_put_seconds", AT),
                quantiles("Flushes", "pyrmq_store_flush_seconds", AT),
                quantiles("Group commits", "pyrmq_store_commit_seconds", AT),
                quantiles("Waits for confirmation", "pyrmq_store_barrier_wait_seconds", AT),
                quantiles("Waits for the put lock", "pyrmq_store_lock_wait_seconds", AT),
                lines("Behind", "bytes",
                      (f"rocketmq_storage_flush_behind_bytes{AT}", f"not on disk {SERVER}"),
                      (f"rocketmq_storage_dispatch_behind_bytes{AT}", f"not indexed {SERVER}"),
                      (f"pyrmq_store_confirm_lag_bytes{AT}", f"not confirmed {SERVER}")),
                lines("Stalls and refusals", "short",
                      (f"increase(pyrmq_store_write_stalls_total{AT}{RATE})", f"stalls {SERVER}"),
                      (f"increase(pyrmq_store_busy_refusals_total{AT}{RATE})",
                       f"refused {SERVER}")),
                lines("Flushed", "Bps",
                      (f"rate(pyrmq_store_flushed_bytes_total{AT}{RATE})", SERVER)),
                lines("Disk in use", "percentunit",
                      (f"pyrmq_disk_used_ratio{AT}", f"{SERVER} {{{{path}}}}")),
                lines("Size of the store", "bytes", (f"rocketmq_storage_size{AT}", SERVER)),
                lines("Age of the first message", "ms",
                      (f"rocketmq_storage_message_reserve_time{AT}", SERVER)),
                lines("Recovery at the start", "s", (f"pyrmq_store_recovery_seconds{AT}", SERVER)),
            ),
        ),
        process(AT),
    ),
)  # fmt: skip

TOPICS = Dashboard(
    "topics-groups",
    "topics and groups",
    "What comes in by topic, what groups get and how far they are behind. The row (others) is all "
    "that have no rows of their own.",
    (CLUSTER, TOPIC, GROUP),
    (
        (
            "Topics",
            (
                lines("Messages in", "mps",
                      _topic(f"rate(rocketmq_messages_in_total{OF_TOPIC}{RATE})")),
                lines("Bytes in", "Bps",
                      _topic(f"rate(rocketmq_throughput_in_total{OF_TOPIC}{RATE})")),
                lines("Without rows of their own", "short",
                      ('pyrmq_metrics_folded_topics{cluster=~"$cluster"}', f"topics {SERVER}"),
                      ('pyrmq_metrics_folded_groups{cluster=~"$cluster"}', f"groups {SERVER}")),
            ),
        ),
        (
            "Groups",
            (
                lines("Messages behind", "short",
                      _group(f"rocketmq_consumer_lag_messages{OF_GROUP}")),
                lines("Age of the first message that is not committed", "ms",
                      _oldest("rocketmq_consumer_lag_latency")),
                lines("Age of the first message that nobody has got", "ms",
                      _oldest("rocketmq_consumer_queueing_latency")),
                lines("Got and not committed", "short",
                      _group(f"rocketmq_consumer_inflight_messages{OF_GROUP}")),
                lines("Not got", "short", _group(f"rocketmq_consumer_ready_messages{OF_GROUP}")),
                lines("Messages out", "mps",
                      _group(f"rate(rocketmq_messages_out_total{OF_GROUP}{RATE})")),
                lines("Bytes out", "Bps",
                      _group(f"rate(rocketmq_throughput_out_total{OF_GROUP}{RATE})")),
                lines("Dead letters", "short",
                      _group(f"increase(rocketmq_send_to_dlq_messages_total{OF_GROUP}{RATE})")),
            ),
        ),
        (
            "Clients",
            (
                lines("Members of groups", "short",
                      ("sum by (consumer_group) (rocketmq_consumer_connections"
                       '{cluster=~"$cluster", consumer_group=~"$consumer_group"})',
                       "{{consumer_group}}")),
                lines("Consumers by version", "short",
                      ("sum by (language, version, consume_mode) (rocketmq_consumer_connections"
                       '{cluster=~"$cluster", consumer_group=~"$consumer_group"})',
                       "{{language}} {{version}} {{consume_mode}}")),
                lines("Producers by version", "short",
                      ("sum by (language, version) (rocketmq_producer_connections"
                       '{cluster=~"$cluster"})', "{{language}} {{version}}")),
            ),
        ),
    ),
)  # fmt: skip

LATER = Dashboard(
    "transactions-timers-pop",
    "transactions, timers, POP",
    "Messages that wait: halves, delays, timers, popped ones.",
    (CLUSTER, NODE),
    (
        (
            "Transactions",
            (
                lines("Halves that wait", "short",
                      (f"sum by (topic) (rocketmq_half_messages{AT})", "{{topic}}")),
                lines("Age of the oldest half", "s",
                      (f"pyrmq_transaction_oldest_pending_seconds{AT}", SERVER)),
                lines("Halves nobody can be asked about", "short",
                      (f"pyrmq_transaction_unreachable{AT}", SERVER)),
                lines("Ends", "ops",
                      (f"rate(pyrmq_transaction_halves_total{AT}{RATE})", f"halves {SERVER}"),
                      (f"sum by (instance) (rate(rocketmq_commit_messages_total{AT}{RATE}))",
                       f"committed {SERVER}"),
                      (f"sum by (instance) (rate(rocketmq_rollback_messages_total{AT}{RATE}))",
                       f"rolled back {SERVER}")),
                quantiles("From birth to commit", "rocketmq_finish_message_latency", AT),
                lines("Questions to producers", "ops",
                      (f"rate(pyrmq_transaction_checks_total{AT}{RATE})", SERVER)),
                lines("Given up", "short",
                      (f"increase(pyrmq_transaction_discarded_total{AT}{RATE})", SERVER)),
            ),
        ),
        (
            "Delays and timers",
            (
                lines("Delay levels: messages that wait", "short",
                      (f"sum by (level) (pyrmq_delay_waiting_messages{AT})", "level {{level}}")),
                lines("Timers: messages that wait", "short",
                      (f"sum by (topic) (rocketmq_timing_messages{AT})", "{{topic}}")),
                lines("Timers: how late", "ms",
                      (f"rocketmq_timer_dequeue_latency{AT}", f"wheel {SERVER}"),
                      (f"rocketmq_timer_enqueue_latency{AT}", f"into the wheel {SERVER}")),
                lines("Timers: in and out", "ops",
                      (f"sum by (instance) (rate(rocketmq_timer_enqueue_total{AT}{RATE}))",
                       f"in {SERVER}"),
                      (f"sum by (instance) (rate(rocketmq_timer_dequeue_total{AT}{RATE}))",
                       f"out {SERVER}")),
                lines("Timers: in the wheel", "short",
                      (f"rocketmq_timer_dequeue_lag{AT}", f"in it {SERVER}"),
                      (f"rocketmq_timer_enqueue_lag{AT}", f"not yet {SERVER}")),
                lines("Timers: when they are due", "short",
                      (f"sum by (timer_bound_s) (rocketmq_timer_message_snapshot{AT})",
                       "within {{timer_bound_s}} s")),
                quantiles("Timers: delays that were asked for", "rocketmq_delay_message_latency",
                          AT),
                lines("Timers: lost", "short", (f"pyrmq_timer_lost_total{AT}", SERVER)),
            ),
        ),
        (
            "POP",
            (
                lines("Revive: records behind", "short",
                      (f"sum by (instance) (rocketmq_pop_revive_lag{AT})", SERVER)),
                lines("Revive: how late", "ms",
                      (f"max by (instance) (rocketmq_pop_revive_latency{AT})", SERVER)),
                lines("Check points in memory", "short",
                      (f"rocketmq_pop_checkpoint_buffer_size{AT}", SERVER)),
                lines("Check points dealt with", "ops",
                      (f"rate(pyrmq_pop_check_points_total{AT}{RATE})", SERVER)),
                lines("Messages that came again", "ops",
                      (f"sum by (instance) "
                       f"(rate(rocketmq_pop_revive_retry_messages_total{AT}{RATE}))", SERVER)),
                lines("Check points and acknowledgements stored", "ops",
                      ("sum by (revive_message_type, instance) "
                       f"(rate(rocketmq_pop_revive_in_message_total{AT}{RATE}))",
                       f"{{{{revive_message_type}}}} {SERVER}")),
                lines("Check points and acknowledgements that were due", "ops",
                      ("sum by (revive_message_type, instance) "
                       f"(rate(rocketmq_pop_revive_out_message_total{AT}{RATE}))",
                       f"{{{{revive_message_type}}}} {SERVER}")),
            ),
        ),
    ),
)  # fmt: skip

HA = Dashboard(
    "ha",
    "replication",
    "Masters and slaves.",
    (CLUSTER, NODE),
    (
        (
            "Now",
            (
                stat("Masters", f'count(pyrmq_ha_role{{{AT[1:-1]}, role=~".*_master"}})'),
                stat("Slaves", f'count(pyrmq_ha_role{{{AT[1:-1]}, role="slave"}})'),
                stat("Slaves without a master", f"count(pyrmq_ha_following{AT} == 0) or vector(0)",
                     bad=1),
                stat("Slave that is most behind", f"max(pyrmq_ha_slave_lag_seconds{AT})", "s", 60),
            ),
        ),
        (
            "Masters",
            (
                lines("Slaves", "short",
                      (f"pyrmq_ha_slaves{AT}", f"connected {SERVER}"),
                      (f"pyrmq_ha_in_sync_slaves{AT}", f"in sync {SERVER}")),
                lines("Slaves: bytes behind", "bytes",
                      (f"pyrmq_ha_slave_lag_bytes{AT}", "{{node_id}} {{slave}}")),
                lines("Slaves: seconds behind", "s",
                      (f"pyrmq_ha_slave_lag_seconds{AT}", "{{node_id}} {{slave}}")),
                lines("Log", "bytes",
                      (f"pyrmq_store_log_end_offset{AT}", f"end {SERVER}"),
                      (f"pyrmq_store_confirmed_offset{AT}", f"confirmed {SERVER}")),
                quantiles("Waits for confirmation", "pyrmq_store_barrier_wait_seconds", AT),
            ),
        ),
        (
            "Slaves",
            (
                lines("Connected to the master", "short", (f"pyrmq_ha_following{AT}", SERVER)),
                lines("Bytes behind", "bytes", (f"pyrmq_ha_master_lag_bytes{AT}", SERVER)),
                lines("Received", "Bps", (f"pyrmq_ha_received_bytes_per_second{AT}", SERVER)),
            ),
        ),
    ),
)  # fmt: skip

_NAMES = '{node_type="nameserver", node_id=~"$node_id"}'
NAMESRV = Dashboard(
    "namesrv",
    "name servers",
    "Routes, requests, process.",
    (("node_id", "label_values(pyrmq_namesrv_brokers, node_id)"),),
    (
        (
            "Routes",
            (
                stat("Name servers", f"count(pyrmq_namesrv_brokers{_NAMES})"),
                stat("Names without a master",
                     f"max(pyrmq_namesrv_broker_names_without_master{_NAMES})", bad=1),
                lines("Brokers", "short",
                      (f"pyrmq_namesrv_brokers{_NAMES}", f"brokers {SERVER}"),
                      (f"pyrmq_namesrv_broker_names{_NAMES}", f"names {SERVER}")),
                lines("Topics", "short", (f"pyrmq_namesrv_topics{_NAMES}", SERVER)),
            ),
        ),
        (
            "Configuration and connections",
            (
                lines("Clusters", "short", (f"pyrmq_namesrv_clusters{_NAMES}", SERVER)),
                lines("KV configuration", "short",
                      (f"pyrmq_namesrv_kv_namespaces{_NAMES}", f"namespaces {SERVER}"),
                      (f"pyrmq_namesrv_kv_values{_NAMES}", f"values {SERVER}")),
                lines("Connections", "short", (f"pyrmq_connections{_NAMES}", SERVER)),
            ),
        ),
        requests(_NAMES),
        process(_NAMES),
    ),
)  # fmt: skip

_SENDS = '{topic=~"$topic"}'
_CONSUMES = '{topic=~"$topic", consumer_group=~"$consumer_group"}'
CLIENTS = Dashboard(
    "clients",
    "clients",
    "What producers and consumers measure: pyrmq.ClientMetrics, or OpenTelemetry's.",
    (
        ("topic", "label_values(rocketmq_send_cost_time_count, topic)"),
        ("consumer_group", "label_values(rocketmq_process_time_count, consumer_group)"),
    ),
    (
        (
            "Producers",
            (
                lines("Sends", "mps",
                      ("sum by (topic, invocation_status) (rate(rocketmq_send_cost_time_count"
                       f"{_SENDS}{RATE}))", "{{topic}} {{invocation_status}}")),
                quantiles("Time of a send", "rocketmq_send_cost_time", _SENDS, "ms", "topic"),
                lines("Sends by client", "mps",
                      (f"sum by (client_id) (rate(rocketmq_send_cost_time_count{_SENDS}{RATE}))",
                       "{{client_id}}")),
            ),
        ),
        (
            "Consumers",
            (
                lines("Consumed", "mps",
                      ("sum by (consumer_group, topic, invocation_status) "
                       f"(rate(rocketmq_process_time_count{_CONSUMES}{RATE}))",
                       "{{consumer_group}} {{topic}} {{invocation_status}}")),
                quantiles("Time of consuming", "rocketmq_process_time", _CONSUMES, "ms",
                          "consumer_group"),
                quantiles("From the broker's store to the consumer", "rocketmq_delivery_latency",
                          _CONSUMES, "ms", "consumer_group"),
                quantiles("Waits in the consumer", "rocketmq_await_time", _CONSUMES, "ms",
                          "consumer_group"),
                lines("Messages that wait in the consumer", "short",
                      ("sum by (consumer_group, client_id) "
                       f"(rocketmq_consumer_cached_messages{_CONSUMES})",
                       "{{consumer_group}} {{client_id}}")),
                lines("Bytes that wait in the consumer", "bytes",
                      ("sum by (consumer_group, client_id) "
                       f"(rocketmq_consumer_cached_bytes{_CONSUMES})",
                       "{{consumer_group}} {{client_id}}")),
            ),
        ),
    ),
)  # fmt: skip

DASHBOARDS = (BROKERS, TOPICS, LATER, HA, NAMESRV, CLIENTS)
