"""Benchmarks beside their yardsticks.

`paired` times the work with pytest-benchmark and, between its rounds, a yardstick that does the
least that anyone would have to do; what counts is the ratio, as machines differ and are noisy.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from .release_build import require_release_build

ROWS: list[tuple[str, str, str]] = []


@dataclass
class Paired:
    """Ratios of one pair; `cpu_ns` gives ns of CPU for each message or entry."""

    work: list[float]
    yard: list[float]
    cpu: list[float]

    @property
    def speed(self) -> float:
        """The work's speed as a part of the yardstick's (1: as fast), median against median."""
        return median(self.yard) / median(self.work)

    def cpu_ns(self, units: int) -> float:
        return median(self.cpu) / units * 1e9


@pytest.fixture(autouse=True, scope="session")
def release_build() -> None:
    require_release_build()


@pytest.fixture
def paired(benchmark: Any, request: pytest.FixtureRequest) -> Callable[..., Paired]:
    def run(
        work: Callable[[], object],
        yardstick: Callable[[], object],
        *,
        rounds: int,
        before: Callable[[], object] = lambda: None,
    ) -> Paired:
        result = Paired([], [], [])

        def setup() -> None:
            before()
            began = time.perf_counter()
            yardstick()
            result.yard.append(time.perf_counter() - began)
            before()

        def timed() -> None:
            cpu, began = time.thread_time(), time.perf_counter()
            work()
            result.work.append(time.perf_counter() - began)
            result.cpu.append(time.thread_time() - cpu)

        benchmark.pedantic(timed, setup=setup, rounds=rounds, warmup_rounds=3)
        for values in (result.work, result.yard, result.cpu):
            del values[:3]
        return result

    return run


@pytest.fixture
def report(benchmark: Any, request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Notes a figure with its target for the table at the end."""

    def note(figure: str, target: str = "") -> None:
        benchmark.extra_info.setdefault("figures", []).append([figure, target])
        ROWS.append((request.node.name, figure, target))

    return note


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder on the disk that TMPDIR names, emptied afterwards (stores are large)."""
    import shutil

    yield tmp_path
    shutil.rmtree(tmp_path, ignore_errors=True)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if ROWS:
        terminalreporter.section("figures beside their targets")
        for name, figure, target in ROWS:
            terminalreporter.write_line(f"{name:44} {figure:52} {target}")
