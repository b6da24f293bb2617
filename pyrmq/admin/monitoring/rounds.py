"""Rounds: everything is asked, alarms are made of what was answered, and told."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import trio

from pyrmq.admin.monitoring.alarms import Alarms, Event, Reading, Sample, State, reading_of
from pyrmq.admin.monitoring.metrics import METRICS, Part, Subject
from pyrmq.admin.monitoring.settings import Settings
from pyrmq.admin.monitoring.sinks import PREFIX, Delivery, Sink
from pyrmq.errors import PyrmqError, leaves
from pyrmq.escape import escape

log = logging.getLogger(__name__)
MAX_PROBLEMS = 20
"""Problems of a round that are told one by one."""
MAX_HIGH = 10_000
"""Figures of a round that are kept for a report."""
DRAIN = 5.0
"""Seconds that sinks have at the end for what waits."""
GONE = "it is not there any more"


@dataclass(slots=True)
class Report:
    """What a round found."""

    asked: int = 0
    """Groups and servers that were asked for something."""
    failed: int = 0
    """Those that could not be."""
    problems: list[str] = field(default_factory=list)
    """Why, the first of them."""
    high: list[Sample] = field(default_factory=list)
    """Figures at or above the value at which an alarm is raised."""
    events: list[Event] = field(default_factory=list)
    """What was told."""
    seconds: float = 0.0


class Round:
    """One round, as those see it who ask."""

    def __init__(self, number: int, settings: Settings, take: Callable[[Sample], object]) -> None:
        self.number = number
        self.settings = settings
        self.report = Report()
        self._take = take
        self._seen: set[tuple[Part, str]] = set()
        self._listed: dict[Part, set[str]] = {}

    def sample(self, sample: Sample) -> None:
        """A figure."""
        threshold = self.settings.threshold(sample.subject)
        high = reading_of(sample.value, threshold) is Reading.HIGH
        if threshold.enabled and high and len(self.report.high) < MAX_HIGH:
            self.report.high.append(sample)
        self._take(sample)

    def figure(
        self,
        metric: str,
        value: float,
        *,
        group: str = "",
        topic: str = "",
        server: str = "",
        detail: str = "",
        partial: bool = False,
    ) -> None:
        self.sample(Sample(Subject(metric, group, topic, server), value, detail, partial))

    def seen(self, part: Part, scope: str) -> None:
        """A part was answered as a whole: a figure that it did not have is 0."""
        self._seen.add((part, scope))

    def listed(self, parts: Iterable[Part], scopes: set[str]) -> None:
        """What there is: of anything else there are no figures any more."""
        for part in parts:
            self._listed[part] = scopes

    def is_gone(self, subject: Subject) -> bool:
        """Whether it is known that a figure, which nobody gave, is 0."""
        part, scope = METRICS[subject.metric].part, subject.scope
        if part is Part.EVENTS:
            return (part, "") in self._seen
        if (part, scope) in self._seen:
            return True
        return part in self._listed and scope not in self._listed[part]

    def problem(self, what: str, error: BaseException | str) -> None:
        """A part that could not be asked; its alarms stay as they are."""
        self.report.failed += 1
        if len(self.report.problems) < MAX_PROBLEMS:
            texts = [error] if isinstance(error, str) else [str(e) for e in leaves(error)]
            self.report.problems.append(f"{what}: {'; '.join(texts)}")

    async def each(
        self, names: Sequence[str], what: str, work: Callable[[str], Awaitable[None]]
    ) -> list[str]:
        """Does `work` for each name, some at the same time, each for its time at most. What fails
        is a problem of its own. Returns the names that were not begun, because the round ended."""
        rounds = self.settings.rounds
        waiting = iter(names)
        begun = 0

        async def lane() -> None:
            nonlocal begun
            for name in waiting:
                begun += 1
                await self._one(name, what, work, rounds.part_timeout)

        try:
            async with trio.open_nursery() as nursery:
                for _ in range(min(rounds.at_once, len(names))):
                    nursery.start_soon(lane)
        finally:
            self.left = list(names[begun:])
        return self.left

    async def _one(
        self, name: str, what: str, work: Callable[[str], Awaitable[None]], limit: float
    ) -> None:
        self.report.asked += 1
        label = f"{what} {name}"
        try:
            with trio.move_on_after(limit) as scope:
                await work(name)
        except* PyrmqError as e:
            self.problem(label, e)
        except* Exception as e:
            # What a peer sends must not end the service.
            log.exception("%s: unexpected", escape(label))
            self.problem(label, f"unexpected: {'; '.join(map(repr, leaves(e)))}")
        else:
            if scope.cancelled_caught:
                self.problem(label, f"no answer within {limit:g} s")


class Watcher(Protocol):
    """Asks for figures. PyrmqError if it cannot ask for anything."""

    name: str

    async def watch(self, round_: Round) -> None: ...


class Monitor:
    """Rounds of `watchers` and their alarms for `sinks`. `told` gets the lines about rounds."""

    def __init__(
        self,
        settings: Settings,
        watchers: Sequence[Watcher],
        sinks: Sequence[Sink],
        *,
        told: Callable[[str], None] | None = None,
    ) -> None:
        self.settings = settings
        self.alarms = Alarms(settings.threshold, settings.rounds.max_alarms)
        self.deliveries = [Delivery(sink) for sink in sinks]
        self._watchers = list(watchers)
        self._told = told or _log
        self._round = 0
        self._left_out = 0
        self._stopping = trio.Event()

    def stop(self) -> None:
        """Ends `run`: the round that runs is given up, what waits for sinks has a moment."""
        self._stopping.set()

    async def run(self, rounds: int = 0) -> None:
        """Rounds until `stop`, or `rounds` of them."""
        async with trio.open_nursery() as nursery:
            for delivery in self.deliveries:
                nursery.start_soon(delivery.run)
            async with trio.open_nursery() as inner:
                inner.start_soon(self._stopped, inner.cancel_scope)
                await self._rounds(rounds)
                inner.cancel_scope.cancel()
            for delivery in self.deliveries:
                delivery.close()
            nursery.cancel_scope.deadline = trio.current_time() + DRAIN

    async def _stopped(self, scope: trio.CancelScope) -> None:
        await self._stopping.wait()
        scope.cancel()

    async def _rounds(self, rounds: int) -> None:
        times = self.settings.rounds
        await trio.sleep(times.delay)
        while True:
            begun = trio.current_time()
            await self.round()
            if rounds and self._round >= rounds:
                return
            await trio.sleep_until(begun + times.interval)

    async def round(self) -> Report:
        """One round; its events go to the sinks."""
        self._round += 1
        begun = trio.current_time()
        self._told(f"{PREFIX}beginRound {self._round}")
        round_ = Round(self._round, self.settings, lambda sample: self._take(sample, round_))
        limit = self.settings.rounds.timeout
        with trio.move_on_after(limit) as scope:
            async with trio.open_nursery() as nursery:
                for watcher in self._watchers:
                    nursery.start_soon(self._watch, watcher, round_)
        if scope.cancelled_caught:
            round_.problem("round", f"not ended within {limit:g} s; the rest comes in the next")
        for subject in self.alarms.not_read(self._round):
            if round_.is_gone(subject):
                self._take(Sample(subject, 0.0, GONE), round_)
        report = round_.report
        report.seconds = trio.current_time() - begun
        self._end(report)
        return report

    async def _watch(self, watcher: Watcher, round_: Round) -> None:
        try:
            await watcher.watch(round_)
        except* PyrmqError as e:
            round_.problem(watcher.name, e)
        except* Exception as e:
            log.exception("%s: unexpected", escape(watcher.name))
            round_.problem(watcher.name, f"unexpected: {'; '.join(map(repr, leaves(e)))}")

    def _take(self, sample: Sample, round_: Round) -> None:
        event = self.alarms.read(
            sample, self._round, now=trio.current_time(), time=time.time_ns() // 1_000_000
        )
        if event is None:
            return
        round_.report.events.append(event)
        for delivery in self.deliveries:
            delivery.put(event)

    def _end(self, report: Report) -> None:
        for problem in report.problems:
            self._told(f"{PREFIX}failed: {problem}")
        if report.failed > len(report.problems):
            self._told(f"{PREFIX}failed: and {report.failed - len(report.problems)} more")
        if self.alarms.left_out > self._left_out:
            left_out = self.alarms.left_out - self._left_out
            self._told(f"{PREFIX}failed: {left_out} alarms beyond max_alarms are not kept")
            self._left_out = self.alarms.left_out
        lost = sum(d.failed + d.dropped for d in self.deliveries)
        sinks = f", {lost} events that sinks did not take" if lost else ""
        fired = sum(e.state is State.FIRING for e in report.events)
        self._told(
            f"{PREFIX}endRound {self._round}: {report.asked} asked, {report.failed} failed, "
            f"{self.alarms.firing} alarms, {fired} told now, {report.seconds:.2f} s{sinks}"
        )


def _log(line: str) -> None:
    if line.startswith(f"{PREFIX}failed"):
        log.warning("%s", escape(line))
    else:
        log.info("%s", escape(line))
