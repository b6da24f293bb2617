"""Queries again and again: files, handles and memory of the process stay as they are.

PYRMQ_SPARK_QUERIES: how many rounds; some 400,000 are 24 hours.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.spark import jvm_jar, small_store
from tests.spark.streams import Query
from tests.support.thorough import size
from tests.support.waiting import eventually
from tests.system.interop import toolchain

from .test_native_library import JACKSON, NOTHING, SLF4J, held

REPEAT = Path(__file__).with_name("Repeat.java")
COUNT = 1500
HEAP = ["-Xms64m", "-Xmx64m", "-XX:+AlwaysPreTouch", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
"""A heap that does not grow: what grows is native."""
MORE_KILOBYTES = 16 << 10
"""What the code and the classes of the JVM itself may grow by."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("repeated") / "broker-a"
    small_store.write(root, COUNT)
    return root


def parts(state: dict[str, int]) -> dict[str, int]:
    """What is held, and how many files are open."""
    return {name: number for name, number in state.items() if name != "kilobytes"}


@pytest.mark.slow
@pytest.mark.thorough("a JVM of its own; test_native_library asks the engine what it holds")
def test_the_engine_alone(store: Path) -> None:
    """Plans, reads, streams and errors, without Spark: 64 KiB a round would be seen."""
    rounds = size("PYRMQ_SPARK_QUERIES", 400, 400)
    path = os.pathsep.join(map(str, [jvm_jar.built(), *JACKSON, *SLF4J]))
    command = [str(toolchain.java(17)), *HEAP, "-cp", path, str(REPEAT), str(store), str(rounds)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    states = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(states) == 2, done.stdout + done.stderr
    early, late = states
    assert parts(early) == parts(late)
    assert {name: late[name] for name in NOTHING} == NOTHING
    assert late["kilobytes"] - early["kilobytes"] < MORE_KILOBYTES


class Process:
    """The JVM of a session, by /proc."""

    def __init__(self, spark: SparkSession) -> None:
        self._jvm = spark._jvm
        pid = self._jvm.java.lang.ProcessHandle.current().pid()  # type: ignore[union-attr]
        self._folder = Path(f"/proc/{pid}")

    def files_of(self, folder: Path) -> list[str]:
        """Its open files below the folder."""
        found = []
        for link in (self._folder / "fd").iterdir():
            try:
                found.append(os.readlink(link))
            except FileNotFoundError:  # closed meanwhile
                continue
        return sorted(name for name in found if name.startswith(str(folder)))

    def native(self) -> int:
        """KiB that are resident, without the heap that is committed."""
        self._jvm.java.lang.System.gc()  # type: ignore[union-attr]
        status = (self._folder / "status").read_text()
        resident = next(line for line in status.splitlines() if line.startswith("VmRSS"))
        runtime = self._jvm.java.lang.Runtime.getRuntime()  # type: ignore[union-attr]
        return int(resident.split()[1]) - int(runtime.totalMemory()) // 1024


def one_of_each(spark: SparkSession, store: Path, checkpoint: Path) -> None:
    frame = spark.read.format("rocketmq").option("splitBytes", "64k").load(str(store))
    assert frame.where("tags = 'A'").selectExpr("sum(length(body))").first() is not None
    assert len(frame.orderBy(F.desc("commitLogOffset")).limit(3).collect()) == 3
    assert frame.groupBy("topic", "queueId").count().count() == 8
    assert frame.groupBy("tags").agg(F.max("commitLogOffset")).count() == 3
    with pytest.raises(Exception, match="USER_RAISED_EXCEPTION"):
        frame.selectExpr("raise_error(string(body))").collect()
    assert len(Query(spark, store, checkpoint).run()) == COUNT


@pytest.mark.slow
@pytest.mark.thorough("minutes; test_native_library asks the engine what it holds")
def test_queries(spark: SparkSession, store: Path, tmp_path: Path) -> None:
    """Of Spark, six a round: read to the end, in part, to an error, and by a stream."""
    rounds = size("PYRMQ_SPARK_QUERIES", 50, 50)
    process = Process(spark)
    early = 0
    for number in range(rounds):
        one_of_each(spark, store, tmp_path / str(number))
        if number == rounds // 2:
            early = process.native()
    eventually(lambda: held(spark), "what is held", until=lambda now: now == NOTHING)
    assert process.files_of(store) == []
    # The threads, code and buffers of Spark itself grow too, for a while.
    assert process.native() - early < 8 * MORE_KILOBYTES


@pytest.fixture
def scheduler(spark: SparkSession) -> Any:
    return spark.sparkContext._jsc.sc()


def task_that_runs(scheduler: Any) -> int | None:
    """The number of a task of a stage that runs."""
    for stage in scheduler.statusTracker().getActiveStageIds():
        tasks = scheduler.statusStore().taskList(stage, 0, 100)
        for at in range(tasks.size()):
            if tasks.apply(at).status() == "RUNNING":
                return int(tasks.apply(at).taskId())
    return None


@pytest.mark.parametrize("how", ["task, interrupted", "task", "group, interrupted", "group"])
def test_killed(spark: SparkSession, scheduler: Any, store: Path, how: str) -> None:
    """While a batch is read: by Spark's scheduler, with and without an interrupt of the thread."""
    before = Process(spark).files_of(store)
    interrupt = how.endswith("interrupted")
    frame = spark.read.format("rocketmq").options(batchRows=1, splitBytes="64k").load(str(store))
    waits = frame.where("reflect('java.lang.Thread', 'sleep', 20L) = 'null'").select("body")
    errors: list[str] = []

    def run() -> None:
        spark.sparkContext.setJobGroup("killed", "it is killed", interruptOnCancel=interrupt)
        try:
            waits.collect()
        except Exception as error:
            errors.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    eventually(lambda: held(spark)["batches"] > 0, "the query reads")
    if how.startswith("task"):
        task = eventually(lambda: task_that_runs(scheduler), "a task")
        assert scheduler.killTaskAttempt(task, interrupt, "of this test")
    spark.sparkContext.cancelJobGroup("killed")
    thread.join()
    assert errors
    eventually(lambda: held(spark), "what is held", until=lambda now: now == NOTHING)
    eventually(lambda: Process(spark).files_of(store), "files", until=lambda now: now == before)
