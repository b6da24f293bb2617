"""Rows of an hour: what brokers say, in memory that is bounded."""

from __future__ import annotations

import math

import pytest

from pyrmq.admin.usage import OwnHistory, Point
from pyrmq.console.samples import (
    POINTS,
    STEP_MS,
    Hour,
    Rows,
    of_point,
    of_runtime,
    together,
)

NOW = 1_700_000_000_000


def own(*ends: int, now: int = NOW, **figures: int) -> OwnHistory:
    return OwnHistory(now, [Point(end, 10.0, {"messagesIn": 50, **figures}) for end in ends])


def test_what_a_pyrmq_broker_kept() -> None:
    said = {
        "messagesIn": 100, "bytesIn": 2000, "messagesOut": 50, "bytesOut": 1000, "sends": 10,
        "pulls": 20, "acks": 30, "ends": 40, "others": 50, "connections": 7, "diskUsed": 81,
        "flushBehind": 1, "confirmBehind": 2, "indexBehind": 3, "slaveBehind": 4, "backlog": 5,
        "cpuMs": 2500, "loopLateMs": 9,
    }  # fmt: skip
    assert of_point(Point(NOW, 10.0, said)) == {
        "messages_in": 10.0, "bytes_in": 200.0, "messages_out": 5.0, "bytes_out": 100.0,
        "requests": 15.0, "connections": 7.0, "disk": 81.0, "flush_behind": 1.0,
        "confirm_behind": 2.0, "index_behind": 3.0, "slave_behind": 4.0, "backlog": 5.0,
        "cpu": 25.0, "loop_late": 9.0,
    }  # fmt: skip


def test_what_a_broker_does_not_say_is_not_made_up() -> None:
    older = of_point(Point(NOW, 0.0, {"diskUsed": -1, "connections": 1}))
    assert older == {"connections": 1.0}
    assert of_point(Point(NOW, 10.0, {"messagesIn": 10**400}))["messages_in"] == 1e17
    assert of_point(Point(NOW, 1e-300, {"messagesIn": 10**18}))["messages_in"] == 1e18


def test_the_same_points_come_once_and_gaps_are_filled() -> None:
    rows = Rows()
    rows.add_own(own(NOW - 2 * STEP_MS, NOW - STEP_MS, NOW), NOW)
    rows.add_own(own(NOW - STEP_MS + 3, NOW + 2, NOW + STEP_MS, now=NOW + STEP_MS), NOW + STEP_MS)
    times = rows.hour(NOW + STEP_MS).times
    assert times == [NOW - 2 * STEP_MS, NOW - STEP_MS, NOW, NOW + STEP_MS]


def test_a_broker_with_another_clock_is_moved_to_this_one() -> None:
    rows = Rows()
    ahead = 5_000_000
    rows.add_own(own(NOW + ahead - STEP_MS, NOW + ahead, now=NOW + ahead), NOW)
    assert rows.hour(NOW).times == [NOW - STEP_MS, NOW]


def test_points_of_the_future_are_left_out() -> None:
    rows = Rows()
    rows.add_own(own(NOW, NOW + 100 * STEP_MS), NOW)
    assert rows.hour(NOW).times == [NOW]


def test_an_hour_is_kept_and_no_more() -> None:
    rows = Rows()
    for n in range(POINTS + 50):
        at = NOW + n * STEP_MS
        rows.add_own(own(at, now=at), at)
    end = NOW + (POINTS + 49) * STEP_MS
    hour = rows.hour(end)
    assert len(hour.times) == POINTS
    assert hour.times[-1] == end
    assert all(len(values) == POINTS for values in hour.figures.values())
    assert rows.hour(end + POINTS * STEP_MS).times == []


