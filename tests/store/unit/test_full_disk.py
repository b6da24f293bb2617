"""No space left: the append fails with a clean error, all else goes on, and space brings it back.

A small file system is mounted in a mount namespace of the test's own: tmpfs where user namespaces
are allowed, ext4 for root. Elsewhere a limit on file sizes shows the part that it can show.
"""

from __future__ import annotations

import errno
import json
import os
import resource
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.store.tools import bodies, opened

PROJECT = Path(__file__).parents[3]
SIZE = 4 << 20
"""Bytes of the file system."""
NAMESPACE = {
    "tmpfs": ["unshare", "--user", "--map-root-user", "--mount"],
    "ext4": ["unshare", "--mount"],
}
MOUNT = {
    "tmpfs": f"mount -t tmpfs -o size={SIZE} tmpfs DIR/disk",
    "ext4": f"mkfs.ext4 -q -F DIR/image {SIZE // 1024}k >&2; mount -o loop DIR/image DIR/disk",
}
FILL = """
free=$(df -k --output=avail DIR/disk | tail -1)
head -c $(( (free - LEFT) * 1024 )) /dev/zero > DIR/disk/blocker
exec PYTHON -m tests.store.full_disk DIR/disk/store
"""


def run_on(kind: str, folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    (folder / "disk").mkdir()
    text = f"set -e; {MOUNT[kind]}; {script}".replace("DIR", shlex.quote(str(folder)))
    command = [*NAMESPACE[kind], "sh", "-c", text]
    return subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=60)


@pytest.fixture(scope="module", params=["tmpfs", "ext4"])
def kind(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    if request.param == "ext4" and os.geteuid() != 0:
        pytest.skip("a loop device needs root")
    try:
        done = run_on(request.param, tmp_path_factory.mktemp("try"), "true")
    except FileNotFoundError:
        pytest.skip("no unshare here")
    if done.returncode:
        pytest.skip(f"no {request.param} of our own here: {done.stderr.strip()}")
    return str(request.param)


@pytest.mark.parametrize("left", [48, 300, 301, 333, 1000])
def test_a_full_disk(kind: str, tmp_path: Path, left: int):
    """`left`: KiB left for the store, so that the end comes at different steps."""
    script = FILL.replace("LEFT", str(left)).replace("PYTHON", shlex.quote(sys.executable))
    done = run_on(kind, tmp_path, script)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["errno"] == errno.ENOSPC, report
    assert "No space left" in report["text"]
    for key in ("readable", "range", "reopened 0", "reopened 1", "goes on", "at last"):
        assert report[key] is True, (key, report, done.stderr)
    assert report["failure"] is None
    assert report["last close"] is None
    assert report["abort"] is False


LIMITED = """
import sys
from pyrmq.engine import Store
from tests.store.tools import bodies
sizes = dict(commit_log_file_size=1 << 20, consume_queue_file_size=2000)
try:
    Store(sys.argv[1], **sizes).put("T", 0, b"b")
except OSError as error:
    print(error.errno)
store = Store(sys.argv[2], **sizes)
assert bodies(store) == [b"before"]
store.put("T", 0, b"after")
store.close()
"""


def test_a_limit_on_file_sizes(tmp_path: Path):
    """The file of a new store cannot be made; one whose files exist goes on."""
    sizes = {"commit_log_file_size": 1 << 20, "consume_queue_file_size": 2000}
    with opened(tmp_path / "old", **sizes) as store:
        store.put("T", 0, b"before")
    command = [sys.executable, "-c", LIMITED, str(tmp_path / "new"), str(tmp_path / "old")]

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    done = subprocess.run(
        command, cwd=PROJECT, capture_output=True, text=True, timeout=60, preexec_fn=limit
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == errno.EFBIG
    with opened(tmp_path / "old", **sizes) as store:
        assert bodies(store) == [b"before", b"after"]
