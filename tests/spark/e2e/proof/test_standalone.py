"""The jar on a standalone cluster of a master and two workers (docs/spark-cluster.md)."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.spark import jvm_jar, small_store
from tests.spark.conftest import need_java

from .standalone import can_hide

ROOT = Path(__file__).parents[4]
COUNT = 1500


def on_the_cluster(folder: Path, *parts: str) -> tuple[list[Any], dict[str, dict[str, Any]]]:
    """The sums that are right, and what each part found."""
    need_java()
    sent = small_store.write(folder / "store", COUNT)
    command = [sys.executable, "-m", "tests.spark.e2e.proof.standalone_driver"]
    command += [str(folder / "home"), str(jvm_jar.built()), str(folder / "store"), *parts]
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-6000:]
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert [answer["part"] for answer in answers] == list(parts)
    return [COUNT, COUNT, sum(len(one.body) for one in sent)], {
        answer["part"]: answer for answer in answers
    }


@pytest.mark.slow
@pytest.mark.thorough("four JVMs of its own; the reader itself is tested in one")
def test_the_jar_is_all_that_workers_need(tmp_path: Path) -> None:
    """They have no Python. A batch and a stream are read."""
    right, found = on_the_cluster(tmp_path, "batch", "stream")
    assert {name: answer["sums"] for name, answer in found.items()} == dict.fromkeys(found, right)
    assert found["stream"]["batches"] > 1
    for worker in (0, 1):
        jars = list((tmp_path / "home" / f"work{worker}").glob("*/*/pyrmq-spark.jar"))
        assert jars, "each executor has fetched the jar"


@pytest.mark.slow
@pytest.mark.thorough("five JVMs of its own; killed tasks are also tested in one")
def test_an_executor_is_killed(tmp_path: Path) -> None:
    """By SIGKILL, in the middle of a batch and of a micro-batch: each message comes once."""
    right, found = on_the_cluster(tmp_path, "killed_batch", "killed_stream")
    for name, answer in found.items():
        assert answer["sums"] == right, name
        assert answer["failed"] > 0, "its task was lost"
        assert answer["stayed"] == 1


@pytest.mark.slow
@pytest.mark.thorough("four JVMs of its own; killed tasks are also tested in one")
def test_speculation(tmp_path: Path) -> None:
    """Two tasks read one split: each message comes once, and the task that loses holds nothing."""
    right, found = on_the_cluster(tmp_path, "speculation")
    assert found["speculation"]["sums"] == right
    assert found["speculation"]["lost"] > 0


@pytest.mark.slow
@pytest.mark.thorough("four JVMs of its own; the texts are also tested in one")
def test_a_store_that_one_worker_does_not_see(tmp_path: Path) -> None:
    if not can_hide():
        pytest.skip("this user may not hide a folder from a process (unshare --mount)")
    _, found = on_the_cluster(tmp_path, "blind")
    for source in ("rocketmq", "pyrmq"):
        said = found["blind"][source]
        assert str(tmp_path / "store") in said, source
        assert socket.gethostname() in said, source
