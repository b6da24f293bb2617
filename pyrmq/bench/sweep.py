"""A sweep: the same load at rising rates until p99 or the backlog breaks; its file and plot."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from pyrmq.bench.knee import Limits, Search, Step, broken, climb, walk
from pyrmq.bench.result import BenchError, Result
from pyrmq.bench.svg import Mark, Series, lines

SCHEMA = "pyrmq-bench-sweep/1"
Run = Callable[[float], Result]
"""Measures at a rate in messages a second."""


def step_of(rate: float, result: Result) -> Step:
    """BenchError if the run has no latency, or was not at this rate."""
    latency = result.main_latency
    if result.loop != "open":
        raise BenchError(f"the load {result.load} knows no rate, so it has no knee")
    if latency is None and not result.errors:
        raise BenchError(f"the load {result.load} measures no latency, so it has no knee")
    failed = sum(error.count for error in result.errors)
    if result.ended == "error" and not result.messages:
        raise BenchError(f"at {rate:,.0f}/s: {result.why}")
    measured = [i for i in result.intervals if i.measured]
    nan = float("nan")
    seen = latency if latency is not None and latency.count else None
    return Step(
        rate=rate,
        reached=result.rate,
        p50_us=seen.p50 if seen else nan,
        p99_us=seen.p99 if seen else nan,
        p999_us=seen.p999 if seen else nan,
        max_us=seen.max if seen else nan,
        errors=failed / (failed + result.messages) if failed else 0.0,
        backlog=float(measured[-1].backlog) if measured else 0.0,
        generator_limit=result.generator.limit,
    )


@dataclasses.dataclass
class Sweep:
    """What a sweep found, with the result of each step."""

    load: str
    arguments: list[str]
    search: Search
    results: list[Result]

    def to_json(self) -> dict[str, Any]:
        steps = [
            {"rate": step.rate, "broke": broken(step, self.search.limits), "result": run.to_json()}
            for step, run in zip(self.search.steps, self.results, strict=False)
        ]
        return {
            "schema": SCHEMA,
            "load": self.load,
            "arguments": self.arguments,
            "limits": dataclasses.asdict(self.search.limits),
            "knee": self.search.held,
            "broke": self.search.broke,
            "verdict": self.search.verdict,
            "steps": steps,
        }


def sweep(
    load: str,
    arguments: Sequence[str],
    run: Run,
    limits: Limits,
    *,
    rates: Sequence[float] = (),
    say: Callable[[str], None] = lambda _: None,
    **how: Any,
) -> Sweep:
    """Measures `rates`, or searches; `how` is what `climb` takes. ValueError as there."""
    results: list[Result] = []

    def measure(rate: float) -> Step:
        result = run(rate)
        step = step_of(rate, result)
        results.append(result)
        why = broken(step, limits)
        say(
            f"{rate:>12,.0f}/s: {step.reached:,.0f}/s reached, p50 {step.p50_us:,.0f} us, "
            f"p99 {step.p99_us:,.0f} us: {why or 'holds'}"
        )
        return step

    if rates:
        again = how.get("again", 1)
        found = walk(measure, limits, rates, again=again)
    else:
        found = climb(measure, limits, **how)
    return Sweep(load, list(arguments), found, results)


def plot(found: Sweep) -> str:
    """Latency over the rate that was reached, as SVG. ValueError if nothing was measured."""
    steps = sorted(found.search.steps, key=lambda s: s.rate)
    names = (("p50", "p50_us"), ("p99", "p99_us"), ("p99.9", "p999_us"))
    series = [
        Series(name, [(s.rate, getattr(s, field) / 1000) for s in steps]) for name, field in names
    ]
    limits = found.search.limits
    marks = [Mark(f"limit of p99: {limits.p99_us / 1000:g} ms", y=limits.p99_us / 1000)]
    if found.search.held is not None:
        marks.append(Mark(f"knee: {found.search.held:,.0f}/s", x=found.search.held))
    title = f"Latency over rate: {' '.join([found.load, *found.arguments])}"
    if len(title) > 96:
        title = f"{title[:93]}…"
    return lines(
        title, "rate asked for, messages/s", "latency, ms", series, marks, log_x=True, log_y=True
    )
