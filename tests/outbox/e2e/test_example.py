"""examples/outbox.py, whole: a broker, a consumer, and processes of a service that are killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.outbox.shop import Database

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "outbox.py"
SECONDS = 120.0
SUMMARY = """
  order-1   yes       COMMIT      1
  order-2   no        ROLLBACK    0
  order-3   yes       COMMIT      1
  order-4   no        ROLLBACK    0

  books left: 7 of 10

each order that is in SQL was delivered, no other was
"""


def run(*arguments: str) -> str:
    command = [sys.executable, "-W", "error", str(EXAMPLE), *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=SECONDS, check=False, cwd="/"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return done.stdout


def test_on_a_database_of_its_own() -> None:
    assert run().endswith(SUMMARY)


@pytest.mark.thorough("the killed service of test_killed_service.py has PostgreSQL too")
def test_on_postgresql_twice(postgresql: Database) -> None:
    for _ in range(2):
        assert run("--database", postgresql.url).endswith(SUMMARY)
