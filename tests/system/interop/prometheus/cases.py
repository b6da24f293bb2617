"""For each alert: rows of metrics that are good, then bad, then good again.

The notation is promtool's, one value a minute: `1x9` is 1 ten times, `5+5x39` is 5, 10, … forty
values, `_x39` is nothing forty times. Unless a case says otherwise, rows are bad from minute 10 on,
until 49.
"""

from __future__ import annotations

from dataclasses import dataclass

GOOD_AT, FIRES_AT, CLEAR_AT = 9, 48, 118
_N = 'cluster="C", node_type="broker", node_id="b", instance="i:1", job="rocketmq"'
_NAMES = 'node_type="nameserver", node_id="n", instance="n:1", job="rocketmq"'
_PAIR = f'{_N}, consumer_group="G", topic="T", is_retry="false", is_system="false"'
_STORE = f'{_N}, storage_type="default", storage_medium="disk"'


@dataclass(frozen=True)
class Case:
    """`rows`: series and values. It fires at one minute; before and after it does not."""

    rows: tuple[tuple[str, str], ...]
    good: int = GOOD_AT
    fires: int = FIRES_AT
    clear: int = CLEAR_AT


def flips(good: object, bad: object) -> str:
    return f"{good}x9 {bad}x39 {good}x69"


def grows(by: int) -> str:
    """A counter that stands still, grows, and stands still."""
    return f"0x9 {by}+{by}x39 {40 * by}x69"


def gauge(name: str, good: object, bad: object, labels: str = _N) -> Case:
    return Case(((f"{name}{{{labels}}}", flips(good, bad)),))


def counter(name: str, by: int = 10) -> Case:
    return Case(((f"{name}{{{_N}}}", grows(by)),))


def slow(name: str, fast: str, late: str) -> Case:
    """A histogram whose values are all in one bucket, and while it is bad in a later one."""
    fast_ones = "0+100x9 900x39 900+100x69"
    every = "0+100x118"
    return Case(
        tuple(
            (f'{name}_bucket{{{_N}, le="{le}"}}', values)
            for le, values in ((fast, fast_ones), (late, every), ("+Inf", every))
        )
    )


def failing(name: str, labels: str, failed: str, well: str) -> Case:
    """A tenth, or more, of what is counted fails."""
    return Case(
        (
            (f"{name}{{{labels}, {well}}}", "0+100x118"),
            (f"{name}{{{labels}, {failed}}}", grows(50)),
        )
    )


def master(case: Case, role: str = "async_master") -> Case:
    """The broker also says which role it has."""
    return Case((*case.rows, (f'pyrmq_ha_role{{{_N}, role="{role}"}}', "1x118")))


