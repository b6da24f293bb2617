"""minOffsetsPerTrigger and maxTriggerDelay: when a micro-batch waits."""

from __future__ import annotations

import pickle

from spark_ext.pace import Pace


class Query:
    """Asks a pace as Spark does; `there` are the messages that wait."""

    def __init__(self, least: int | None, delay: int = 60_000) -> None:
        self.now = 1000.0
        self.there = 0
        self.pace = Pace(least, delay, lambda: self.now)

    def goes(self) -> bool:
        if self.pace.holds(lambda wanted: min(self.there, wanted)):
            return False
        self.there = 0
        return True

    def put(self, count: int, seconds: float = 0) -> bool:
        self.there += count
        self.now += seconds
        return self.goes()


def test_it_waits_for_enough_or_for_the_delay() -> None:
    query = Query(10)
    assert not query.put(0)
    assert query.put(1)  # the first one waits for nothing but a message
    assert not query.put(9, 59)
    assert query.put(1)
    assert not query.put(3, 59)
    assert query.put(0, 1)  # the delay is over
    assert not query.put(3)


def test_without_a_message_the_delay_ends_nothing() -> None:
    query = Query(10)
    assert query.put(1)
    assert not query.put(0, 600)
    assert query.put(1)  # it has waited long enough already
    assert not query.put(1)


def test_available_now_and_no_minimum_hold_nothing() -> None:
    query = Query(10)
    query.put(1)
    assert not query.put(1)
    query.pace.pin()
    assert query.put(0)
    assert Query(None).put(0)


def test_it_goes_to_workers() -> None:
    assert pickle.loads(pickle.dumps(Query(7).pace)).least == 7
