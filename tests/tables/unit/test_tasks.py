"""`table write --engine spark` without a JVM: what tasks write, and what the driver makes of it."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pyrmq.tables import leftovers, names
from pyrmq.tables.counting import Counted
from pyrmq.tables.ends import Ends
from pyrmq.tables.errors import TableError, TableStoreError
from pyrmq.tables.write import create_table
from spark_ext.jobs import table_choice
from spark_ext.jobs.errors import JobError
from spark_ext.jobs.table_choice import chosen
from spark_ext.jobs.table_spark import Done, Shared, SparkRun, write_part
from tests.tables.making import (
    TABLE,
    TOPIC,
    Log,
    World,
    check_same,
    impatient,
    source_of,
    write,
)

CORES: Any = SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=2))


class InProcess(SparkRun):
    """Its tasks run here, in the reverse order; what they get and give is pickled, as in Spark."""

    attempts = 0

    def _tasks(self, shared: Shared, splits: Sequence[Any], cores: int) -> list[Done]:
        done = [self._attempt(shared, split) for split in reversed(splits)]
        return list(reversed(done))

    def _attempt(self, shared: Shared, split: Any) -> Done:
        self.attempts += 1
        given = pickle.loads(pickle.dumps((shared, [split])))
        found: Done = pickle.loads(pickle.dumps(write_part(*given, self.attempts)))
        return found


class Twice(InProcess):
    """Each task runs twice, and Spark takes the second attempt."""

    def _attempt(self, shared: Shared, split: Any) -> Done:
        super()._attempt(shared, split)
        return super()._attempt(shared, split)


class Broken(Exception):
    pass


class Failing(InProcess):
    """The second attempt fails behind its first batch."""

    def _attempt(self, shared: Shared, split: Any) -> Done:
        if self.attempts < 1:
            return super()._attempt(shared, split)
        batches = list(split.read())

        def read() -> Any:
            yield batches[0]
            raise Broken

        write_part(shared, [SimpleNamespace(read=read)], 99)
        raise AssertionError("it ends with the error")


def run_of(world: World, *logs: Log, kind: type[InProcess] = InProcess) -> InProcess:
    source = source_of(*logs)
    create_table(world.catalog, TABLE, TOPIC, source.schema)
    return kind(CORES, world.catalog, TABLE, source, source.schema, waiting=impatient())


@pytest.fixture
def other(world: World) -> Log:
    """The log of another broker: each of the two is the work of a task."""
    log = world.log("broker-b")
    log.put(40, queues=2, size=2000)
    return log


def test_the_table_is_the_one_that_a_single_process_writes(
    world: World, log: Log, other: Log
) -> None:
    run = run_of(world, log, other)
    run.catch_up()
    assert (run.attempts, run.added.commits, run.added.files) == (2, 1, 2)
    check_same(world, log, other)
    assert run.added.rows == len(log.rows) + len(other.rows)
    log.put(30)
    write(world, log, other)  # and that goes on where tasks have ended
    check_same(world, log, other)
    other.put(30)
    run_of(world, log, other).catch_up()
    check_same(world, log, other)


def test_attempts_that_were_not_taken_are_deleted_later(
    world: World, log: Log, other: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", "from pyrmq.tables import names; print(names.this_process())"],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[3],
    ).stdout.strip()
    with monkeypatch.context() as patched:
        patched.setattr(names, "this_process", lambda: ended)
        patched.setattr(leftovers, "clean", lambda table: 0)  # a driver that lives deletes none
        run_of(world, log, other, kind=Twice).catch_up()
    check_same(world, log, other)
    left = world.files() - world.referenced()
    assert left
    assert all(names.is_abandoned(name) for name in left)
    log.put(3)
    added = write(world, log, other)
    assert added.cleaned == len(left) == 2
    assert world.files() == world.referenced()
    check_same(world, log, other)


def test_a_task_that_fails_leaves_nothing(world: World, log: Log, other: Log) -> None:
    run = run_of(world, log, other, kind=Failing)
    with pytest.raises(Broken):
        run.catch_up()
    assert run.attempts == 1, "the other task had written its file"
    assert world.files() == set()
    run_of(world, log, other).catch_up()
    check_same(world, log, other)


def test_files_that_the_driver_does_not_see_are_not_committed(world: World, log: Log) -> None:
    class Away(InProcess):
        def _attempt(self, shared: Shared, split: Any) -> Done:
            done = super()._attempt(shared, split)
            for file in done.files:
                os.unlink(file.file_path.removeprefix("file://"))
            return done

    with pytest.raises(TableError, match="is not here"):
        run_of(world, log, kind=Away).catch_up()
    assert world.table().current_snapshot() is None


def test_what_travels_shows_no_secrets(world: World, log: Log) -> None:
    run_of(world, log)
    table = world.table()
    shared = replace(
        Shared.of(table, None, "c", TOPIC), properties={"s3.secret-access-key": "hush"}
    )
    assert "hush" not in f"{shared!r} {shared}"
    assert Shared.of(table, None, "c", TOPIC).table().metadata == table.metadata


def test_parts_that_overlap_are_refused(world: World, log: Log) -> None:
    source = source_of(log)
    position = source.start(None)
    (split,) = source.splits(position, source.next(position))
    whole, part = Counted(Ends(TOPIC)), Counted(Ends(TOPIC))
    for batch in split.read():
        part.add(batch)
    whole.follow(part)
    assert whole.ends() == part.ends()
    assert whole.rows == len(log.rows)
    with pytest.raises(TableStoreError, match="again"):
        whole.follow(part)


@pytest.mark.usefixtures("world")
def test_which_engine(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    source = source_of(log)
    monkeypatch.setattr(table_choice, "session", lambda *asked, **how: ("spark", asked, how))
    assert chosen("local", source, None, decodes=False) is None
    assert chosen("auto", source, None, decodes=False) is None, "it is small"
    with pytest.raises(JobError, match="--master"):
        chosen("local", source, None, decodes=False, master="local[2]")
    with pytest.raises(JobError, match="--body"):
        chosen("spark", source, None, decodes=True)
    assert chosen("spark", source, None, decodes=False) is not None
    assert chosen("auto", source, None, decodes=False, master="local[2]") is not None
    monkeypatch.setattr(table_choice, "LOCAL_BYTES", -1)
    monkeypatch.setattr(table_choice, "_has_spark", lambda: True)
    assert chosen("auto", source, None, decodes=False) is not None
    assert chosen("auto", source, None, decodes=True) is None
    monkeypatch.setattr(table_choice, "_has_spark", lambda: False)
    assert chosen("auto", source, None, decodes=False) is None
