"""Descriptors: the limit is raised, clients end below a reserve, a low limit is said."""

from __future__ import annotations

import resource
import subprocess
import sys
from typing import Any

import pytest
import trio

from pyrmq.net.server import descriptors

SCRIPT = """
import logging, resource
from pyrmq.net.server.server import descriptors
logging.basicConfig(format="%(message)s")
resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))
descriptors.raise_limit()
print(descriptors.limit(), descriptors.for_clients())
"""


@pytest.mark.parametrize(
    ("soft", "hard", "limit", "clients"),
    [(256, 1000, 1000, 750), (64, 64, 64, 48), (1024, 20_000, 20_000, 19_488)],
)
def test_the_soft_limit_is_raised(soft: int, hard: int, limit: int, clients: int) -> None:
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] not in (resource.RLIM_INFINITY, -1):
        hard_here = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        if hard_here < hard:
            pytest.skip(f"RLIMIT_NOFILE is at most {hard_here} here")
    script = SCRIPT.format(soft=soft, hard=hard)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [str(limit), str(clients)]
    assert ("at most 48 connections" in done.stderr) == (limit == 64)
    assert ("LimitNOFILE" in done.stderr) == (limit < descriptors.LOW)


async def test_refusals_are_folded(caplog: pytest.LogCaptureFixture, autojump_clock: Any) -> None:
    refusals = descriptors.Refusals("broker b")
    for _ in range(3):
        refusals.refused("none left")
    assert caplog.messages == ["broker b: 1 new connections refused: none left"]
    await trio.sleep(descriptors.LOG_INTERVAL)
    refusals.refused("none left")
    assert caplog.messages[1:] == ["broker b: 3 new connections refused: none left"]
