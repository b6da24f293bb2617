"""Ratios of repeated measurements: median, range, and whether the spread hides the difference."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Ratio:
    """b beside a: medians, and the lowest and highest ratio of any b to any a."""

    a: float
    b: float
    value: float
    low: float
    high: float
    spread: float | None
    """The larger range of both sides, as a part of its median; None if a side has one value."""

    @property
    def difference(self) -> float:
        """How far the ratio is from 1, as a part: 2 and 0.5 are equally far."""
        return max(self.value, 1 / self.value) - 1 if self.value > 0 else 1.0

    @property
    def hidden(self) -> bool:
        """Whether the values of one side differ more than both sides do."""
        return self.spread is not None and self.spread > self.difference

    def judged(self, higher_is_better: bool) -> str:
        """`better`, `worse` or `same`, with what the spread says about it."""
        if self.spread is None:
            return "not known: one run on a side has no spread"
        if self.hidden:
            return (
                f"no: the spread ({self.spread:.0%}) is larger than the difference "
                f"({self.difference:.0%})"
            )
        if self.value == 1:
            return "same"
        return "better" if (self.value > 1) == higher_is_better else "worse"


def spread(values: Sequence[float]) -> float:
    """(highest - lowest) / median; 0 if all are 0."""
    middle = statistics.median(values)
    reach = max(values) - min(values)
    return reach / middle if middle else (float("inf") if reach else 0.0)


def ratio(a: Sequence[float], b: Sequence[float]) -> Ratio | None:
    """None if a side has no value, or one that is not above 0."""
    if not a or not b or min(a) <= 0 or min(b) <= 0:
        return None
    of = statistics.median(b) / statistics.median(a)
    known = max(spread(a), spread(b)) if len(a) > 1 and len(b) > 1 else None
    return Ratio(
        statistics.median(a), statistics.median(b), of, min(b) / max(a), max(b) / min(a), known
    )
