"""How full a disk is decides what is deleted and whether messages are taken."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.store.unit.test_full_disk import NAMESPACE, PROJECT

SIZE = "8m"
SCRIPT = "set -e; mount -t tmpfs -o size={size} tmpfs {disk}; exec {python} -m {module} {store}"
MODULE = "tests.store.disk_ratios"
REFUSED = "diskSpaceWarningLevelRatio"


def run(folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs the module on a file system that only its own mount namespace has."""
    disk = folder / "disk"
    disk.mkdir()
    script = SCRIPT.format(
        size=SIZE,
        disk=shlex.quote(str(disk)),
        python=shlex.quote(sys.executable),
        module=MODULE,
        store=shlex.quote(str(disk / "store")),
    )
    command = [*NAMESPACE["tmpfs"], "sh", "-c", script]
    return subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("ratios")
    try:
        done = run(folder)
    except FileNotFoundError:
        pytest.skip("no unshare here")
    if "mount" in done.stderr and done.returncode:
        pytest.skip(f"no tmpfs of our own here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_what_goes_and_when_messages_are_refused(report: dict[str, Any]):
    """Used percent, age: how many files go (two at most in a round), full, refused."""
    table = [(goal, name, deleted, full, bool(refused))
             for goal, name, deleted, full, refused in report["usage"]]  # fmt: skip
    assert table == [
        (75, "young", 0, False, False),
        (75, "old", 0, False, False),
        (76, "young", 0, False, False),
        (76, "old", 2, False, False),
        (85, "young", 0, False, False),
        (85, "old", 2, False, False),
        (86, "young", 2, False, False),
        (86, "old", 2, False, False),
        (90, "young", 2, False, False),
        (90, "old", 1, False, False),
        (91, "young", 0, True, True),
        (91, "old", 0, True, True),
    ]
    for *_, refused in report["usage"]:
        assert refused is None or REFUSED in refused


def test_reads_go_on(report: dict[str, Any]):
    assert report["reads"] is True
    assert report["found"] == 1


def test_it_stays_full_until_there_is_room(report: dict[str, Any]):
    full, refused = report["back at 88"]
    assert full is True
    assert REFUSED in refused
    assert report["back at 85"] == [False, None]
    assert report["back at 30"] == [False, None]


def test_the_thread_finds_out(report: dict[str, Any]):
    assert REFUSED in report["full at start"]
    assert report["not forcibly"] == 0
    assert report["room again"] is None
