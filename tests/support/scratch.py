"""Files of tests that nobody needs on a disk: in memory, where this machine has enough of it.

A store flushes dozens of times while it is opened, filled and closed. A test of what stands above
it would mostly wait for the disk, and what it shows does not depend on that. A folder of such tests
takes `in_memory` in its conftest.py. Tests of the store itself, of kills and of other brokers stay
on the disk, and in the long form all do.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.support.thorough import THOROUGH

MEMORY = Path("/dev/shm")
ENOUGH = 8 << 30
"""Bytes. All workers together have 2 GiB there at the end: mostly stores that the tests of a file
share."""
PREFIX = "pyrmq-tests-"
DAY = 86_400.0


@cache
def place() -> Path | None:
    """For `dir` of a temporary folder: in memory, or None (where others are)."""
    if THOROUGH or not _has_room(MEMORY):
        return None
    for left in MEMORY.glob(f"{PREFIX}*"):  # by a run that was killed, or of a test that failed
        if left.stat().st_mtime < time.time() - DAY:
            shutil.rmtree(left, ignore_errors=True)
    return MEMORY


def _has_room(folder: Path) -> bool:
    """Containers often have a small one, from which no program may be run."""
    if not os.access(folder, os.W_OK):
        return False
    found = os.statvfs(folder)
    room = min(found.f_bavail * found.f_frsize, _free_memory())
    return not found.f_flag & os.ST_NOEXEC and room >= ENOUGH


def _free_memory() -> int:
    """Bytes that can be had without swapping; 0 where the kernel does not say."""
    try:
        text = Path("/proc/meminfo").read_text()
    except OSError:
        return 0
    found = re.search(r"^MemAvailable: +(\d+) kB$", text, re.MULTILINE)
    return int(found[1]) << 10 if found else 0


@pytest.fixture(scope="session", name="tmp_path_factory")
def in_memory(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[pytest.TempPathFactory]:
    """As pytest's own; what a failed test leaves is kept for a day."""
    memory = place()
    if memory is None:
        yield tmp_path_factory
        return
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=memory))
    trace = request.config.trace.get("tmpdir")
    failed = request.session.testsfailed
    yield pytest.TempPathFactory(folder / "tests", 3, "failed", trace, _ispytest=True)
    if request.session.testsfailed == failed:
        shutil.rmtree(folder, ignore_errors=True)
