"""A disk that hangs holds up nobody who does not need it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.system.faults.inject import slow_disk, slow_requests
from tests.system.faults.inject.calls import build
from tests.system.faults.inject.cases import PROJECT

TIMEOUT = 90


@pytest.mark.parametrize(
    ("module", "case"),
    [(module, case) for module in (slow_disk, slow_requests) for case in module.CASES],
)
def test_a_disk_that_hangs(module: ModuleType, case: str, tmp_path: Path):
    library = build(tmp_path)
    if library is None:
        pytest.skip("no C compiler (cc) to build the failing calls with")
    command = [
        sys.executable,
        "-m",
        module.__name__,
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
    if done.returncode == slow_disk.WARM:
        pytest.skip("the file system of temporary folders keeps all of its files in memory")
    assert done.returncode == 0, done.stderr[-4000:]
