"""The archive job as a process that is killed (SIGKILL) again and again, beside a live writer."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spark_ext.jobs.archive_read import read_archive, verify
from tests.spark.small_store import Writer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EACH = 400
SEED = int(os.environ.get("PYRMQ_ARCHIVE_SEED", "0")) or random.randrange(1 << 30)
ROUNDS = int(os.environ.get("PYRMQ_ARCHIVE_ROUNDS", "3"))
DEADLINE = 240.0


def command(store: Path, root: Path) -> list[str]:
    job = [sys.executable, "-m", "spark_ext.jobs.archive", str(store), "--to", str(root)]
    settings = ["spark.driver.memory=512m", "spark.sql.shuffle.partitions=2"]
    confs = [part for setting in settings for part in ("--conf", setting)]
    return [*job, "--master", "local[2]", "-o", "maxOffsetsPerTrigger=150", *confs]


def progress(root: Path) -> int:
    """Steps that the archive has made: files and folders of it that are there."""
    return sum(len(names) + len(files) for _, names, files in os.walk(root))


def kill_after(process: subprocess.Popen[bytes], root: Path, steps: int) -> bool:
    """Kills the job, and Spark with it, after so many steps; False if it ended before."""
    begin, deadline = progress(root), time.monotonic() + DEADLINE
    while process.poll() is None:
        assert time.monotonic() < deadline, "the job does not get on"
        if progress(root) - begin >= steps:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return True
    return False


@pytest.mark.slow
def test_killed_anywhere(spark: SparkSession, tmp_path: Path) -> None:
    print(f"PYRMQ_ARCHIVE_SEED={SEED}")
    chance = random.Random(SEED)
    store, root = tmp_path / "broker-a", tmp_path / "archive"
    writer = Writer(store)
    kills = 0
    with (tmp_path / "log").open("wb") as log:
        for _ in range(ROUNDS):
            writer.put(EACH)
            process = subprocess.Popen(
                command(store, root), stdout=log, stderr=log, start_new_session=True
            )
            kills += kill_after(process, root, chance.randrange(1, 60))
        subprocess.run(command(store, root), stdout=log, stderr=log, check=True, timeout=DEADLINE)
    writer.close()
    assert kills > 0
    rows = read_archive(spark, str(root)).select("topic", "queueId", "queueOffset", "body")
    found = sorted((r.topic, r.queueId, r.queueOffset, bytes(r.body)) for r in rows.collect())
    assert found == sorted((s.topic, s.queue, s.offset, s.body) for s in writer.sent)
    assert verify(spark, str(root)) == []
