"""What the list of topics makes of the answers of brokers."""

from __future__ import annotations

from pyrmq.admin.usage import BrokerUsage
from pyrmq.console.views.topics import kind_of, perm_text, rates_of, topic_row
from pyrmq.model.topic import TopicConfig


def usage(seconds: float, *rows: tuple[str, int, int]) -> BrokerUsage:
    return BrokerUsage.from_json(
        "topic",
        {
            "seconds": seconds,
            "rows": [{"name": n, "messagesIn": i, "messagesOut": o} for n, i, o in rows],
        },
    )


def test_a_topic_of_two_brokers() -> None:
    row = topic_row(
        "orders",
        [("b", TopicConfig("orders", 4, 8)), ("a", TopicConfig("orders", 2, 8))],
        (1.5, 3.0),
    )
    assert row.brokers == ("a", "b")
    assert (row.read_queues, row.write_queues, row.perm) == (6, 16, 6)
    assert not row.differs, "numbers of queues are each broker's own"
    assert (row.rate_in, row.rate_out) == (1.5, 3.0)


def test_brokers_that_differ() -> None:
    one = TopicConfig("t")
    assert topic_row("t", [("a", one), ("b", TopicConfig("t", perm=4))]).differs
    assert topic_row("t", [("a", one), ("b", TopicConfig("t", perm=4))]).perm is None
    assert topic_row("t", [("a", one), ("b", TopicConfig("t", attributes={"x": "1"}))]).differs
    assert topic_row("t", [("a", one), ("b", TopicConfig("t", order=True))]).order
    assert not topic_row("t", [("a", one), ("b", TopicConfig("t"))]).differs


def test_a_topic_whose_brokers_are_away() -> None:
    row = topic_row("t", [])
    assert (row.brokers, row.read_queues, row.perm, row.rate_in) == ((), None, None, None)


def test_kinds() -> None:
    assert [
        kind_of(name)
        for name in (
            "orders", "%RETRY%g", "%DLQ%g", "%LMQ%x", "TBW102", "rmq_sys_wheel_timer",
            "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC", "%20",
        )
    ] == [
        "user", "retry", "dead letter", "lmq", "system", "system", "system", "system", "user",
    ]  # fmt: skip


def test_clusters_and_brokers_are_topics_of_the_system() -> None:
    own = {"c", "a"}
    names = ("c", "a", "c_REPLY_TOPIC", "d", "d_REPLY_TOPIC")
    assert [kind_of(n, own) for n in names] == ["system", "system", "system", "user", "user"]
    assert topic_row("c", [], None, own).kind == "system"


def test_permissions() -> None:
    assert [perm_text(p) for p in (6, 4, 2, 0, None)] == ["RW", "R-", "-W", "--", "differs"]


def test_rates_are_sums_over_brokers() -> None:
    found = rates_of([usage(60, ("t", 60, 120), ("u", 6, 0)), usage(10, ("t", 10, 0))])
    assert found == {"t": (2.0, 2.0), "u": (0.1, 0.0)}
    assert rates_of([usage(0, ("t", 60, 120))]) == {"t": (0.0, 0.0)}, "no time, no rate"