def test_an_apache_brokers_bytes_are_what_its_total_grew_by() -> None:
    runtime = {"putTps": "12.5 11 10", "getTransferredTps": "3.0", "dispatchBehindBytes": "17",
               "commitLogDiskRatio": "0.5", "putMessageSizeTotal": "1000"}  # fmt: skip
    rows = Rows()
    rows.add_runtime(runtime, NOW)
    rows.add_runtime(runtime | {"putMessageSizeTotal": "6000"}, NOW + STEP_MS)
    rows.add_runtime(runtime | {"putMessageSizeTotal": "10"}, NOW + 2 * STEP_MS)  # it restarted
    hour = rows.hour(NOW + 2 * STEP_MS)
    first, second, third = hour.figures["bytes_in"]
    assert math.isnan(first)
    assert second == 500.0
    assert math.isnan(third)
    assert hour.of("messages_in") == [12.5] * 3
    assert hour.of("disk") == [50.0] * 3
    assert hour.of("backlog") == ()
    assert hour.last("backlog") is None
    assert hour.last("index_behind") == 17.0


def test_runtime_that_is_no_number_is_no_error() -> None:
    row = of_runtime({"putTps": "nan x", "dispatchBehindBytes": "much", "connections": "9" * 50})
    assert row == {"messages_in": 0.0, "messages_out": 0.0, "index_behind": 0.0, "connections": 0.0}


def hour_of(first: int, **figures: float) -> Hour:
    """Six rows."""
    rows = Rows()
    for n in range(6):
        at = first + n * STEP_MS
        said = {"messagesIn": 0, **{k: int(v) for k, v in figures.items()}}
        rows.add_own(OwnHistory(at, [Point(at, 10.0, said)]), at)
    return rows.hour(first + 6 * STEP_MS)


def test_a_cluster_is_the_sum_of_its_brokers() -> None:
    first = NOW - 6 * STEP_MS
    a = hour_of(first + 100, messagesIn=100, messagesOut=10, diskUsed=40, backlog=3)
    b = hour_of(first + 4000, messagesIn=200, messagesOut=20, diskUsed=90, backlog=4)
    slave = hour_of(first + 100, messagesIn=100, messagesOut=30, diskUsed=10, backlog=3)
    whole = together([(a, True), (b, True), (slave, False)], NOW)
    assert whole.figures["messages_in"][-1] == 30.0
    assert whole.figures["messages_out"][-1] == 6.0
    assert whole.figures["backlog"][-1] == 7.0
    assert whole.figures["disk"][-1] == 90.0
    assert all(at % STEP_MS == 0 and at <= NOW for at in whole.times)


def test_a_broker_that_is_gone_does_not_count_on() -> None:
    first = NOW - 30 * STEP_MS
    gone = hour_of(first, messagesIn=100)
    there = hour_of(NOW - 6 * STEP_MS, messagesIn=200)
    whole = together([(gone, True), (there, True)], NOW)
    assert whole.figures["messages_in"][1] == 10.0
    middle = [v for t, v in zip(whole.times, whole.figures["messages_in"], strict=True)
              if first + 10 * STEP_MS < t < NOW - 7 * STEP_MS]  # fmt: skip
    assert middle
    assert all(map(math.isnan, middle))
    assert whole.figures["messages_in"][-1] == pytest.approx(20.0)


def test_without_rows_there_is_no_hour() -> None:
    assert together([], NOW) == Hour()
    assert together([(Hour(), True)], NOW) == Hour()
    assert Hour().of("disk") == ()
    assert Hour().series("disk") == []


def test_what_was_not_sampled_lately_says_nothing_of_now() -> None:
    rows = Rows()
    assert rows.newest(NOW).last("messages_in") is None
    rows.add_own(own(NOW), NOW)
    for hour in (rows.hour(NOW + STEP_MS), rows.newest(NOW + STEP_MS)):
        assert hour.last("messages_in") == 5.0
        assert hour.last("backlog") is None
    assert rows.hour(NOW + 4 * STEP_MS).last("messages_in") is None
    assert rows.newest(NOW + 4 * STEP_MS).last("messages_in") is None
