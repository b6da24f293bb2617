"""The project's targets beside what a run of `pyrmq bench peers` measured: a Markdown table.

    pyrmq bench peers --full --json peers.json
    python -m benches.targets peers.json

Ratios are those of the report: windows of one round are compared, and the median counts.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benches.loopback.markdown import shown
from benches.loopback.result import verdict
from pyrmq.bench.peers.report import Report, ratio_text, read_report
from pyrmq.bench.result import BenchError
from pyrmq.bench.spread import Ratio


@dataclass(frozen=True)
class Target:
    """What pyrmq's figure is to be. `other`: a peer; "" for a part of its own rate."""

    title: str
    name: str
    """The figure, as a window of the report has it."""
    other: str
    text: str
    """Such as ">= 0.9"."""

    def verdict(self, value: float) -> str:
        """`met` or `missed`, for a value as it is shown: in three digits."""
        return verdict(float(f"{value:.3g}"), self.text)


def _floor(rate: float, cpu: float | None = None) -> list[Target]:
    found = [Target("rate, of the floor's", "rate", "floor", f">= {rate:g}")]
    if cpu is not None:
        title = "CPU a message, of the floor's"
        found.append(Target(title, "server_cpu_us", "floor", f"<= {cpu:g}"))
    return found


def _apache(rate: float) -> Target:
    return Target("rate, of Apache's", "rate", "apache", f">= {rate:g}")


SINGLE = [*_floor(0.85, 1.3), _apache(5)]
SYNC = [*_floor(0.8), _apache(5)]
PULL = [*_floor(0.85, 1.4), _apache(6)]
TARGETS: dict[str, list[Target]] = {
    "1x64": [*_floor(0.9, 1.4), _apache(7)],
    "8x128": [*_floor(0.9, 1.4), _apache(6)],
    "64x1": SINGLE,
    "256x1": SINGLE,
    "1x1": SINGLE,
    "batch-1x4x32": [*_floor(0.9, 1.4), _apache(4)],
    "topics-10000": [Target("rate, of its own with one topic", "rate", "", ">= 0.9")],
    "pull-1x1": PULL,
    "pull-4x1": PULL,
    "latency-10000": [
        Target("p50, of Apache's", "p50_us", "apache", "<= 0.3"),
        Target("p99, of Apache's", "p99_us", "apache", "<= 0.3"),
    ],
    **{f"sync-{name}": SYNC for name in ("1x1", "1x64", "64x1", "256x1", "8x128", "batch-1x4x32")},
}
"""By load of `pyrmq.bench.peers.loads`."""


def rows(report: Report) -> Iterator[tuple[str, str, str, str]]:
    """Load, figure, measured, target with met or missed. What was not measured is left out."""
    for load in report.loads:
        for target in TARGETS.get(load.name, []):
            found: Ratio | None
            if target.other:
                found = report.beside(load.name, "pyrmq", target.other, target.name)
            else:
                found = report.part(load, "pyrmq")
            if found is not None:
                said = shown(target.verdict(found.value))
                yield load.text, target.title, ratio_text(found), f"{target.text}: {said}"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benches.targets", description=__doc__)
    parser.add_argument("report", type=Path, help="a file of `pyrmq bench peers --json`")
    try:
        found = list(rows(read_report(parser.parse_args(argv).report)))
    except (BenchError, OSError) as e:
        print(f"benches.targets: {e}", file=sys.stderr)
        return 1
    print("| Load | Figure | Measured | Target |\n|---|---|---|---|")
    for row in found:
        print(f"| {' | '.join(row)} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
