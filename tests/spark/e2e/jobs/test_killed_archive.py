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
from spark_ext.jobs.engine import Where
from spark_ext.jobs.local import LocalEngine
from tests.spark.small_store import Sent, Writer
from tests.support.thorough import seeds, size
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EACH = 400
ROUNDS = size("PYRMQ_ARCHIVE_ROUNDS", 1, 20)
EARLY, LATE = 12, 60
"""Steps of which a job makes more in any case, and some more than it makes as a rule."""
LOCAL_ROUNDS = size("PYRMQ_ARCHIVE_LOCAL_ROUNDS", 4, 60)
DEADLINE = 240.0
BATCHES = ["-o", "maxOffsetsPerTrigger=150"]


def command(store: Path, root: Path, engine: str = "spark") -> list[str]:
    job = [sys.executable, "-m", "spark_ext.jobs.archive", str(store), "--to", str(root)]
    job += ["--engine", engine]
    if engine == "local":
        return [*job, *BATCHES]
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
    writer.close()
    assert kills > 0
    finish("spark", store, root)
    check(spark, root, writer.sent)


def finish(engine: str, store: Path, root: Path) -> None:
    """The last run is one of this process."""
    job = ["pipeline", "archive", str(store), "--to", str(root), "--engine", engine, *BATCHES]
    last = CliRunner().invoke(main, job)
    assert last.exit_code == 0, last.output


def check(where: Where, root: Path, sent: list[Sent]) -> None:
    """Every message is there, once."""
    rows = read_archive(where, str(root)).collect()
    found = sorted((r.topic, r.queueId, r.queueOffset, bytes(r.body)) for r in rows)
    assert found == sorted((s.topic, s.queue, s.offset, s.body) for s in sent)
    assert verify(where, str(root)) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds("local-archive-kill"))
def test_killed_anywhere_in_this_process(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    store, root = tmp_path / "broker-a", tmp_path / "archive"
    writer = Writer(store)
    with (tmp_path / "log").open("wb") as log:
        for _ in range(LOCAL_ROUNDS):
            writer.put(EACH)
            process = subprocess.Popen(
                command(store, root, "local"), stdout=log, stderr=log, start_new_session=True
            )
            kill_after(process, root, chance.randrange(1, EARLY))
    writer.close()
    finish("local", store, root)
    check(LocalEngine(), root, writer.sent)
