"""Counters of a consumer for the last minute. [ConsumerStatsManager]"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass

WINDOW = 60.0
STEP = 1.0


@dataclass(slots=True)
class _Step:
    start: float
    ok: int = 0
    failed: int = 0
    calls: int = 0
    seconds: float = 0.0
    pulls: int = 0
    pulled: int = 0
    pull_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Rates:
    """The last minute: mean ms of a pull and of a listener call, messages per second; `failed` is
    the number of failures."""

    pull_rt: float
    pull_tps: float
    consume_rt: float
    consume_ok_tps: float
    consume_failed_tps: float
    failed: int


class ConsumeStatistics:
    """Counts in steps of a second."""

    def __init__(self) -> None:
        self._steps: deque[_Step] = deque()

    def consumed(self, ok: int, failed: int, seconds: float) -> None:
        """One call of the listener."""
        step = self._step()
        step.ok += ok
        step.failed += failed
        step.calls += 1
        step.seconds += seconds

    def pulled(self, messages: int, seconds: float) -> None:
        """One pull that brought messages."""
        step = self._step()
        step.pulls += 1
        step.pulled += messages
        step.pull_seconds += seconds

    def _step(self) -> _Step:
        now = time.monotonic()
        steps = self._steps
        if not steps or now - steps[-1].start >= STEP:
            steps.append(_Step(now))
            while steps[0].start < now - WINDOW:
                steps.popleft()
        return steps[-1]

    def rates(self) -> Rates:
        after = time.monotonic() - WINDOW
        steps = [s for s in self._steps if s.start >= after]
        pulls = sum(s.pulls for s in steps) or 1
        calls = sum(s.calls for s in steps) or 1
        failed = sum(s.failed for s in steps)
        return Rates(
            1000 * sum(s.pull_seconds for s in steps) / pulls,
            sum(s.pulled for s in steps) / WINDOW,
            1000 * sum(s.seconds for s in steps) / calls,
            sum(s.ok for s in steps) / WINDOW,
            failed / WINDOW,
            failed,
        )


class Statistics:
    """The counts of a consumer by topic."""

    def __init__(self) -> None:
        self._topics: dict[str, ConsumeStatistics] = {}

    def of(self, topic: str) -> ConsumeStatistics:
        found = self._topics.get(topic)
        if found is None:
            found = self._topics[topic] = ConsumeStatistics()
        return found

    def topics(self) -> list[str]:
        return sorted(self._topics)
