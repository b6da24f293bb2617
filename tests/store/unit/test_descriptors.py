"""A process without a descriptor left: the store waits, and goes on when there are some again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.store.tools import bodies, opened

PROJECT = Path(__file__).parents[3]
SIZES = {"commit_log_file_size": 1 << 20, "consume_queue_file_size": 2000}
NONE_LEFT = """
import os, resource, sys, time
from pathlib import Path
from pyrmq.engine import Store, set_log_level

set_log_level("info")
lines = os.open(sys.argv[1] + ".log", os.O_RDWR | os.O_CREAT)
os.dup2(lines, 2)  # the engine's lines go there
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]

def limit(most):
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))

def wait(until, what):
    end = time.monotonic() + 30
    while not until():
        assert time.monotonic() < end, what
        time.sleep(0.01)

def logged(text):
    return text.encode() in os.pread(lines, 1 << 20, 0)

taken = []
def take_all():
    try:
        while True:
            taken.append(os.open("/", os.O_RDONLY))
    except OSError:
        return True

root = Path(sys.argv[1])
limit(512)
store = Store(root, flush_interval_commit_log=500, flush_interval_consume_queue=500,
              sync_flush=sys.argv[2] == "sync", **eval(sys.argv[3]))
store.put("T", 0, b"before" * 100_000)
if sys.argv[2] == "sync":
    wait(lambda: store.stats()["flushedWhere"] > 0 and (root / "checkpoint").exists(), "flushed")
limit(max(map(int, os.listdir("/proc/self/fd"))) + 5)  # what the threads need meanwhile
for queue in range(1, 4):
    store.put("T", queue, b"while")  # files that are new
take_all()
try:
    store.put("T", 0, b"into the next file" * 30_000)
except Exception:
    pass  # its file cannot be opened: the sender is told
first = sys.argv[2] == "async"  # the log's file was not open for a flush yet
wait(lambda: take_all() and logged("the log is not flushed" if first else "not flushed"), "failed")
for fd in taken:
    os.close(fd)
limit(512)
wait(lambda: store.stats()["flushedWhere"] == store.stats()["maxPhyOffset"], "flushed again")
wait(lambda: logged("flushed again"), "said")
store.put("T", 0, b"after")
store.close()
assert not (root / "abort").exists()
"""


@pytest.mark.parametrize("flush", ["async", "sync"])
def test_it_goes_on_when_there_are_descriptors_again(tmp_path: Path, flush: str) -> None:
    """Neither the flusher nor the checkpointer gives up for good, nor is a flush taken for done."""
    root = tmp_path / "store"
    command = [sys.executable, "-c", NONE_LEFT, str(root), flush, repr(SIZES)]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=120)
    said = (tmp_path / "store.log").read_text()
    assert done.returncode == 0, said
    with opened(root, **SIZES) as store:
        found = bodies(store)
        assert found[0] == b"before" * 100_000
        assert found[-1] == b"after"
        assert bodies(store, queue_id=3) == [b"while"]
