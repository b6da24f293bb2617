"""The life of a message as a line of time, and delays as a table."""

from __future__ import annotations

from pyrmq.admin.life_facts import Fact, What
from pyrmq.admin.life_groups import Life
from pyrmq.admin.outcome import Outcome
from pyrmq.admin.timers import Bar, TimerFigures, TopicTimers, span_of
from pyrmq.console.messages.waiting import BrokerTimers, Level, Waiting
from pyrmq.console.pages.delay import by_level, topic_counts
from pyrmq.console.pages.traces import MOST_FACTS, line_of
from pyrmq.console.rendering import duration
from pyrmq.errors import ConnectError

PLACE = {"topic": "t", "broker": "b", "queueId": 1, "queueOffset": 2}


def life(*facts: Fact) -> Life:
    return Life("ID", "t", "traces", list(facts))


def test_times_between_facts() -> None:
    line = line_of(
        life(
            Fact(What.SENT, 1000, "sent", "log"),
            Fact(What.STORED, 1250, "stored", "log", PLACE),
            Fact(What.OFFSET, 0, "no time", "offsets"),
            Fact(What.DEAD, 4000, "dead", "log"),
        )
    )
    assert [step.after for step in line.steps] == [None, 0.25, None, 2.75]
    assert [step.kind for step in line.steps] == ["", "", "", "bad"]
    assert line.steps[1].place == {"topic": "t", "broker": "b", "queue": 1, "offset": 2}
    assert line.steps[0].place is None
    assert (line.spent, line.more) == (3.0, 0)


def test_many_facts_are_cut() -> None:
    line = line_of(life(*(Fact(What.CONSUMED, n + 1, "x", "s") for n in range(MOST_FACTS + 7))))
    assert (len(line.steps), line.more) == (MOST_FACTS, 7)


def test_brokers_that_fail_are_told_once() -> None:
    found = life()
    found.failed = [Outcome("a:1", error=ConnectError("gone"))] * 2
    assert line_of(found).failed == ["a:1: gone"]
    assert line_of(found).spent == 0.0


def test_what_waits_is_added_up() -> None:
    first = TimerFigures(
        7, [TopicTimers("x", 4, 0), TopicTimers("rmq_sys_REVIVE_LOG_c", 3, 0)], read_behind=2
    )
    second = TimerFigures(2, [TopicTimers("x", 1, 0), TopicTimers("y", -1, 0)], read_behind=90)
    found = Waiting(
        [Level("a", 1, 1000, 5, 9), Level("a", 2, 5000, 3, 3), Level("b", 1, 1000, 7, 5)],
        [BrokerTimers("a", first), BrokerTimers("b", second)],
    )
    assert (found.delayed, found.timed, found.lag) == (4, 9, 90)
    assert topic_counts(found) == [("x", 5), ("rmq_sys_REVIVE_LOG_c", 3)]
    assert [timers.pops for timers in found.timers] == [3, 0]
    assert [[level.broker for level in here] for here in by_level(found)] == [["a", "b"], ["a"]]
    assert found.levels[2].backlog == 0


def test_spans_of_bars() -> None:
    bars = [Bar(10, 1), Bar(3600, 2), Bar(None, 3)]
    assert [span_of(bars, n, duration) for n in range(3)] == [
        "within 10 s",
        "10 s to 1 h",
        "after 1 h",
    ]
    assert span_of([Bar(None, 1)], 0, duration) == "any time"
