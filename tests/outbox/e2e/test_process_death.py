"""kill -9 of the process with the local transaction: another one of the group answers the check."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pyrmq.model.transaction import TransactionState
from tests.outbox.shop import SECONDS, Database, message, received

COMMIT, ROLLBACK = TransactionState.COMMIT, TransactionState.ROLLBACK
ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    ("point", "rows", "answer"),
    [("before", [], ROLLBACK), ("after", ["COMMIT"], COMMIT), ("deciding", [], ROLLBACK)],
)
def test_killed(database: Database, point: str, rows: list[str], answer: TransactionState) -> None:
    sent = message()
    key = sent.properties["UNIQ_KEY"]
    command = [sys.executable, "-m", "tests.outbox.dying", database.url, key, point]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=SECONDS, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    assert list(database.rows().values()) == rows
    # The server of PostgreSQL may not have noticed yet; SQLite's lock went with the process.
    other = database.outbox(lock_timeout=SECONDS)
    assert other.check_local_transaction(received(sent)) is answer
    assert database.orders() == ({key} if answer is COMMIT else set())
