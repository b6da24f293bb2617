"""What a broker that is drained waits for, as `admin.draining` counts it."""

from __future__ import annotations

from dataclasses import replace

from pyrmq.admin.consume_stats import QueueProgress
from pyrmq.admin.draining import NO_DRAIN, DrainState, _behind
from pyrmq.admin.runtime_info import BrokerConsumeStats, GroupQueue
from pyrmq.model.message import MessageQueue

STATE = DrainState("a", "10.0.0.1:1", "WRITE", False, True, 0, [], 0, 1.26, 2, 0)


def behind(group: str, topic: str, queue_id: int, messages: int) -> GroupQueue:
    return GroupQueue(group, QueueProgress(MessageQueue(topic, "a", queue_id), messages, 0, 0, 0))


def test_half_messages_are_for_no_consumer() -> None:
    """They would never be consumed while a transaction is pending, and `--reads` be refused."""
    rows = [
        behind("g", "T", 0, 3),
        behind("g", "T", 1, 4),
        behind("h", "T", 0, 0),
        behind("CID_RMQ_SYS_TRANS", "RMQ_SYS_TRANS_HALF_TOPIC", 0, 5),
        behind("CID_RMQ_SYS_TRANS", "RMQ_SYS_TRANS_OP_HALF_TOPIC", 0, 700),
    ]
    assert _behind(BrokerConsumeStats(rows, 712)) == {("g", "T"): 7}


def test_a_broker_in_service_waits_for_nothing() -> None:
    assert STATE.waits_for == [
        "1.3 messages a second are still stored",
        "2 transactions are pending",
    ]
    assert replace(STATE, drain=NO_DRAIN).waits_for == []
    assert replace(STATE, drain=None).waits_for, "of a broker of Apache it is not known"
