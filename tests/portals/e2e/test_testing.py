"""The testing kit in somebody's suite."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import pyrmq.testing
from pyrmq import ConfigError, Message, sync

SUITE = """
from pyrmq.sync import Message, Producer


def test_it(pyrmq_broker):
    with Producer("pg", namesrv=pyrmq_broker.namesrv) as producer:
        producer.send(Message("T", b"x"))


def test_the_same_one(pyrmq_broker):
    with Producer("pg", namesrv=pyrmq_broker.namesrv) as producer:
        assert producer.queues("T")
"""


def test_the_fixture(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(SUITE)
    path = os.pathsep.join([str(Path(pyrmq.__file__).parents[1]), *filter(None, sys.path)])
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    if "pyrmq_broker" not in _plugins():
        command += ["-p", "pyrmq.pytest_plugin"]
    done = subprocess.run(
        [*command, "-W", "error", str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        timeout=60,
    )
    assert "2 passed" in done.stdout, done.stdout + done.stderr


def _plugins() -> str:
    """What pytest loads of itself: nothing of ours until the package was installed anew."""
    from importlib.metadata import entry_points

    found = entry_points(group="pytest11")
    return "pyrmq_broker" if any(e.value == "pyrmq.pytest_plugin" for e in found) else ""


def test_plain_code(tmp_path: Path) -> None:
    began = time.process_time()
    with pyrmq.testing.broker(tmp_path / "store", broker_name="mine") as server:
        up = time.process_time() - began
        with sync.Producer("pg", namesrv=server.namesrv) as producer:
            assert producer.queues("T")[0].broker_name == "mine"
            producer.send(Message("T", b"x"))
    assert up < 5, "seconds of CPU; it takes 0.1"
    assert "pyrmq-broker" not in {t.name for t in threading.enumerate()} - {"pyrmq-broker"}
    assert (tmp_path / "store" / "commitlog").is_dir()


def test_a_broker_that_cannot_start() -> None:
    before = threading.active_count()
    with pytest.raises(ConfigError), pyrmq.testing.broker(listen_port=-5):
        raise AssertionError
    assert threading.active_count() <= before
