"""The line that says where a streaming query stands."""

from __future__ import annotations

import logging
import pickle
from typing import Any

import pytest

from spark_ext.progress import EVERY, Progress


class Planner:
    """Knows the end of the logs, or fails to look."""

    def __init__(self, **ends: int) -> None:
        self.ends: dict[str, int] | None = ends

    def end(self) -> dict[str, Any]:
        if self.ends is None:
            raise OSError("the disk is gone")
        return {"version": 1, "log": self.ends}


def position(**log: int) -> dict[str, Any]:
    return {"version": 1, "log": log}


def test_lines(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "spark_ext.progress")
    now = 100.0
    progress = Progress(clock=lambda: now)
    planner: Any = Planner(a=1500, b=70)
    progress.committed(position(a=1000, b=50), planner)
    progress.committed(position(a=1100, b=50), planner)
    now += EVERY
    planner.ends = None
    progress.committed(position(a=1400, b=60), planner)
    progress.committed(position(a=1450, b=60), planner)
    progress.stopped()
    progress.stopped()
    assert caplog.messages == [
        "rocketmq stream: a at 1000 (500 behind); b at 50 (20 behind)",
        "rocketmq stream: a at 1400 (+400 bytes since the last line); "
        "b at 60 (+10 bytes since the last line)",
        "rocketmq stream: a at 1450 (+50 bytes since the last line); "
        "b at 60 (+0 bytes since the last line)",
    ]


def test_names_cannot_begin_a_line_of_their_own(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "spark_ext.progress")
    progress = Progress()
    progress.committed(position(**{"a\x1b[2J\nERROR all is lost": 5}), Planner())
    assert caplog.messages == ["rocketmq stream: a\\x1b[2J\\nERROR all is lost at 5"]


def test_a_query_that_committed_nothing_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "spark_ext.progress")
    Progress().stopped()
    assert caplog.messages == []


def test_it_goes_to_workers_empty() -> None:
    progress = Progress(clock=lambda: 5.0)
    assert isinstance(pickle.loads(pickle.dumps(progress)), Progress)
