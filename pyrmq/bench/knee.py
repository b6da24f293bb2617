"""Finds the knee: the highest rate that a broker keeps up with. No I/O: the caller measures.

Rates go up by a factor until one breaks; then the gap between the last that held and the first
that broke is halved (on a logarithmic scale) until it is small enough. A rate breaks if it breaks
each time it is measured, so that one bad moment of the machine is no knee.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Limits:
    """What a rate has to keep to hold.

    p99_us: at most so many microseconds, from the time a message was due.
    reach: at least this part of the rate is reached.
    backlog: at the end of the window at most so many seconds' worth of messages wait.
    errors: at most this part of the messages fails.
    """

    p99_us: float = 50_000.0
    reach: float = 0.98
    backlog: float = 0.5
    errors: float = 0.0


@dataclass(frozen=True)
class Step:
    """What one rate gave. Rates are messages a second, times microseconds."""

    rate: float
    """That was asked for."""
    reached: float
    p50_us: float
    p99_us: float
    p999_us: float
    max_us: float
    errors: float = 0.0
    """Part of the messages that failed, 0 to 1."""
    backlog: float = 0.0
    """Messages that waited at the end of the window: due and not yet sent, or not yet received."""
    generator_limit: bool = False
    """Whether the load generator was probably the limit, and not the broker."""


def broken(step: Step, limits: Limits) -> str:
    """Why a rate does not hold, as a sentence; "" if it does."""
    why = []
    if step.errors > limits.errors:
        why.append(f"{step.errors:.2%} of the messages failed (limit {limits.errors:.2%})")
    if step.reached < limits.reach * step.rate:
        share = step.reached / step.rate
        why.append(f"only {share:.1%} of the rate was reached (limit {limits.reach:.1%})")
    if step.backlog > limits.backlog * step.rate:
        worth = step.backlog / step.rate
        why.append(
            f"{step.backlog:,.0f} messages waited at the end, {worth:.2g} s of the rate "
            f"(limit {limits.backlog:g} s)"
        )
    if not step.p99_us <= limits.p99_us:  # also if it is not a number
        why.append(f"p99 is {step.p99_us:,.0f} us (limit {limits.p99_us:,.0f} us)")
    return "; ".join(why)


@dataclass
class Search:
    """All steps in the order they were measured, and what came of them."""

    limits: Limits
    steps: list[Step] = field(default_factory=list)
    held: float | None = None
    """The highest rate that held below all that broke: the knee. None: no rate held."""
    broke: float | None = None
    """The lowest rate that broke. None: none did."""
    why: str = ""
    """Why that rate broke."""
    ended: str = ""
    """Why the search ended before it was exact; "" if it was."""
    interrupted: bool = False

    @property
    def verdict(self) -> str:
        """What was found, as a sentence."""
        if self.held is None and self.broke is None:
            return f"Nothing was measured: {self.ended or 'no rate was asked for'}."
        if self.held is None:
            return f"No rate held: {self.broke:,.0f}/s broke already: {self.why}."
        text = f"The knee is at {self.held:,.0f}/s"
        if self.broke is None:
            text = f"No rate broke up to {self.held:,.0f}/s"
        else:
            text += f": {self.broke:,.0f}/s broke: {self.why}"
        if any(s.generator_limit for s in self.steps if self.broke and s.rate == self.broke):
            text += ". The load generator was probably the limit there, and not the broker"
        return f"{text}. {self.ended}".rstrip()


Measure = Callable[[float], Step]
MOST_STEPS = 60
"""However the rates were chosen: a search ends."""


class _Ended(Exception):
    pass


class _Measuring:
    def __init__(self, measure: Measure, found: Search, again: int) -> None:
        self._measure, self._found, self._again = measure, found, again

    def holds(self, rate: float) -> bool:
        """Measures a rate, more than once if it breaks."""
        for _ in range(1 + self._again):
            if len(self._found.steps) >= MOST_STEPS:
                raise _Ended(f"The search ended after {MOST_STEPS} measurements.")
            step = self._measure(rate)
            self._found.steps.append(step)
            why = broken(step, self._found.limits)
            if not why:
                if self._found.held is None or rate > self._found.held:
                    self._found.held = rate
                return True
        if self._found.broke is None or rate < self._found.broke:
            self._found.broke, self._found.why = rate, why
        return False


def climb(
    measure: Measure,
    limits: Limits,
    *,
    start: float = 1000.0,
    most: float = 10_000_000.0,
    factor: float = 2.0,
    precision: float = 0.05,
    again: int = 1,
) -> Search:
    """Searches from `start` to `most`; `again`: how often a rate that broke is measured once more.

    precision: the search ends when the gap is this part of the knee. KeyboardInterrupt ends it
    with what was found so far. ValueError for arguments that cannot be.
    """
    if not (start > 0 and math.isfinite(most) and most >= start):
        raise ValueError(f"rates go from {start:g} to {most:g}: the first must be above 0")
    if not factor > 1:
        raise ValueError(f"the factor must be above 1, not {factor:g}")
    if not 0 < precision < 1:
        raise ValueError(f"the precision must be between 0 and 1, not {precision:g}")
    found = Search(limits)
    measuring = _Measuring(measure, found, again)
    try:
        rate = start
        if measuring.holds(rate):
            while rate < most:
                rate = min(rate * factor, most)
                if not measuring.holds(rate):
                    break
        else:
            while rate > 1 and not measuring.holds(rate := max(rate / factor, 1.0)):
                pass
        if found.held is not None and found.broke is not None:
            while found.broke / found.held > 1 + precision and found.broke - found.held >= 1:
                measuring.holds(math.sqrt(found.held * found.broke))
    except KeyboardInterrupt:
        found.ended, found.interrupted = "The search was interrupted.", True
    except _Ended as end:
        found.ended = str(end)
    return found


def walk(measure: Measure, limits: Limits, rates: Sequence[float], *, again: int = 1) -> Search:
    """Measures these rates from the lowest on, and ends at the first that breaks."""
    if not rates or min(rates) <= 0:
        raise ValueError("each rate must be above 0")
    found = Search(limits)
    measuring = _Measuring(measure, found, again)
    try:
        for rate in sorted(set(rates)):
            if not measuring.holds(rate):
                break
    except KeyboardInterrupt:
        found.ended, found.interrupted = "The search was interrupted.", True
    except _Ended as end:
        found.ended = str(end)
    return found
