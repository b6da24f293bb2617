"""Which test files run one after another in one worker of pytest-xdist, and which of them first.

A file always stays together: its fixtures are built once. Files that share something that costs
more than it saves to build it twice (a JVM with Spark in it) are one group.
"""

from __future__ import annotations


def _spark(*names: str) -> tuple[str, ...]:
    return tuple(f"tests/spark/e2e/test_{name}.py" for name in names)


# A Spark for each of the first two: they have all files that take one. With more of them at once on
# two cores a Python that Spark starts may need more than the ten seconds that Spark waits for it.
GROUPS: dict[str, tuple[str, ...]] = {
    "spark-proof": (
        "tests/spark/e2e/proof/",
        *_spark("api_facts", "broker_read", "docs", "registration", "stream"),
    ),
    "spark": (
        "tests/spark/e2e/jobs/",
        "tests/spark/e2e/jvm/",
        *_spark("bad_input", "batch", "body", "history", "kafka_habits", "setup", "sink"),
    ),
    "faults": ("tests/system/faults/",),
}
"""Beginnings of the paths of a group's files."""

LONG: tuple[str, ...] = (
    "tests/system/interop/test_timer_exchange.py",
    "tests/system/interop/test_pop_states_exchange.py",
    "tests/system/interop/test_pop_exchange.py",
    "tests/system/interop/test_running_consumers.py",
    "tests/system/interop/test_pop_clients.py",
    "tests/system/interop/test_store_exchange.py",
    "tests/cli/e2e/test_cli_serve.py",
    "tests/system/interop/test_retries.py",
    "tests/system/interop/test_java.py",
    "tests/system/ha/test_pair.py",
    "tests/system/crash/test_killed_deliveries.py",
    "tests/client/e2e/test_pop.py",
    "tests/console/e2e/test_topics_groups_browser.py",
    "tests/console/e2e/test_sessions_in_browser.py",
    "tests/console/e2e/test_server_rooms.py",
    "tests/console/e2e/test_service.py",
    "tests/docs/e2e/test_walks.py",
    "tests/system/ha/test_crash_loop.py",
    "tests/system/interop/test_transactions.py",
    "tests/broker/e2e/test_queries.py",
    "tests/system/interop/test_secured.py",
    "tests/spark/e2e/test_sink_idempotent.py",
    "tests/system/rolling/test_rolling_restart.py",
    "tests/system/simulation/test_pops.py",
    "tests/system/interop/test_mqadmin.py",
    "tests/system/crash/test_pop_steps.py",
    "tests/broker/e2e/test_exporter.py",
    "tests/system/crash/test_killed_timers.py",
    "tests/system/crash/test_killed_pops.py",
    "tests/system/interop/test_transaction_exchange.py",
    "tests/system/interop/test_access_as_apache.py",
    "tests/system/interop/test_java_tls.py",
    "tests/admin/e2e/bad_servers/test_distorted_answers.py",
    "tests/system/soak/test_soak.py",
    "tests/broker/e2e/test_granted_pulls.py",
    "tests/system/ha/test_timers.py",
    "tests/house/e2e/types/test_programs.py",
    "tests/system/interop/test_alerts.py",
    "tests/outbox/e2e/test_killed_service.py",
    "tests/admin/e2e/bad_servers/test_silent_servers.py",
    "tests/docs/e2e/test_first_change.py",
    "tests/system/crash/test_transaction_steps.py",
    "tests/outbox/e2e/test_example.py",
    "tests/system/simulation/test_transactions.py",
    "tests/system/ha/test_pops.py",
    "tests/bench/unit/test_pop.py",
    "tests/net/unit/session/test_pieces.py",
    "tests/system/interop/test_mqadmin_pops.py",
    "tests/store/unit/test_model.py",
    "tests/store/unit/test_torn_tail.py",
    "tests/admin/e2e/test_missing_brokers.py",
    "tests/store/unit/test_index_model.py",
    "tests/system/interop/test_traced.py",
    "tests/metrics/e2e/test_many_groups.py",
    "tests/system/interop/test_pop_as_apache.py",
    "tests/client/e2e/test_timers.py",
    "tests/spark/e2e/test_apache_broker.py",
    "tests/support/test_once_more.py",
    "tests/system/interop/test_mixed_groups.py",
    "tests/docs/e2e/test_examples.py",
    "tests/logs/unit/test_log_forms.py",
    "tests/system/interop/test_replication.py",
    "tests/system/hostile/requests/test_bounds.py",
    "tests/system/interop/test_client_transactions.py",
    "tests/system/crash/test_kill_loop.py",
    "tests/system/crash/test_transaction_kill_loop.py",
    "tests/admin/unit/test_admin_halves.py",
    "tests/broker/e2e/test_delay_progress.py",
    "tests/broker/e2e/test_crowd_and_demo.py",
    "tests/admin/e2e/test_ends_of_output.py",
    "tests/outbox/unit/test_races.py",
    "tests/system/interop/test_admin_txn.py",
    "tests/system/interop/test_mqadmin_offsets.py",
    "tests/system/interop/test_go.py",
    "tests/system/interop/test_python.py",
    "tests/spark/e2e/test_worker.py",
    "tests/client/e2e/test_rebalance.py",
    "tests/segments/unit/test_plan_index.py",
    "tests/net/unit/test_fastjson.py",
    "tests/store/unit/test_many_queues.py",
    "tests/system/simulation/test_groups.py",
    "tests/system/simulation/test_table.py",
    "tests/system/ha/test_outages.py",
    "tests/outbox/e2e/test_process_death.py",
)
"""Files that take longest beside the groups, the longest first."""


def group(nodeid: str) -> str:
    """The group of a test by its id: a name of GROUPS, or its file."""
    file = nodeid.partition("::")[0]
    return next((name for name, starts in GROUPS.items() if file.startswith(starts)), file)


def rank(nodeid: str) -> int:
    """Sorts tests: what takes longest comes first, as the last group to end ends the run."""
    mine, order = group(nodeid), [*GROUPS, *LONG]
    return order.index(mine) if mine in order else len(order)
