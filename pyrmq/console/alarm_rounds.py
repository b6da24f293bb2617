"""What monitoring finds, for the console: its rounds while somebody looks, and what they told in
the last hour.

The rules, the figures and the thresholds are those of `pyrmq admin monitor run` without a file
(docs/monitoring.md). There are no sinks: the alarms page shows what a round found. A round is
bounded, so that brokers with thousands of groups do not feel it: it asks for 2 groups or servers at
a time and ends after 10 s; what it did not reach comes first in the next one.

Memory: 2,000 alarms that fire, 1,000 events of the last hour.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import trio

from pyrmq.admin.api import Admin
from pyrmq.admin.expected import KEEP_MS
from pyrmq.admin.monitoring.alarms import Event, Sample, State
from pyrmq.admin.monitoring.metrics import Subject
from pyrmq.admin.monitoring.monitor import Monitor
from pyrmq.admin.monitoring.rounds import Report
from pyrmq.admin.monitoring.settings import Rounds, Settings
from pyrmq.admin.monitoring.watchers import watchers
from pyrmq.net.clock import now_ms

MAX_ALARMS = 2_000
MAX_EVENTS = 1_000
HOUR_MS = 3_600_000
ROUNDS = Rounds(
    interval=60.0, timeout=10.0, part_timeout=5.0, at_once=2, forget=KEEP_MS / 1000,
    max_alarms=MAX_ALARMS,
)  # fmt: skip
"""Gentler than the service: a console looks at the side. Missing brokers are kept as on the other
pages."""
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Found:
    """What is known of alarms. firing: those that were told and are not over, the newest first.
    rising: figures that are too high, not yet for long enough. events: of the last hour, the newest
    first. round_at: when the last round ended, ms since 1970; 0: there was none yet. problems: what
    that round could not ask. left: groups and servers that it did not reach."""

    firing: tuple[Event, ...] = ()
    rising: tuple[Sample, ...] = ()
    events: tuple[Event, ...] = ()
    round_at: int = 0
    asked: int = 0
    problems: tuple[str, ...] = ()
    left: int = 0


class Watch:
    """One Admin's rounds. With another Admin all begins anew: it may see other things."""

    def __init__(self, now: Callable[[], int] = now_ms) -> None:
        self._now = now
        self._admin: Admin | None = None
        self._monitor: Monitor | None = None
        self._firing: dict[Subject, Event] = {}
        self._events: deque[Event] = deque(maxlen=MAX_EVENTS)
        self._report: Report | None = None
        self._round_at = 0
        self._due = 0.0

    async def round(self, admin: Admin) -> None:
        """One round, if it is time for one."""
        if trio.current_time() < self._due and admin is self._admin:
            return
        self._due = trio.current_time() + ROUNDS.interval
        if self._monitor is None or admin is not self._admin:
            settings = Settings(rounds=ROUNDS, sinks=())
            self._admin = admin
            self._monitor = Monitor(
                settings, watchers(admin, settings), (), write=lambda line: None
            )
            self._firing.clear()
        self.take(await self._monitor.round())

    def take(self, report: Report) -> None:
        """What a round found."""
        self._report = report
        self._round_at = self._now()
        for event in report.events:
            self._events.append(event)
            if event.state is State.FIRING:
                self._firing[event.subject] = event
            else:
                self._firing.pop(event.subject, None)

    def found(self) -> Found:
        """What is known now."""
        report = self._report
        if report is None:
            return Found()
        begin = self._now() - HOUR_MS
        rising = (sample for sample in report.high if sample.subject not in self._firing)
        return Found(
            tuple(sorted(self._firing.values(), key=lambda e: -e.since)),
            tuple(rising),
            tuple(event for event in reversed(self._events) if event.time >= begin),
            self._round_at,
            report.asked,
            tuple(report.problems),
            report.left,
        )
