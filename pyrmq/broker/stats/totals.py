"""What the whole broker took and gave: totals, rates, and totals at midnight.
[StoreStatsService, BrokerStats]"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from datetime import date

SPANS = (1, 6, 60)
"""Samplings that the rates go back: 10, 60 and 600 seconds."""


@dataclass(frozen=True, slots=True)
class Totals:
    """Since the start. `plain_…`: without the topics of the system."""

    put: int = 0
    put_bytes: int = 0
    plain_put: int = 0
    found: int = 0
    """Reads of consumers that found messages."""
    missed: int = 0
    """Reads that found none."""
    got: int = 0
    plain_got: int = 0


class Rates:
    """The totals of the last ten minutes."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, Totals]] = deque(maxlen=SPANS[-1] + 1)

    def sample(self, now: float, totals: Totals) -> None:
        self._samples.append((now, totals))

    def text(self, *names: str) -> str:
        """What the named totals together grow by in a second, over 10, 60 and 600 seconds: three
        numbers between blanks. One that is not known yet is left out, its blank stays."""
        return " ".join(self._over(span, names) for span in SPANS)

    def _over(self, span: int, names: tuple[str, ...]) -> str:
        if len(self._samples) <= span:
            return ""
        (begin, before), (end, now) = self._samples[-1 - span], self._samples[-1]
        grown = sum(getattr(now, name) - getattr(before, name) for name in names)
        return str(round(grown / (end - begin), 4) if end > begin else 0.0)


class Mornings:
    """Messages put and got until the last midnight and until the one before, local time; 0 as long
    as there was none since the start."""

    def __init__(self, today: date) -> None:
        self._day = today
        self.yesterday = self.today = (0, 0)

    def look(self, today: date, totals: Totals) -> None:
        """To be called often: the first call of a day is its midnight."""
        if today > self._day:
            self._day = today
            self.yesterday = self.today
            self.today = (totals.plain_put, totals.plain_got)
