"""warmMapedFileEnable: log files are faulted in whole and locked in memory ahead of their use."""

from __future__ import annotations

import re
import resource
from pathlib import Path

import pytest

from tests.store.tools import opened
from tests.support.waiting import eventually

FILE = 1 << 20


def locked() -> int:
    """Bytes that this process has locked in memory."""
    found = re.search(r"VmLck:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


def wait_until_locked(most: int, least: int) -> None:
    what = f"{least} to {most} bytes are locked"
    eventually(locked, what, until=lambda found: least <= found <= most)


def test_the_written_file_and_the_next_one_are_locked(tmp_path: Path) -> None:
    if resource.getrlimit(resource.RLIMIT_MEMLOCK)[0] not in (resource.RLIM_INFINITY, -1):
        soft = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
        if soft < 3 * FILE:
            pytest.skip(f"only {soft} bytes may be locked here")
    before = locked()
    with opened(tmp_path, commit_log_file_size=FILE, warm_mapped_file=True) as store:
        store.put("T", 0, b"first")
        wait_until_locked(before + 2 * FILE, before + FILE)
        assert store.stats()["preparedAhead"] > FILE // 2
        for _ in range(40):
            store.put("T", 0, b"x" * 100_000)
        assert store.stats()["maxPhyOffset"] > 3 * FILE
        wait_until_locked(before + 2 * FILE, before + FILE)
    assert locked() == before
