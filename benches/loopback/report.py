"""Results as a table for people and as a file for later comparison."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from pathlib import Path

from .scenarios import Result


def _number(value: float) -> str:
    if value == int(value) and abs(value) < 1e6:
        return f"{int(value):,}"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) < 10 else f"{value:.1f}"


def _rows(result: Result) -> list[tuple[str, str, str, str]]:
    rows = [(f.name, _number(f.value), f.unit, f.target) for f in result.figures]
    return rows or [("-", "", "", "")]


HEADS = ("figure", "value", "unit", "target")


def table(results: Sequence[Result]) -> str:
    """One block per scenario, the columns of all blocks aligned."""
    cells = [HEADS, *(row for result in results for row in _rows(result))]
    widths = [max(len(row[i]) for row in cells) for i in range(len(HEADS))]

    def line(row: tuple[str, str, str, str]) -> str:
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
