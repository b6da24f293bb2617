"""Results as tables for people and as a file for later comparison."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from pathlib import Path

from .result import Figure, Result
from .turns import OF_APACHE, OF_FLOOR, P99_OF_FLOOR


def _number(value: float) -> str:
    if value == int(value) and abs(value) < 1e6:
        return f"{int(value):,}"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) < 10 else f"{value:.1f}"


def _unit(figure: Figure) -> str:
    if figure.span is None or figure.span[0] == figure.span[1]:
        return figure.unit
    return f"{figure.unit} ({_number(figure.span[0])} to {_number(figure.span[1])})"


def _judged(figure: Figure) -> str:
    return f"{figure.target} {figure.verdict}".strip()


def _rows(result: Result) -> list[Sequence[str]]:
    rows = [(f.name, _number(f.value), _unit(f), _judged(f)) for f in result.figures]
    return list(rows) or [("-", "", "", "")]


HEADS = ("figure", "value", "unit", "target")


def table(results: Sequence[Result]) -> str:
    """One block per scenario, the columns of all blocks aligned."""
    cells = [HEADS, *(row for result in results for row in _rows(result))]
    widths = [max(len(row[i]) for row in cells) for i in range(len(HEADS))]

    def line(row: Sequence[str]) -> str:
        name, value, unit, target = row
        text = f"  {name:<{widths[0]}}  {value:>{widths[1]}}  {unit:<{widths[2]}}  {target}"
        return text.rstrip()

    lines = [line(HEADS)]
    for result in results:
        lines += ["", f"{result.scenario}: {result.load}"]
        lines += [line(row) for row in _rows(result)]
        if result.note:
            lines.append(f"  ({result.note})")
    return "\n".join(lines)


COLUMNS = {
    "rate": "messages/s",
    "rate, floor": "floor",
    OF_FLOOR: OF_FLOOR,
    "p99": "p99 us",
    "p99, floor": "floor",
    P99_OF_FLOOR: P99_OF_FLOOR,
    OF_APACHE: OF_APACHE,
}
"""Figures of a load that had turns, and what stands above them."""


def comparison(results: Sequence[Result]) -> str:
    """One line for each load that had turns, beside the floor and Apache RocketMQ; "" without."""
    lines: list[list[str]] = []
    for result in results:
        figures = {figure.name: figure for figure in result.figures}
        if OF_FLOOR in figures or OF_APACHE in figures:
            found = (figures.get(name) for name in COLUMNS)
            cells = [f"{_number(f.value)} {_judged(f)}".strip() if f else "" for f in found]
            lines.append([result.scenario, *cells])
    if not lines:
        return ""
    rows = [["load", *COLUMNS.values()], *lines]
    used = [i for i in range(len(rows[0])) if any(row[i] for row in lines)]
    widths = {i: max(len(row[i]) for row in rows) for i in used}
    return "\n".join("  ".join(f"{row[i]:<{widths[i]}}" for i in used).rstrip() for row in rows)


def write_json(path: Path, results: Sequence[Result]) -> None:
    """Everything measured, with what is needed to know which machines may be compared."""
    document = {
        "machine": {
            "cpus": os.cpu_count(),
            "kernel": platform.release(),
            "arch": platform.machine(),
            "python": platform.python_version(),
        },
        "results": [result.as_json() for result in results],
    }
    path.write_text(json.dumps(document, indent=1) + "\n")
