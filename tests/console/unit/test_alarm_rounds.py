"""What the console keeps of monitoring's rounds."""

from __future__ import annotations

from pyrmq.admin.monitoring.alarms import Event, Sample, State
from pyrmq.admin.monitoring.metrics import Subject
from pyrmq.admin.monitoring.rounds import Report
from pyrmq.admin.monitoring.settings import DEFAULTS
from pyrmq.console.alarm_rounds import HOUR_MS, MAX_EVENTS, Watch

NOW = 1_700_000_000_000


def event(state: State, group: str, time: int = NOW) -> Event:
    return Event(state, Subject("lag", group), 1.0, DEFAULTS["lag"], time, time)


def test_before_the_first_round_nothing_is_known() -> None:
    assert Watch(lambda: NOW).found().round_at == 0


def test_an_alarm_fires_until_it_is_over() -> None:
    watch = Watch(lambda: NOW)
    high = [Sample(Subject("lag", "a"), 1.0), Sample(Subject("lag", "b"), 1.0)]
    watch.take(Report(asked=3, high=high, events=[event(State.FIRING, "a")], problems=["x"]))
    found = watch.found()
    assert [e.subject.group for e in found.firing] == ["a"]
    assert [s.subject.group for s in found.rising] == ["b"]
    assert (found.asked, found.problems, found.round_at) == (3, ("x",), NOW)
    watch.take(Report(events=[event(State.RESOLVED, "a")]))
    found = watch.found()
    assert found.firing == ()
    assert [e.state for e in found.events] == [State.RESOLVED, State.FIRING]


def test_events_of_the_last_hour_and_not_more_than_there_is_room_for() -> None:
    now = NOW
    watch = Watch(lambda: now)
    watch.take(Report(events=[event(State.FIRING, "old", NOW)]))
    now = NOW + HOUR_MS + 1
    watch.take(Report(events=[event(State.RESOLVED, "old", now)]))
    assert [e.state for e in watch.found().events] == [State.RESOLVED]
    watch.take(Report(events=[event(State.FIRING, f"g{n}", now) for n in range(MAX_EVENTS + 9)]))
    assert len(watch.found().events) == MAX_EVENTS
