"""A stage with all requests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pyrmq.auth.table import NEEDS
from tests.auth.unit.stage import Stage

Staged = Callable[..., Stage]


@pytest.fixture
def staged(tmp_path: Path) -> Iterator[Staged]:
    """Makes a stage; its keywords are fields of `Rules`."""
    made: list[Stage] = []

    def make(**rules: Any) -> Stage:
        made.append(Stage(tmp_path, NEEDS, **rules))
        return made[-1]

    yield make
    for stage in made:
        stage.close()


@pytest.fixture
def stage(staged: Staged) -> Stage:
    return staged()
