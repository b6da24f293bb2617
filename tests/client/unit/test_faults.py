"""Which brokers are left alone, and for how long."""

from __future__ import annotations

import pytest

from pyrmq.client.producer.faults import FaultTable, QueueChooser, off_for
from pyrmq.model.message import MessageQueue

QUEUES = [MessageQueue("T", name, n) for name in "abc" for n in range(2)]


@pytest.mark.parametrize(
    ("latency", "off"),
    [
        (0.0, 0), (0.049, 0), (0.05, 0), (0.1, 0), (0.549, 0), (0.55, 2), (1.79, 2), (1.8, 5),
        (3, 6), (5, 10), (10, 10), (15, 30), (1000, 30),
    ],
)  # fmt: skip
def test_how_long(latency: float, off: float) -> None:
    assert off_for(latency) == off


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_the_time_only_moves_forward() -> None:
    clock = Clock()
    faults = FaultTable(clock)
    faults.failed("a", reachable=False)
    assert not faults.available("a")
    assert not faults.reachable("a")
    faults.answered("a", 0.01)
    assert not faults.available("a"), "one quick answer does not end it"
    assert faults.reachable("a")
    clock.now += 9.99
    assert not faults.available("a")
    clock.now += 0.01
    assert faults.available("a")
    assert faults.available("b")
    assert faults.reachable("b")


def brokers(chooser: QueueChooser, avoid: str | None = None) -> set[str]:
    return {chooser.choose(QUEUES, avoid).broker_name for _ in range(30)}


def test_available_then_reachable_then_any() -> None:
    faults = FaultTable(Clock())
    chooser = QueueChooser(faults)
    assert brokers(chooser) == {"a", "b", "c"}
    assert brokers(chooser, "a") == {"b", "c"}
    faults.failed("b", reachable=True)
    assert brokers(chooser) == {"a", "c"}
    assert brokers(chooser, "a") == {"c"}
    faults.failed("c", reachable=False)
    assert brokers(chooser, "a") == {"b"}, "it can be reached"
    faults.failed("b", reachable=False)
    assert brokers(chooser, "a") == {"b", "c"}
    faults.failed("a", reachable=False)
    assert brokers(chooser) == {"a", "b", "c"}


def test_turns_without_faults() -> None:
    chooser = QueueChooser()
    turn = [chooser.choose(QUEUES) for _ in range(12)]
    assert sorted(turn) == sorted([*QUEUES, *QUEUES])
    assert turn[:6] == turn[6:]
    other = [MessageQueue("U", "a", 0)]
    assert chooser.choose(other) == other[0]
    assert chooser.choose(QUEUES) == turn[0], "each topic has its turn"
