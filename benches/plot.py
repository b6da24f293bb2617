"""Draws docs/benchmarks.svg from the JSON that `make bench` leaves: each figure beside its target.

    python -m benches.plot bench.json docs/benchmarks.svg

One bar for each figure that has a target, as a multiple of it on a logarithmic scale: 1 is the
target, to the right is better.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

NUMBER = re.compile(r"[0-9]+(?:[0-9,]*[0-9])?(?:\.[0-9]+)?")
BOUND = re.compile(r"([<>])=? *(" + NUMBER.pattern + ")")
WIDE = 3.0
"""Decades that the scale spans, half of them on each side of the target."""


def margin(figure: str, target: str) -> float | None:
    """How many times better than its target (`<= 3`) a figure is, below 1: worse. What counts is
    its first number, behind what names it (`1 conn.: 33 us`)."""
    got, want = NUMBER.search(figure.rpartition(": ")[2]), BOUND.search(target)
    if not (got and want):
        return None
    a, b = (float(text.replace(",", "")) for text in (got.group(), want.group(2)))
    if not a or not b:
        return None
    return b / a if want.group(1) == "<" else a / b


def rows(report: dict[str, object]) -> list[tuple[str, str, str, float]]:
    """(benchmark, figure, target, margin) of all figures that have a target."""
    out = []
    for bench in report["benchmarks"]:  # type: ignore[attr-defined]
        for figure, target in bench["extra_info"].get("figures", []):
            if target and (m := margin(figure, target)):
                out.append((f"{bench['group']}\n{bench['name']}", figure, target, m))
    return out


def draw(found: list[tuple[str, str, str, float]], path: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "pyrmq"  # the same figures give the same file
    matplotlib.rcParams["svg.fonttype"] = "none"  # text stays text
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(12, 1 + 0.42 * len(found)), layout="constrained")
    places = range(len(found), 0, -1)
    reach = 10 ** (WIDE / 2)
    values = [min(max(m, 1 / reach), reach) for *_, m in found]
    colors = ["#2f855a" if m >= 1 else "#c05621" for *_, m in found]
    axes.barh(list(places), [v - 1 for v in values], left=1, color=colors, height=0.6)
    axes.set_xscale("log")
    axes.set_xlim(1 / reach, reach)
    axes.axvline(1, color="black", linewidth=1)
    axes.set_yticks(list(places), [name for name, *_ in found], fontsize=7)
    for place, (_, text, target, _m) in zip(places, found, strict=True):
        axes.text(reach * 1.03, place, f"{text}  ({target})", va="center", fontsize=7)
    axes.set_xlabel("times better than the target (1: just met)")
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    source, target = map(Path, sys.argv[1:3])
    draw(rows(json.loads(source.read_text())), target)


if __name__ == "__main__":
    main()
