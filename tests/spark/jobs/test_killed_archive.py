"""The archive job as a process that is killed (SIGKILL) again and again, beside a live writer."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from pyrmq.cli import main
from spark_ext.jobs.archive_read import read_archive, verify
from tests.spark.small_store import Writer
from tests.support.thorough import seeds, size
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EACH = 400
ROUNDS = size("PYRMQ_ARCHIVE_ROUNDS", 1, 20)
EARLY, LATE = 12, 60
"""Steps of which a job makes more in any case, and some more than it makes as a rule."""
DEADLINE = 240.0
BATCHES = ["-o", "maxOffsetsPerTrigger=150"]


def command(store: Path, root: Path) -> list[str]:
    job = [sys.executable, "-m", "spark_ext.jobs.archive", str(store), "--to", str(root)]
    settings = ["spark.driver.memory=512m", "spark.sql.shuffle.partitions=2"]
    confs = [part for setting in settings for part in ("--conf", setting)]
    return [*job, "--master", "local[2]", *BATCHES, *confs]


def progress(root: Path) -> int:
    """Steps that the archive has made: files and folders of it that are there."""
    return sum(len(names) + len(files) for _, names, files in os.walk(root))


def kill_after(process: subprocess.Popen[bytes], root: Path, steps: int) -> bool:
    """Kills the job, and Spark with it, after so many steps; False if it ended before."""
    begin = progress(root)

    def look() -> bool:
        return process.poll() is not None or progress(root) - begin >= steps

    eventually(look, "the job gets on", DEADLINE)
    if process.poll() is not None:
        return False
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return True


@pytest.mark.slow
@pytest.mark.thorough("test_archive.py ends runs at every step")
@pytest.mark.parametrize("seed", seeds("spark-archive-kill"))
def test_killed_anywhere(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    """Its last run is one of this process."""
    chance = random.Random(seed)
    store, root = tmp_path / "broker-a", tmp_path / "archive"
    writer = Writer(store)
    kills = 0
    with (tmp_path / "log").open("wb") as log:
        for number in range(ROUNDS):
            writer.put(EACH)
            process = subprocess.Popen(
                command(store, root), stdout=log, stderr=log, start_new_session=True
            )
            kills += kill_after(process, root, chance.randrange(1, LATE if number else EARLY))
    last = CliRunner().invoke(
        main, ["pipeline", "archive", str(store), "--to", str(root), *BATCHES]
    )
    assert last.exit_code == 0, last.output
    writer.close()
    assert kills > 0
    rows = read_archive(spark, str(root)).select("topic", "queueId", "queueOffset", "body")
    found = sorted((r.topic, r.queueId, r.queueOffset, bytes(r.body)) for r in rows.collect())
    assert found == sorted((s.topic, s.queue, s.offset, s.body) for s in writer.sent)
    assert verify(spark, str(root)) == []
