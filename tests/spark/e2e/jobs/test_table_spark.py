"""`pyrmq pipeline table write --engine spark`: tasks that fail, and a driver that is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from pyrmq.net.address import format_address
from pyrmq.tables.write import create_table
from spark_ext.jobs.errors import JobError
from spark_ext.jobs.source import Source as JobSource
from spark_ext.jobs.table_brokers import BrokerSource
from spark_ext.jobs.table_spark import SparkRun
from tests.support.client import Client
from tests.support.server import ServerProcess
from tests.support.waiting import eventually
from tests.tables.making import (
    TABLE,
    TOPIC,
    Log,
    World,
    check_same,
    impatient,
    rows_of,
    source_of,
    write,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[4]
PLACE = ("queueId", "queueOffset", "commitLogOffset", "storeTimestamp")


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture
def logs(world: World) -> list[Log]:
    """Two tasks read them."""
    found = [world.log(f"broker-{name}") for name in "abc"]
    for log in found:
        log.put(60, size=2000)
    return found


def run_of(spark: SparkSession, world: World, *logs: Log) -> SparkRun:
    source = source_of(*logs)
    create_table(world.catalog, TABLE, TOPIC, source.schema)
    return SparkRun(spark, world.catalog, TABLE, source, source.schema, waiting=impatient())


def test_both_engines_write_the_same_table(
    spark: SparkSession, world: World, logs: list[Log]
) -> None:
    run = run_of(spark, world, *logs)
    run.catch_up()
    check_same(world, *logs)
    assert (run.added.commits, run.added.files) == (1, 2)
    logs[0].put(9)
    write(world, *logs)
    logs[1].put(9)
    run_of(spark, world, *logs).catch_up()
    check_same(world, *logs)


def test_a_task_that_fails_fails_the_run_and_leaves_nothing(
    spark: SparkSession, world: World, logs: list[Log], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_of(spark, world, *logs)
    real = run._tasks

    def broken(shared: Any, splits: Any, cores: int) -> Any:
        return real(shared, [*splits, SimpleNamespace(read=None)], cores)

    monkeypatch.setattr(run, "_tasks", broken)
    with pytest.raises(JobError, match="NoneType"):
        run.catch_up()
    assert world.table().current_snapshot() is None
    assert world.files() == set()


def test_tasks_read_through_brokers(spark: SparkSession, world: World, tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "served") as server:
        with Client(server.broker) as client:
            for number in range(60):
                queue = number % 4
                assert client.send("orders", b"%d" % number, queue_id=queue).code == 0
        columns = ("topic", "brokerName", "body", *PLACE)
        source = BrokerSource(JobSource((), format_address(server.namesrv)), "orders", columns)
        source.pin()
        create_table(world.catalog, TABLE, "orders", source.schema)
        how = {"waiting": impatient()}
        run = SparkRun(spark, world.catalog, TABLE, source, source.schema, **how)
        run.catch_up()
    assert run.added.rows == 60
    assert sorted(body for *_, body in rows_of(world)) == sorted(b"%d" % n for n in range(60))


DRIVER = """
import sys
from pathlib import Path
from spark_ext.jobs.choice import session
from spark_ext.jobs import table_spark
from tests.spark.e2e.jobs.test_table_spark import Log, World, run_of
from tests.tables.making import source_of
world = World(Path(sys.argv[1]))
logs = [Log(Path(sys.argv[1]) / f"broker-{name}") for name in "abc"]
spark = session(master="local[2]")
def collected(*counted):
    print("written", flush=True)
    sys.stdin.read()
table_spark.Counted.follow = collected
run_of(spark, world, *logs).catch_up()
"""


def test_a_driver_that_is_killed_leaves_files_that_the_next_run_deletes(
    world: World, logs: list[Log]
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(world.folder)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    ) as driver:
        assert driver.stdout is not None
        try:
            assert driver.stdout.readline() == "written\n"
        finally:
            os.killpg(driver.pid, signal.SIGKILL)
    assert len(world.files()) == 2
    assert world.table().current_snapshot() is None
    eventually(lambda: not Path(f"/proc/{driver.pid}").exists(), "it has ended")
    added = write(world, *logs)
    assert added.cleaned == 2
    check_same(world, *logs)
    assert world.files() == world.referenced()
