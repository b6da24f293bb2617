"""Which test files run one after another in one worker of pytest-xdist, and which of them first.

A file always stays together: its fixtures are built once. Files that share something that costs
more than it saves to build it twice (a JVM with Spark in it) are one group.
"""

from __future__ import annotations


def _spark(*names: str) -> tuple[str, ...]:
    return tuple(f"tests/spark/test_{name}.py" for name in names)


# A Spark for each of the first two. With more of them at once on two cores a Python that Spark
# starts may need more than the ten seconds that Spark waits for it.
GROUPS: dict[str, tuple[str, ...]] = {
    "spark": ("tests/spark/jobs/", *_spark("bad_input", "batch", "sink")),
    "spark-proof": (
        "tests/spark/proof/",
        *_spark("api_facts", "broker_read", "registration", "stream"),
    ),
    "faults": ("tests/faults/",),
}
"""Beginnings of the paths of a group's files."""

LONG: tuple[str, ...] = (
    "tests/interop/test_store_exchange.py",
    "tests/interop/test_java.py",
    "tests/interop/test_transactions.py",
    "tests/interop/test_transaction_exchange.py",
    "tests/interop/test_admin_txn.py",
    "tests/crash/test_transaction_steps.py",
    "tests/simulation/test_transactions.py",
    "tests/crash/test_kill_loop.py",
    "tests/interop/test_client_transactions.py",
    "tests/interop/test_mqadmin.py",
    "tests/interop/test_mixed_groups.py",
    "tests/outbox/test_example.py",
    "tests/soak/test_soak.py",
    "tests/crash/test_transaction_kill_loop.py",
    "tests/e2e/test_delay_progress.py",
    "tests/crash/test_killed_deliveries.py",
    "tests/outbox/test_killed_service.py",
    "tests/spark/test_apache_broker.py",
    "tests/spark/test_worker.py",
    "tests/store/test_torn_tail.py",
    "tests/store/test_many_queues.py",
    "tests/store/test_model.py",
    "tests/session/test_pieces.py",
    "tests/e2e/test_rebalance.py",
    "tests/simulation/test_table.py",
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
