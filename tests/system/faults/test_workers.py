"""The workers' parent: whatever an image does to its worker is a finding, and the rest is done."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.system.faults import run


def test_what_kills_a_worker_is_named(room: Path):
    cases = ["ok", "signal", "ok", "exit", "error", "ok", "signal"]
    found = run.run("dying", {}, list(enumerate(cases)), room, jobs=1)
    assert found.images == len(cases)
    assert found.counts == {"fine": 3}
    assert [number for number, _ in sorted(found.failures)] == [1, 3, 4, 6]
    told = dict(found.failures)
    assert "died of SIGSEGV" in told[1]
    assert "ended with 3" in told[3]
    assert "ValueError: told" in told[4]


def test_a_worker_that_hangs_is_stopped(room: Path, monkeypatch: pytest.MonkeyPatch):
    """However early: nothing of its work is lost without a word."""
    monkeypatch.setattr(run, "LIMIT", 0.0)
    found = run.run("dying", {}, [(0, "ok")], room, jobs=1)
    assert len(found.failures) == 1
    assert "no end after" in found.failures[0][1]
