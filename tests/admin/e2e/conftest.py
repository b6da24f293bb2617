"""Fixtures of tests/support: an embedded server, and a deadline for every test."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyrmq.broker.stats import disk_use
from tests.support.fixtures import deadline as deadline
from tests.support.fixtures import embedded as embedded
from tests.support.fixtures import serve as serve


@pytest.fixture(autouse=True)
def disk_with_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """How full this machine's disk is raises no alarm."""

    def half(path: Path) -> disk_use.Disk:
        return disk_use.Disk(str(path), 2 << 40, 1 << 40, 50)

    monkeypatch.setattr(disk_use, "read_disk", half)
