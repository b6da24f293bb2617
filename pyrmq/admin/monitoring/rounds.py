"""One round: who asks for figures gives them here, and says what could not be asked."""

from __future__ import annotations

import logging
import sys
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

import trio

from pyrmq.admin.monitoring.alarms import Event, Reading, Sample, reading_of
from pyrmq.admin.monitoring.metrics import METRICS, Part, Subject
from pyrmq.admin.monitoring.settings import Settings
from pyrmq.admin.outcome import Outcome
from pyrmq.errors import BrokerMissingError, PyrmqError, leaves
from pyrmq.escape import escape

log = logging.getLogger(__name__)
MAX_PROBLEMS = 20
"""Problems of a round that are told one by one."""
MAX_CAUSES = 3
"""Reasons of one of them that are told."""
MAX_HIGH = 10_000
"""Figures of a round that are kept for a report."""


@dataclass(slots=True)
class Report:
    """What a round found."""

    asked: int = 0
    """Groups and servers that were asked for something."""
    failed: int = 0
    """Those that could not be, wholly or in part."""
    left: int = 0
    """Those that the round did not come to: they are the first ones of the next."""
    problems: list[str] = field(default_factory=list)
    """Why, the first of them; a missing broker once, however many could not be asked for it."""
    untold: int = 0
    """How many more problems there were."""
    high: list[Sample] = field(default_factory=list)
    """Figures at or above the value at which an alarm is raised."""
    figures: int = 0
    """How many figures were told, whatever they are."""
    events: list[Event] = field(default_factory=list)
    """What was told."""
    seconds: float = 0.0


def causes(outcomes: Iterable[Outcome[Any]]) -> list[BaseException | str]:
    """What failed, and where, for `Round.problem`."""
    failed = [o for o in outcomes if o.error is not None]
    return [o.error if isinstance(o.error, BrokerMissingError) else o.problem for o in failed]


@dataclass(slots=True)
class First:
    """Which of many names is the first one in the next round."""

    name: str = ""


class Round:
    """One round, as those see it who ask. `take` gets the figures."""

    def __init__(self, number: int, settings: Settings, take: Callable[[Sample], object]) -> None:
        self.number = number
        self.settings = settings
        self.report = Report()
        self._take = take
        self._seen: set[tuple[Part, str]] = set()
        self._failed: set[str] = set()
        self._listed: dict[Part, set[str]] = {}

    def sample(self, sample: Sample) -> None:
        """A figure."""
        self.report.figures += 1
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

    def problem(self, what: str, *errors: BaseException | str) -> None:
        """A part that could not be asked, and why; its alarms stay as they are."""
        self._failed.add(what)
        self.report.failed = len(self._failed)
        texts = []
        for error in errors:
            for cause in leaves(error) if isinstance(error, BaseException) else [error]:
                if not isinstance(cause, BrokerMissingError):
                    texts.append(str(cause))
                elif str(cause) not in self.report.problems:
                    self._tell(str(cause))
        if texts:
            more = f"; and {len(texts) - MAX_CAUSES} more" if len(texts) > MAX_CAUSES else ""
            self._tell(f"{what}: {'; '.join(texts[:MAX_CAUSES])}{more}")

    def _tell(self, problem: str) -> None:
        if len(self.report.problems) < MAX_PROBLEMS:
            self.report.problems.append(problem)
        else:
            self.report.untold += 1

    async def each(
        self, names: Iterable[str], what: str, work: Callable[[str], Awaitable[None]], first: First
    ) -> None:
        """Does `work` for each name, some at the same time, each for its time at most. What fails
        is a problem of its own. It begins with the name that `first` has, and notes there the first
        one that the round did not come to."""
        rounds = self.settings.rounds
        ordered = sorted(names)
        at = bisect_left(ordered, first.name)
        ordered = ordered[at:] + ordered[:at]
        waiting = iter(ordered)
        begun = 0

        async def lane() -> None:
            nonlocal begun
            for name in waiting:
                begun += 1
                await self._one(name, what, work, rounds.part_timeout)

        try:
            async with trio.open_nursery() as nursery:
                for _ in range(min(rounds.at_once, len(ordered))):
                    nursery.start_soon(lane)
        finally:
            left = ordered[begun:]
            first.name = left[0] if left else ""
            self.report.left += len(left)

    async def _one(
        self, name: str, what: str, work: Callable[[str], Awaitable[None]], limit: float
    ) -> None:
        self.report.asked += 1
        label = f"{what} {name}"
        with trio.move_on_after(limit) as scope:
            await self.guarded(label, work(name))
        if scope.cancelled_caught:
            self.problem(label, f"no answer within {limit:g} s")

    async def guarded(self, what: str, work: Awaitable[None]) -> None:
        """Does something whose failure is a problem of the round, and no more."""
        try:
            await work
        except* PyrmqError as e:
            self.problem(what, e)
        except* Exception as e:
            # What a peer sends must not end the service.
            log.debug("%s: unexpected", escape(what), exc_info=e)
            self.problem(what, f"unexpected: {'; '.join(map(repr, leaves(e)))}")


class Watcher(Protocol):
    """Asks for figures. PyrmqError if it cannot ask for anything."""

    name: str

    async def watch(self, round_: Round) -> None: ...


lines_log = logging.getLogger("pyrmq.admin.monitoring")
PREFIX = "[MONITOR] "
NOTIFY = "[MONITOR]  [NOTIFY] "
"""How lines of RocketMQ's monitor begin. [DefaultMonitorListener]"""
QUEUE = 1_000
"""Lines that wait at most; further ones are dropped, and counted."""
Write = Callable[[str], None]


def to_stdout(line: str) -> None:
    sys.stdout.write(f"{escape(line)}\n")
    sys.stdout.flush()


def to_stderr(line: str) -> None:
    sys.stderr.write(f"{escape(line)}\n")
    sys.stderr.flush()


class Lines:
    """Takes lines and never waits. `write` gets them in a thread, while `run` runs: a reader that
    is slow does not stop the rounds. None: the log gets them at once."""

    def __init__(self, write: Write | None = None) -> None:
        self.dropped = 0
        self._write = write
        self._send, self._receive = trio.open_memory_channel[str](QUEUE)

    def tell(self, text: str, *, bad: bool = False) -> None:
        """A line, which is a warning of the log if it is `bad`."""
        line = PREFIX + text
        if self._write is None:
            lines_log.log(logging.WARNING if bad else logging.INFO, "%s", escape(line))
            return
        try:
            self._send.send_nowait(line)
        except trio.WouldBlock:
            self.dropped += 1

    def close(self) -> None:
        """Ends `run`, once everything is written."""
        self._send.close()

    async def run(self) -> None:
        """OSError if nobody can read the lines."""
        if self._write is None:
            return
        async for line in self._receive:
            await trio.to_thread.run_sync(self._write, line, abandon_on_cancel=True)
