"""What a run of several peers found, and its JSON: schema `pyrmq-bench-peers/1`."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyrmq.bench.peers.peer import Load, Window
from pyrmq.bench.result import Environment, check_schema, parse, read_json
from pyrmq.bench.runs import write_json
from pyrmq.bench.spread import Ratio, ratio
from pyrmq.escape import escape

SCHEMA = "pyrmq-bench-peers/1"


@dataclass(frozen=True)
class Entry:
    """A peer as it was started, or why it was not."""

    key: str
    title: str
    version: str = ""
    command: list[str] = field(default_factory=list)
    settings: str = ""
    missing: str = ""
    """Why it was not measured, and how to get it; "" if it was started."""


@dataclass(frozen=True)
class Failure:
    """A load that a peer was not measured with."""

    peer: str
    load: str
    why: str


@dataclass(frozen=True)
class Report:
    """Everything of one run. Windows in the order in which they were measured."""

    started: str
    """ISO 8601, UTC."""
    command: list[str]
    flush: str
    seconds: float
    warmup: float
    prepare: float
    rounds: int
    heap: str
    loads: list[Load]
    peers: list[Entry]
    windows: list[Window]
    failures: list[Failure]
    environment: Environment
    interrupted: bool = False
    schema: str = SCHEMA

    def title(self, key: str) -> str:
        return next((peer.title for peer in self.peers if peer.key == key), key)

    def measured(self, load: str) -> list[str]:
        """The peers that have a window of this load, in their order."""
        there = {window.peer for window in self.windows if window.load == load}
        return [peer.key for peer in self.peers if peer.key in there]

    def of(self, load: str, peer: str) -> list[Window]:
        return [w for w in self.windows if (w.load, w.peer) == (load, peer)]

    def values(self, load: str, peer: str, name: str) -> list[float]:
        """A figure of all windows, those that have it."""
        found = [getattr(window, name) for window in self.of(load, peer)]
        return [value for value in found if value is not None]

    def figures(self, name: str) -> Iterator[tuple[Load, str, list[float]]]:
        """Load, peer and values of a figure, where there is one."""
        for load in self.loads:
            for peer in self.measured(load.name):
                if values := self.values(load.name, peer, name):
                    yield load, peer, values

    def beside(self, load: str, peer: str, other: str, name: str = "rate") -> Ratio | None:
        """A figure of `peer` in times that of `other`, from windows of the same round."""
        rounds = {w.round: getattr(w, name) for w in self.of(load, other)}
        pairs = [
            (rounds[w.round], getattr(w, name))
            for w in self.of(load, peer)
            if rounds.get(w.round) and getattr(w, name)
        ]
        return _beside(pairs)

    def part(self, load: Load, peer: str) -> Ratio | None:
        """The rate as a part of the same peer's with `load.part_of`, by rounds."""
        rounds = {w.round: w.rate for w in self.of(load.part_of, peer)}
        pairs = [(rounds[w.round], w.rate) for w in self.of(load.name, peer) if w.round in rounds]
        return _beside(pairs)

    def notes(self) -> list[str]:
        """What a reader has to know of the whole run, then what the clients said about their
        windows, each once."""
        found: dict[str, None] = {}
        where = self.environment
        if self.rounds == 1:
            found[
                "one round only: how much the figures of a peer differ by chance is not known"
            ] = None
        if where.load_average > where.cores > 0:
            found[
                f"the load average was {where.load_average:.2g} on {where.cores} cores before the "
                "run: other processes took CPU too, so a machine at rest has other figures"
            ] = None
        for window in self.windows:
            for note in window.notes:
                found[f"{self.title(window.peer)}: {note}"] = None
        for window in self.windows:
            if window.errors:
                text = f"{self.title(window.peer)}, {window.load}: requests failed in a window"
                found[text] = None
        return list(found)

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def _beside(pairs: list[tuple[float, float]]) -> Ratio | None:
    """The second of each pair in times the first. None if one of them is not above 0."""
    known = ratio([a for a, _ in pairs], [b for _, b in pairs])
    if known is None:
        return None
    of = sorted(b / a for a, b in pairs)
    spread = (of[-1] - of[0]) / statistics.median(of) if len(of) > 1 else None
    return Ratio(known.a, known.b, statistics.median(of), of[0], of[-1], spread)


def write_report(path: Path, report: Report) -> None:
    write_json(path, report.to_json())


def read_report(path: Path) -> Report:
    """ResultFormatError if it is none of this schema, OSError if it cannot be read."""
    value = read_json(path)
    where = escape(str(path))
    check_schema(value, SCHEMA, where)
    return parse(Report, value, where)


@dataclass(frozen=True)
class Column:
    """A figure as reports show it."""

    name: str
    title: str
    unit: str
    text: Callable[[float], str]


def rate_text(value: float) -> str:
    return f"{value:,.0f}/s"


def time_text(us: float) -> str:
    if us < 1000:
        return f"{us:,.3g} us"
    return f"{us / 1000:,.3g} ms" if us < 1_000_000 else f"{us / 1_000_000:,.3g} s"


def cpu_text(us: float) -> str:
    return f"{us:,.3g} us" if us < 1000 else f"{us:,.0f} us"


COLUMNS = (
    Column("rate", "Rate", "messages/s", rate_text),
    Column("p50_us", "p50", "us", time_text),
    Column("p99_us", "p99", "us", time_text),
    Column("p999_us", "p99.9", "us", time_text),
    Column("server_cpu_us", "Server CPU a message", "us", cpu_text),
)
YARDSTICKS = ("floor", "apache")
"""What the others are also shown as times of."""


def ratio_text(found: Ratio | None) -> str:
    """`2.1 (1.9 to 2.4)`."""
    if found is None:
        return ""
    if found.spread is None:
        return f"{found.value:.3g}"
    return f"{found.value:.3g} ({found.low:.3g} to {found.high:.3g})"


def table(report: Report, load: Load) -> tuple[list[str], list[list[str]]]:
    """Heads and rows of one load: a row a peer, medians over the rounds."""
    there = report.measured(load.name)
    yards = [key for key in YARDSTICKS if key in there]
    heads = ["", *(column.title for column in COLUMNS)]
    # At a given rate the rate is that of all.
    name, title = ("p99_us", "p99") if load.rate else ("rate", "Rate")
    heads += [f"{title}, times {report.title(key)}" for key in yards]
    parts = {peer: report.part(load, peer) for peer in there} if load.part_of else {}
    if parts := {peer: found for peer, found in parts.items() if found}:
        heads.append(f"Rate, times its own with {load.part_of}")
    rows = []
    for peer in there:
        row = [report.title(peer)]
        for column in COLUMNS:
            values = report.values(load.name, peer, column.name)
            row.append(column.text(statistics.median(values)) if values else "")
        for key in yards:
            row.append(
                ratio_text(report.beside(load.name, peer, key, name)) if key != peer else "1"
            )
        if parts:
            row.append(ratio_text(parts.get(peer)))
        rows.append(row)
    return heads, rows
