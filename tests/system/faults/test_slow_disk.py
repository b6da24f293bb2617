"""A disk that hangs holds up nobody who does not need it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.system.faults.inject.calls import build
from tests.system.faults.inject.cases import PROJECT
from tests.system.faults.inject.slow_disk import CASES, WARM

TIMEOUT = 90


@pytest.mark.parametrize("case", CASES)
def test_a_disk_that_hangs(case: str, tmp_path: Path):
    library = build(tmp_path)
    if library is None:
        pytest.skip("no C compiler (cc) to build the failing calls with")
    command = [
        sys.executable,
        "-m",
        "tests.system.faults.inject.slow_disk",
        case,
        str(tmp_path / "store"),
    ]
    done = subprocess.run(
        command,
        cwd=PROJECT,
        env={**os.environ, "LD_PRELOAD": str(library)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    if done.returncode == WARM:
        pytest.skip("the file system of temporary folders keeps all of its files in memory")
    assert done.returncode == 0, done.stderr[-4000:]
