"""For all tests of the benchmark harness without a server."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def _nothing_is_written_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before a window everything is written to the disk: minutes, where other tests fill it."""
    monkeypatch.setattr(os, "sync", lambda: None)
