"""Alarms: what becomes of a figure, round by round, by one table.

A figure at `raise_at` or above is HIGH, at `clear_at` or below LOW, BETWEEN otherwise. An alarm is
told once its figure was HIGH for `rounds` rounds in a row, and it is over once it was LOW for
`clear_rounds` in a row. A round that could not ask changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum

from pyrmq.admin.monitoring.metrics import METRICS, Subject, Threshold


class State(Enum):
    OK = "ok"
    PENDING = "pending"
    FIRING = "firing"
    CLEARING = "clearing"
    """It fires still; its figure is good, not yet for long enough."""
    RESOLVED = "resolved"
    """What is told at the end of an alarm, which is OK then."""


class Reading(Enum):
    HIGH = "high"
    BETWEEN = "between"
    LOW = "low"


TABLE = {
    (State.OK, Reading.HIGH): State.PENDING,
    (State.OK, Reading.BETWEEN): State.OK,
    (State.OK, Reading.LOW): State.OK,
    (State.PENDING, Reading.HIGH): State.PENDING,
    (State.PENDING, Reading.BETWEEN): State.OK,
    (State.PENDING, Reading.LOW): State.OK,
    (State.FIRING, Reading.HIGH): State.FIRING,
    (State.FIRING, Reading.BETWEEN): State.FIRING,
    (State.FIRING, Reading.LOW): State.CLEARING,
    (State.CLEARING, Reading.HIGH): State.FIRING,
    (State.CLEARING, Reading.BETWEEN): State.FIRING,
    (State.CLEARING, Reading.LOW): State.CLEARING,
}
"""The next state. PENDING becomes FIRING after `rounds` rounds, CLEARING becomes RESOLVED after
`clear_rounds`."""


def reading_of(value: float, threshold: Threshold) -> Reading:
    if value >= threshold.raise_at:
        return Reading.HIGH
    return Reading.LOW if value <= threshold.clear_at else Reading.BETWEEN


@dataclass(frozen=True, slots=True)
class Sample:
    """A figure of one round. `partial`: not all that belongs to it was known, so that it is at
    least `value`."""

    subject: Subject
    value: float
    detail: str = ""
    partial: bool = False


@dataclass(frozen=True, slots=True)
class Event:
    """What is told of an alarm."""

    state: State
    """FIRING or RESOLVED."""
    subject: Subject
    value: float
    threshold: Threshold
    time: int
    """ms since 1970."""
    since: int
    """When its first round was in which the figure was too high."""
    repeated: bool = False
    """Whether it was told before, and goes on."""
    detail: str = ""
    test: bool = False

    @property
    def text(self) -> str:
        metric = METRICS[self.subject.metric]
        goes_on = " still" if self.repeated else ""
        limit = (
            f"raised at {number(self.threshold.raise_at)}"
            if self.state is State.FIRING
            else f"cleared at {number(self.threshold.clear_at)}"
        )
        text = (
            f"{'TEST ' if self.test else ''}{self.state.value}{goes_on}: {metric.name} of "
            f"{self.subject.text} is {number(self.value)} {metric.unit}, {limit}"
        )
        return f"{text}: {self.detail}" if self.detail else text


def number(value: float) -> str:
    """Without a fraction where there is none."""
    return str(int(value)) if float(value).is_integer() else f"{value:.3f}"


@dataclass(slots=True)
class Alarm:
    """One that is not OK."""

    state: State
    count: int
    """Rounds in a row, of PENDING or CLEARING."""
    since: int
    told: float
    value: float
    round: int


class Alarms:
    """All alarms that are not OK, at most `most`: figures beyond that are counted in
    `left_out` and not kept."""

    def __init__(self, threshold_of: Callable[[Subject], Threshold], most: int = 10_000) -> None:
        self._threshold_of = threshold_of
        self._most = most
        self._alarms: dict[Subject, Alarm] = {}
        self.left_out = 0

    def __len__(self) -> int:
        return len(self._alarms)

    def __contains__(self, subject: Subject) -> bool:
        return subject in self._alarms

    @property
    def firing(self) -> int:
        """How many have been told and are not over."""
        return sum(a.state is not State.PENDING for a in self._alarms.values())

    def state(self, subject: Subject) -> State:
        alarm = self._alarms.get(subject)
        return State.OK if alarm is None else alarm.state

    def not_read(self, round_: int) -> Iterator[Subject]:
        """The alarms of which a round had no figure."""
        for subject, alarm in list(self._alarms.items()):
            if alarm.round != round_:
                yield subject

    def read(self, sample: Sample, round_: int, *, now: float, time: int) -> Event | None:
        """Takes a figure of a round; what is to be told of it. `now`: seconds of a clock that only
        goes forward; `time`: ms since 1970."""
        subject = sample.subject
        threshold = self._threshold_of(subject)
        if not threshold.enabled:
            return None
        reading = reading_of(sample.value, threshold)
        if sample.partial and reading is not Reading.HIGH:
            return None
        alarm = self._alarms.get(subject)
        before = State.OK if alarm is None else alarm.state
        after = TABLE[before, reading]
        if after is State.OK:
            self._alarms.pop(subject, None)
            return None
        if alarm is None:
            if len(self._alarms) >= self._most:
                self.left_out += 1
                return None
            alarm = self._alarms[subject] = Alarm(after, 0, time, now, sample.value, round_)
        alarm.count = alarm.count + 1 if after is before else 1
        alarm.state, alarm.value, alarm.round = after, sample.value, round_
        return self._told(sample, alarm, threshold, now, time)

    def _told(
        self, sample: Sample, alarm: Alarm, threshold: Threshold, now: float, time: int
    ) -> Event | None:
        def event(state: State, *, repeated: bool = False) -> Event:
            alarm.told = now
            return Event(
                state, sample.subject, sample.value, threshold, time, alarm.since, repeated,
                sample.detail,
            )  # fmt: skip

        if alarm.state is State.PENDING and alarm.count >= threshold.rounds:
            alarm.state = State.FIRING
            return event(State.FIRING)
        if alarm.state is State.CLEARING and alarm.count >= threshold.clear_rounds:
            del self._alarms[sample.subject]
            return event(State.RESOLVED)
        due = threshold.repeat and now - alarm.told >= threshold.repeat
        if alarm.state is State.FIRING and due:
            return event(State.FIRING, repeated=True)
        return None
