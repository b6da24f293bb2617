"""Compares two results of one load: ratios with their spread over repeated runs."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyrmq.bench.result import BenchError, Result
from pyrmq.bench.spread import Ratio, ratio
from pyrmq.bench.svg import number
from pyrmq.escape import escape

WHERE = frozenset(
    {"namesrv", "address", "cluster", "embedded", "flush", "topic", "group", "pid", "hdr", "json"}
    | {"file", "payload_file", "access_key"}
)
"""Settings that say where a load goes and what is kept of it, and not what it is. Of files the
content counts: `mixed`, `payload`."""
LENGTH = frozenset({"duration", "count", "warmup", "settle", "timeout"})
"""Settings that may differ: rates and latencies can still be compared, with a note."""
MACHINE = ("cpu", "cores", "memory_bytes", "kernel", "disk", "flush", "broker_role", "virtual")
"""What should be the same where only the broker is compared."""


@dataclass(frozen=True)
class Line:
    """A figure of both sides. `ratio` is None where one side has none."""

    name: str
    unit: str
    higher_is_better: bool
    ratio: Ratio | None
    a: list[float]
    b: list[float]


@dataclass(frozen=True)
class Comparison:
    a: str
    b: str
    load: str
    runs: tuple[int, int]
    lines: list[Line]
    notes: list[str]


def _shape(run: Result) -> dict[str, Any]:
    """What makes two runs the same load."""
    kept = {k: v for k, v in run.settings.items() if k not in WHERE | LENGTH}
    return {"load": run.load, "loop": run.loop, **kept}


def _differences(a: Result, b: Result) -> list[str]:
    one, other = _shape(a), _shape(b)
    return [
        f"{key} {_shown(one.get(key))} and {_shown(other.get(key))}"
        for key in dict.fromkeys((*one, *other))
        if one.get(key) != other.get(key)
    ]


def _shown(value: object) -> str:
    return "none" if value is None else escape(json.dumps(value)[:60])


def _figures(runs: Sequence[Result]) -> Iterator[tuple[str, str, bool, Callable[[Result], Any]]]:
    """Name, unit, whether more is better, and how to read it."""
    yield "rate", "messages/s", True, lambda run: run.rate
    kinds = list(dict.fromkeys(kind for run in runs for kind in run.latency))
    for kind in kinds:
        for name, field in (("p50", "p50"), ("p99", "p99"), ("p99.9", "p999")):
            yield f"{name} {kind.replace('_', ' ')}", "us", False, _latency(kind, field)
    yield "server CPU", "us/message", False, _server_cpu
    yield "generator CPU", "us/message", False, _generator_cpu


def _latency(kind: str, field: str) -> Callable[[Result], float | None]:
    def read(run: Result) -> float | None:
        found = run.latency.get(kind)
        return getattr(found, field) if found is not None and found.count else None

    return read


def _server_cpu(run: Result) -> float | None:
    known = [s.cpu_us_per_message for s in run.servers if s.cpu_us_per_message is not None]
    return sum(known) if known else None


def _generator_cpu(run: Result) -> float | None:
    return run.generator.cpu_seconds / run.messages * 1e6 if run.messages else None


def _notes(name: str, runs: Sequence[Result]) -> Iterator[str]:
    for run in runs:
        if run.ended in ("interrupted", "error"):
            why = f": {escape(run.why)}" if run.why else ""
            yield f"{name}: a run ended early ({escape(run.ended)}{why})"
        if run.generator.limit:
            yield f"{name}: the load generator was probably the limit"
        v = run.verify
        if v is not None and (v.lost or v.twice or v.refused_received):
            yield (
                f"{name}: a run has {v.lost:,} messages lost, {v.twice:,} twice, "
                f"{v.refused_received:,} refused and yet stored"
            )
        if failed := sum(error.count for error in run.errors):
            yield f"{name}: {failed} errors in a run of {run.messages:,} messages"


def compare(a: Sequence[Result], b: Sequence[Result], names: tuple[str, str]) -> Comparison:
    """BenchError if the sides, or the runs of one side, are not the same load."""
    for name, runs in zip(names, (a, b), strict=True):
        for run in runs[1:]:
            if differs := _differences(runs[0], run):
                raise BenchError(f"{name} has runs of different loads: {', '.join(differs)}")
    if differs := _differences(a[0], b[0]):
        raise BenchError(
            f"{names[0]} and {names[1]} measured different loads: {', '.join(differs)}. "
            "Run one of them again with the settings of the other"
        )
    lines = []
    for name, unit, more, read in _figures([*a, *b]):
        one = [value for run in a if (value := read(run)) is not None]
        other = [value for run in b if (value := read(run)) is not None]
        if one or other:
            lines.append(Line(name, unit, more, ratio(one, other), one, other))
    notes = [note for name, runs in zip(names, (a, b), strict=True) for note in _notes(name, runs)]
    for key in sorted(LENGTH):
        one_length, other_length = a[0].settings.get(key), b[0].settings.get(key)
        if one_length != other_length:
            notes.append(f"{key} differs: {_shown(one_length)} and {_shown(other_length)}")
    for key in MACHINE:
        x, y = getattr(a[0].environment, key), getattr(b[0].environment, key)
        if x != y:
            notes.append(f"the environments differ: {key} {_shown(x)} and {_shown(y)}")
    return Comparison(*names, a[0].load, (len(a), len(b)), lines, list(dict.fromkeys(notes)))


def table(found: Comparison) -> str:
    """For people, as aligned text."""
    heads = ("figure", "a", "b", "b / a", "range", "is it a difference?")
    rows: list[tuple[str, ...]] = [heads]
    for line in found.lines:
        r = line.ratio
        if r is None:
            sides = [number(statistics.median(v)) if v else "-" for v in (line.a, line.b)]
            rows.append(
                (f"{line.name}, {line.unit}", *sides, "-", "", "no ratio: a value is missing or 0")
            )
            continue
        span = "" if r.spread is None else f"{r.low:.3g} to {r.high:.3g}"
        judged = r.judged(line.higher_is_better)
        name = f"{line.name}, {line.unit}"
        rows.append((name, number(r.a), number(r.b), f"{r.value:.3g}", span, judged))
    wide = [max(len(row[i]) for row in rows) for i in range(len(heads))]
    text = [
        f"a: {found.a}, {_runs(found.runs[0])}",
        f"b: {found.b}, {_runs(found.runs[1])}",
        "",
    ]
    for row in rows:
        cells = [
            row[0].ljust(wide[0]),
            *(c.rjust(w) for c, w in zip(row[1:4], wide[1:4], strict=True)),
        ]
        text.append("  ".join([*cells, row[4].ljust(wide[4]), row[5]]).rstrip())
    return "\n".join([*text, *(f"note: {note}" for note in found.notes)])


def _runs(count: int) -> str:
    return f"{count} run{'s' * (count > 1)}"