CASES: dict[str, Case] = {
    "PyrmqServerDown": gauge("up", 1, 0, 'instance="i:1", job="rocketmq"'),
    "PyrmqNoBroker": gauge("rocketmq_broker_permission", 6, "_"),
    "PyrmqServerRestarts": Case(
        ((f"process_start_time_seconds{{{_N}}}", "1x9 2 3 4 5 5x100"),), fires=14, clear=40
    ),
    "PyrmqLoopSlow": slow("pyrmq_loop_lag_seconds", "0.25", "0.5"),
    "PyrmqDescriptorsAlmostUsed": Case(
        (
            (f"process_open_fds{{{_N}}}", flips(10, 90)),
            (f"process_max_fds{{{_N}}}", "100x118"),
        )
    ),
    "PyrmqRequestsFail": failing(
        "rocketmq_rpc_latency_count",
        f'{_N}, request_code="send_message_v2"',
        'response_code="system_busy"',
        'response_code="success"',
    ),
    "PyrmqMetricsFolded": Case(
        (
            (f"pyrmq_metrics_folded_topics{{{_N}}}", "0x178"),
            (f"pyrmq_metrics_folded_groups{{{_N}}}", "0x9 3x99 0x69"),
        ),
        fires=100,
        clear=170,
    ),
    "PyrmqStoreFailed": gauge("pyrmq_store_failed", 0, 1),
    "PyrmqBrokerRefusesMessages": gauge("pyrmq_broker_refuses_messages", 0, 1),
    "PyrmqDiskAlmostFull": gauge("pyrmq_disk_used_ratio", 0.79, 0.81, f'{_N}, path="/p"'),
    "PyrmqDiskWillBeFull": Case(
        (
            (
                f'pyrmq_disk_free_bytes{{{_N}, path="/p"}}',
                "600000000000x9 595000000000-5000000000x79 195000000000x129",
            ),
            (f'pyrmq_disk_used_ratio{{{_N}, path="/p"}}', "0.7x218"),
        ),
        fires=85,
        clear=215,
    ),
    "PyrmqWritesStall": Case(
        (
            (f"pyrmq_store_write_stalls_total{{{_N}}}", grows(5)),
            (f"pyrmq_store_stall_seconds{{{_N}}}", "0x118"),
        )
    ),
    "PyrmqBusyRefusals": counter("pyrmq_store_busy_refusals_total"),
    "PyrmqConfirmsLate": gauge("pyrmq_store_confirm_lag_bytes", 1000, 100_000_000),
    "PyrmqFlushBehind": gauge("rocketmq_storage_flush_behind_bytes", 1000, 2_000_000_000, _STORE),
    "PyrmqDispatchBehind": gauge("rocketmq_storage_dispatch_behind_bytes", 0, 100_000_000, _STORE),
    "PyrmqSendsSlow": slow("pyrmq_store_send_seconds", "0.5", "1"),
    "PyrmqGroupBehind": gauge("rocketmq_consumer_lag_latency", 100, 700_000, _PAIR),
    "PyrmqGroupWithoutMembers": Case(
        (
            (f"rocketmq_consumer_lag_messages{{{_PAIR}}}", "5000x118"),
            (f'rocketmq_consumer_connections{{{_N}, consumer_group="G"}}', flips(1, "_")),
        )
    ),
    "PyrmqDeadLetters": Case(
        (
            (
                f'rocketmq_send_to_dlq_messages_total{{{_N}, consumer_group="G", topic="T"}}',
                "_x10 1x100",
            ),
        ),
        fires=12,
        clear=40,
    ),
    "PyrmqTransactionsPending": master(gauge("pyrmq_transaction_oldest_pending_seconds", 0, 900)),
    "PyrmqTransactionsUnreachable": master(gauge("pyrmq_transaction_unreachable", 0, 2)),
    "PyrmqTransactionsDiscarded": counter("pyrmq_transaction_discarded_total"),
    "PyrmqTimersLate": master(gauge("rocketmq_timer_dequeue_latency", 10, 40_000, _STORE)),
    "PyrmqTimersLost": counter("pyrmq_timer_lost_total"),
    "PyrmqPopReviveBehind": master(
        gauge("rocketmq_pop_revive_latency", 100, 70_000, f'{_N}, queue_id="0"')
    ),
    "PyrmqSyncReplicasMissing": master(gauge("pyrmq_ha_in_sync_slaves", 1, 0), "sync_master"),
    "PyrmqSlaveLost": gauge("pyrmq_ha_slaves", 1, 0),
    "PyrmqSlaveBehind": gauge("pyrmq_ha_slave_lag_seconds", 0, 90, f'{_N}, slave="s:1"'),
    "PyrmqSlaveFollowsNobody": gauge("pyrmq_ha_following", 1, 0),
    "PyrmqBrokerWithoutMaster": gauge("pyrmq_namesrv_broker_names_without_master", 0, 1, _NAMES),
    "PyrmqNameServersDiffer": Case(
        (
            (f"pyrmq_namesrv_brokers{{{_NAMES}}}", "2x118"),
            (
                'pyrmq_namesrv_brokers{node_type="nameserver", instance="m:1", job="rocketmq"}',
                flips(2, 1),
            ),
        )
    ),
    "PyrmqClientSendsFail": failing(
        "rocketmq_send_cost_time_count",
        'topic="T", client_id="c", instance="c:1", job="clients"',
        'invocation_status="failure"',
        'invocation_status="success"',
    ),
    "PyrmqClientConsumesFail": failing(
        "rocketmq_process_time_count",
        'topic="T", consumer_group="G", client_id="c", instance="c:1", job="clients"',
        'invocation_status="failure"',
        'invocation_status="success"',
    ),
}
QUIET: dict[str, Case] = {
    "PyrmqTransactionsPending": master(CASES["PyrmqTransactionsPending"], "slave"),
    "PyrmqTimersLate": Case((
        (f"rocketmq_timer_dequeue_latency{{{_STORE}}}", "40000x118"),
        (f'pyrmq_ha_role{{{_N}, role="slave"}}', "1x118"),
    )),
    "PyrmqSyncReplicasMissing": master(gauge("pyrmq_ha_in_sync_slaves", 0, 0)),
    "PyrmqDiskWillBeFull": Case((
        (f'pyrmq_disk_free_bytes{{{_N}, path="/p"}}', "600000000000-5000000000x79"),
        (f'pyrmq_disk_used_ratio{{{_N}, path="/p"}}', "0.3x118"),
    )),
    "PyrmqGroupWithoutMembers": Case((
        (f"rocketmq_consumer_lag_messages{{{_PAIR}}}", "500x118"),
    )),
    "PyrmqNameServersDiffer": Case((
        (f"pyrmq_namesrv_brokers{{{_NAMES}}}", "2x118"),
        ('pyrmq_namesrv_brokers{node_type="nameserver", instance="m:1", job="other"}', "1x118"),
    )),
    "PyrmqServerDown": gauge("up", 0, 0, 'instance="c:1", job="rocketmq-clients"'),
}  # fmt: skip
"""Rows for which an alert never fires: others' affair, or none at all."""
