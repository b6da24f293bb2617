"""Whose a data file is: of a process that runs, or of one that has ended."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from pyrmq.tables import names

COMMIT = "6ac00c15-0000-0000-0000-000000000000"


def of_ended_process() -> str:
    said = "from pyrmq.tables import names; print(names.this_process())"
    done = subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, check=True)
    return names.data_file(COMMIT, 1, done.stdout.strip())


def test_a_file_is_abandoned_when_its_process_has_ended() -> None:
    mine = names.data_file(COMMIT, 1)
    assert not names.is_abandoned(mine)
    assert names.is_abandoned(of_ended_process())
    # Another process has the same number now.
    assert names.is_abandoned(names.data_file(COMMIT, 1, f"{names.owner()}-{os.getpid()}.1"))
    assert not names.is_abandoned(mine.replace(names.owner(), "0" * 12))
    assert not names.is_abandoned("other.parquet")


def test_a_process_that_proc_hides_still_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """/proc with hidepid shows no processes of other users."""
    mine, ended = names.data_file(COMMIT, 1), of_ended_process()
    monkeypatch.setattr(names, "_started", lambda pid: 0)
    assert not names.is_abandoned(mine)
    assert names.is_abandoned(ended)
    assert names.is_abandoned(names.data_file(COMMIT, 1, f"{names.owner()}-9999999999.1"))
