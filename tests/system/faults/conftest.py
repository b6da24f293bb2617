"""The bases, built once, and the counts at the end of the run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.faults import report
from tests.system.faults.bases import RECIPES, Base, build
from tests.system.faults.images import workspace


@pytest.fixture(scope="session")
def bases() -> dict[str, Base]:
    with workspace() as root:
        return {name: build(name, root / str(n)) for n, name in enumerate(RECIPES)}


@pytest.fixture
def room() -> Iterator[Path]:
    """A folder for images, in memory where that is possible."""
    with workspace() as root:
        yield root


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for line in report.LINES:
        terminalreporter.write_line(line)
