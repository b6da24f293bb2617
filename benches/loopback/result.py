"""What a scenario found: figures beside their targets, and what the generator said."""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

_BOUND = re.compile(r"(<=|>=|<|) ?(\d+(?:\.\d+)?)")


class Unavailable(Exception):
    """The scenario cannot be measured this way, as the start-up time of a running broker."""


def verdict(value: float, target: str) -> str:
    """`met` or `missed`; nothing where the target is no number, or there is none."""
    match = _BOUND.fullmatch(target)
    if match is None:
        return ""
    bound = float(match[2])
    good = {"<=": value <= bound, ">=": value >= bound, "<": value < bound, "": value == bound}
    return "met" if good[match[1]] else "missed"


@dataclass(frozen=True)
class Figure:
    """One measured value; `target` is text such as "<= 3" in the same unit."""

    name: str
    value: float
    unit: str
    target: str = ""
    span: tuple[float, float] | None = None
    """The lowest and the highest of what `value` is the median of."""

    @property
    def verdict(self) -> str:
        return verdict(self.value, self.target)


@dataclass
class Result:
    """What a scenario found: figures for the table, raw results of the generator for the file."""

    scenario: str
    load: str
    figures: list[Figure] = field(default_factory=list)
    raw: list[dict[str, Any]] = field(default_factory=list)
    note: str = ""

    def add(self, name: str, value: float | None, unit: str, target: str = "") -> None:
        if value is not None:
            self.figures.append(Figure(name, value, unit, target))

    def add_ratios(self, name: str, values: Sequence[float], target: str) -> None:
        """One ratio of each round."""
        span = (min(values), max(values))
        self.figures.append(Figure(name, statistics.median(values), "x", target, span))

    def add_loads(
        self,
        results: Sequence[dict[str, Any]],
        per: str = "messages",
        target: str = "",
        suffix: str = "",
    ) -> None:
        """The figures that every load has, medians over `results`.

        `per`: what CPU time is counted by, `messages` or `requests`; `target` is that of the
        broker's.
        """
        one = per.removesuffix("s")
        self.raw += results

        def median(name: str) -> float:
            return statistics.median(float(result[name]) for result in results)

        def cpu(name: str) -> float | None:
            found = [us_per(result, name, per) for result in results]
            known = [value for value in found if value is not None]
            return statistics.median(known) if known else None

        self.add("rate" + suffix, median("rate"), "messages/s")
        self.add("p50" + suffix, median("p50_us"), "us")
        self.add("p99" + suffix, median("p99_us"), "us")
        self.add("broker CPU" + suffix, cpu("watched_cpu_seconds"), f"us/{one}", target)
        self.add("generator CPU" + suffix, cpu("own_cpu_seconds"), f"us/{one}")
        if refused := sum(result["refused"] for result in results):
            self.add("refused" + suffix, refused, "requests")
            self.note = next(
                f"refused: {result['first_refusal']}" for result in results if result["refused"]
            )

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def us_per(result: dict[str, Any], cpu: str, unit: str) -> float | None:
    """CPU microseconds per `messages` or `requests`; None when it was not measured."""
    seconds, count = result[cpu], result[unit]
    return seconds / count * 1e6 if seconds is not None and count else None
