"""The tables of docs/benchmarks.md from the file of one run.

`python -m benches.loopback.markdown build/bench-loopback.json`
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .loads import BATCH, LOADS, Load
from .result import Figure
from .turns import OF_APACHE, OF_FLOOR, P99_OF_FLOOR

Figures = dict[str, Figure]


def figures_of(document: dict[str, Any]) -> dict[str, Figures]:
    """By scenario and name."""
    return {
        result["scenario"]: {
            f["name"]: Figure(
                f["name"], f["value"], f["unit"], f["target"], f["span"] and tuple(f["span"])
            )
            for f in result["figures"]
        }
        for result in document["results"]
    }


def _rate(figure: Figure) -> str:
    return f"{figure.value:,.0f}/s"


def _us(figure: Figure) -> str:
    return f"{figure.value:,.3g} us" if figure.value < 1000 else f"{figure.value:,.0f} us"


def _time(figure: Figure) -> str:
    return _us(figure) if figure.value < 1000 else f"{figure.value / 1000:.3g} ms"


def _ratio(figure: Figure) -> str:
    span = figure.span or (figure.value, figure.value)
    return f"{figure.value:.3g} ({span[0]:.3g} to {span[1]:.3g})"


def shown(verdict: str) -> str:
    """What is missed stands out."""
    return "met" if verdict == "met" else "**missed**"


def _target(figure: Figure) -> str:
    bound = figure.target.lstrip("<>= ")
    return f"{bound}: {shown(figure.verdict)}" if bound else ""


def _name(load: Load) -> str:
    shape = f"{load.connections} x {load.in_flight}"
    if load.mode == "pull":
        return f"pull of {BATCH}, {load.connections} connection{'s' * (load.connections > 1)}"
    batches = f"batches of {BATCH}, " * (load.mode == "batch")
    return f"{load.flush}, {batches}{shape}"


def _both(figures: Figures, name: str, other: str, text: Callable[[Figure], str]) -> str:
    return f"{text(figures[name])}; {text(figures[f'{name}, {other}'])}"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(row)} |" for row in (heads, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(heads), *lines[1:]])


def _rows(
    found: dict[str, Figures], figure: str, cells: Callable[[Figures], list[str]]
) -> list[list[str]]:
    """A row of each load of which there is this figure."""
    known = [(load, found.get(load.name, {})) for load in LOADS]
    return [[_name(load), *cells(figures)] for load, figures in known if figure in figures]


def beside_the_floor(found: dict[str, Figures]) -> str:
    heads = (
        "Load, 1 KiB", "Rate; the floor's", "Of the floor", "Target", "p99 of the floor's",
        "Target", "Broker CPU; the floor's",
    )  # fmt: skip

    def cells(f: Figures) -> list[str]:
        return [
            _both(f, "rate", "floor", _rate),
            _ratio(f[OF_FLOOR]),
            _target(f[OF_FLOOR]),
            _ratio(f[P99_OF_FLOOR]),
            _target(f[P99_OF_FLOOR]),
            _both(f, "broker CPU", "floor", _us),
        ]

    return _table(heads, _rows(found, OF_FLOOR, cells))


def beside_apache(found: dict[str, Figures]) -> str:
    heads = (
        "Load, 1 KiB", "Rate; Apache RocketMQ", "Of Apache", "Target", "The floor of Apache",
        "p99; Apache", "Broker CPU; Apache",
    )  # fmt: skip

    def cells(f: Figures) -> list[str]:
        return [
            _both(f, "rate", "Apache", _rate),
            _ratio(f[OF_APACHE]),
            _target(f[OF_APACHE]),
            f"{f['rate, floor'].value / f['rate, Apache'].value:.3g}",
            _both(f, "p99", "Apache", _time),
            _both(f, "broker CPU", "Apache", _us),
        ]

    return _table(heads, _rows(found, OF_APACHE, cells))


def broker_cpu(found: dict[str, Figures]) -> str:
    """Where the broker's CPU time has a target."""
    heads = ("Broker CPU", "Measured", "Target")
    judged = {name: f for name, f in found.items() if "broker CPU" in f and f["broker CPU"].target}
    rows = _rows(judged, "broker CPU", lambda f: [_us(f["broker CPU"]), _target(f["broker CPU"])])
    return _table(heads, rows)


def main() -> None:
    found = figures_of(json.loads(Path(sys.argv[1]).read_text()))
    print(beside_the_floor(found), beside_apache(found), broker_cpu(found), sep="\n\n")


if __name__ == "__main__":
    main()
