"""The table of alarms: hysteresis, rounds in a row, repeats."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrmq.admin.monitoring.alarms import (
    TABLE,
    Alarms,
    Event,
    Reading,
    Sample,
    State,
    reading_of,
)
from pyrmq.admin.monitoring.metrics import Subject, Threshold

LAG = Subject("lag", "G", "T")
DOWN = Subject("server_down", server="h:1")


class Driven:
    """Alarms that get a figure a minute."""

    def __init__(self, threshold: Threshold, most: int = 10) -> None:
        self.alarms = Alarms(lambda _: threshold, most)
        self.round = 0

    def read(self, value: float | None, *, partial: bool = False) -> Event | None:
        self.round += 1
        if value is None:
            return None
        sample = Sample(LAG, value, partial=partial)
        return self.alarms.read(sample, self.round, now=self.round * 60.0, time=self.round)

    def told(self, *values: float | None) -> list[str]:
        """What is told after each figure: f(iring), a(gain), r(esolved) or nothing."""
        found = []
        for value in values:
            event = self.read(value)
            told = "" if event is None else event.state.value[0]
            found.append("a" if event is not None and event.repeated else told)
        return found


def test_every_state_has_a_row_for_every_reading() -> None:
    states = [s for s in State if s is not State.RESOLVED]
    assert set(TABLE) == set(product(states, Reading))


def test_raise_and_clear_are_apart() -> None:
    driven = Driven(Threshold(10, 5, repeat=0))
    assert driven.told(9, 10, 6, 9, 5, 6, 9, 10) == ["", "f", "", "", "r", "", "", "f"]


def test_rounds_in_a_row() -> None:
    driven = Driven(Threshold(10, 5, rounds=3, clear_rounds=2, repeat=0))
    assert driven.told(10, 10, 9, 10, 10, 11) == [""] * 5 + ["f"]
    assert driven.alarms.firing == 1
    assert driven.told(5, 6, 5, 4) == ["", "", "", "r"]
    assert len(driven.alarms) == 0


def test_what_could_not_be_asked_changes_nothing() -> None:
    driven = Driven(Threshold(10, 5, rounds=2, clear_rounds=2, repeat=0))
    assert driven.told(10, None, 10, None, 5, None, None, 5) == ["", "", "f"] + [""] * 4 + ["r"]


def test_a_figure_that_is_not_whole_raises_and_does_not_clear() -> None:
    driven = Driven(Threshold(10, 5, repeat=0))
    assert driven.read(3, partial=True) is None
    fired = driven.read(12, partial=True)
    assert fired is not None
    assert fired.state is State.FIRING
    assert driven.read(0, partial=True) is None
    assert driven.alarms.state(LAG) is State.FIRING


def test_an_alarm_that_goes_on_is_told_again_at_its_time() -> None:
    driven = Driven(Threshold(10, 5, repeat=120))
    assert driven.told(10, 10, 10, 7, 10, 5, 10) == ["f", "", "a", "", "a", "r", "f"]


def test_the_number_is_bounded_and_what_is_left_out_is_counted() -> None:
    alarms = Alarms(lambda _: Threshold(1, 0, rounds=2), most=2)
    for n in range(5):
        alarms.read(Sample(Subject("lag", f"g{n}"), 1), 1, now=0, time=0)
    assert (len(alarms), alarms.left_out) == (2, 3)
    assert set(alarms.not_read(2)) == {Subject("lag", "g0"), Subject("lag", "g1")}


def test_what_is_switched_off_is_not_kept() -> None:
    assert Driven(Threshold(1, 0, enabled=False)).told(5, 5) == ["", ""]


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (
            Event(State.FIRING, LAG, 12.5, Threshold(10, 5), 1, 1),
            "firing: lag of group G, topic T is 12.500 messages, raised at 10",
        ),
        (
            Event(State.RESOLVED, LAG, 3, Threshold(10, 5), 1, 1, detail="why", test=True),
            "TEST resolved: lag of group G, topic T is 3 messages, cleared at 5: why",
        ),
        (
            Event(State.FIRING, DOWN, 1, Threshold(1, 0), 1, 1, repeated=True),
            "firing still: server_down of server h:1 is 1 (1: no answer), raised at 1",
        ),
    ],
    ids=["firing", "resolved", "repeated"],
)  # fmt: skip
def test_texts(event: Event, text: str) -> None:
    assert event.text == text


thresholds = st.tuples(
    st.integers(0, 8), st.integers(1, 4), st.integers(1, 4), st.integers(1, 4),
    st.sampled_from([0.0, 60.0, 200.0]),
).map(lambda t: Threshold(t[0] + t[1], t[0], t[2], t[3], t[4]))  # fmt: skip


@given(thresholds, st.lists(st.none() | st.integers(0, 14), max_size=40))
def test_what_is_told_follows_the_readings(threshold: Threshold, values: list[int | None]) -> None:
    """Compared with a plain reading of the rules over all that was read."""
    driven = Driven(threshold)
    read: list[Reading] = []
    firing = False
    last = 0
    for at, value in enumerate(values, 1):
        event = driven.read(value)
        if value is None:
            assert event is None
            continue
        read.append(reading_of(value, threshold))
        if not firing:
            rows = read[-threshold.rounds :]
            fires = len(rows) == threshold.rounds and set(rows) == {Reading.HIGH}
            assert (event is not None) == fires
            if event is not None:
                assert (event.state, event.repeated) == (State.FIRING, False)
                assert threshold.raise_at <= event.value == value
                firing, last, read = True, at, []
            continue
        rows = read[-threshold.clear_rounds :]
        over = len(rows) == threshold.clear_rounds and set(rows) == {Reading.LOW}
        again = (
            not over
            and read[-1] is not Reading.LOW
            and threshold.repeat > 0
            and (at - last) * 60 >= threshold.repeat
        )
        assert (event is not None) == (over or again)
        if event is not None:
            assert event.state is (State.RESOLVED if over else State.FIRING)
            assert event.repeated == again
            last = at
            firing = not over
            read = [] if over else read
    assert driven.alarms.firing == int(firing)
    assert len(driven.alarms) <= 1
