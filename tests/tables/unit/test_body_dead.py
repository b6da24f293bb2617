"""Bodies that do not fit: in the dead table once, left out, or the end of the run."""

from __future__ import annotations

import contextlib
import random
import shutil
from typing import Any

import pytest

from pyrmq.tables import commit, leftovers, parquet
from pyrmq.tables.bodies.staging import SKIP, SUSPEND, BodyError
from pyrmq.tables.errors import TableConflictError, TableSchemaError, TableStoreError
from tests.support.thorough import size
from tests.tables.dead import (
    DEAD,
    LATER,
    SCHEMA,
    STEPS,
    bodies,
    check,
    fill,
    run_of,
    there,
    write,
)
from tests.tables.killer import run_killed
from tests.tables.making import World


def test_dead_bodies_are_in_their_own_table(world: World) -> None:
    first, second = bodies(0, 30), bodies(30, 12)
    fill(world, first)
    run = write(world)
    assert (run.added.rows, run._stage.dead.rows) == (30, 6)  # type: ignore[union-attr]
    check(world, [first])
    fill(world, second)
    write(world)
    check(world, [first, second])
    row = world.catalog.load(DEAD).scan().to_arrow().to_pylist()[0]
    assert {"topic", "brokerName", "queueId", "queueOffset", "commitLogOffset", "body"} <= set(row)
    assert write(world).added.commits == 0


def test_a_run_of_dead_bodies_only(world: World) -> None:
    found = [b"x"] * 5
    fill(world, found)
    assert write(world).added.commits == 1
    check(world, [found])
    assert write(world).added.commits == 0
    assert sum(end.end - end.start for _, _, end in world.ends().queues()) == 5


def test_files_of_killed_runs_that_cannot_be_listed(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The bodies are in the dead table by then, and the table is to follow."""

    def fail(table: Any) -> int:
        raise OSError("no listing")

    monkeypatch.setattr(leftovers, "clean", fail)
    fill(world, [b"x"] * 5)
    assert write(world).added.commits == 1
    check(world, [[b"x"] * 5])
    assert "files of killed runs are not deleted" in caplog.text


def test_a_file_of_many_columns_is_closed_early(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its footer is held in memory until then."""
    wide = {f"f{n}": {"type": "integer"} for n in range(50)}
    found = bodies(0, 30)
    fill(world, found)
    monkeypatch.setattr(parquet, "GROUP_ROWS", 5)
    monkeypatch.setattr(parquet, "MAX_CHUNKS", 100)
    run = write(world, {**SCHEMA, "properties": {**SCHEMA["properties"], **wide}})  # type: ignore[dict-item]
    assert run.added.files == 3
    check(world, [found])


def test_suspend_stops_at_the_body_and_names_it(world: World) -> None:
    good, bad = bodies(1, 4), bodies(5, 3)
    fill(world, good)
    write(world, on_error=SUSPEND)
    fill(world, bad)
    with pytest.raises(BodyError) as raised:
        write(world, on_error=SUSPEND)
    assert "offset 2 of queue 0 of broker-a: id: a required field" in str(raised.value)
    assert "--on-error dlq" in str(raised.value)
    check(world, [good])
    assert world.catalog.find(DEAD) is None
    assert world.files() == world.referenced()
    write(world)
    check(world, [good, bad])


def test_skip_leaves_them_out_and_counts_them(world: World) -> None:
    found = bodies(0, 30)
    fill(world, found)
    run = write(world, on_error=SKIP)
    assert run._stage.skipped == 6  # type: ignore[union-attr]
    good, bad = there(world)
    assert (sum(good.values()), sum(bad.values())) == (24, 0)
    assert world.catalog.find(DEAD) is None


@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS)
def test_killed(world: World, step: str) -> None:
    first, second, third = bodies(0, 30), bodies(30, 21), bodies(51, 12)
    fill(world, first)
    write(world)
    fill(world, second)
    run_killed("tests.tables.dead", world.folder, step)
    _, dead = there(world)
    committed = step in ("after the dead commit", "before the commit", "after the commit")
    assert (sum(dead.values()) > 6) == committed
    fill(world, third)
    write(world)
    check(world, [first, second, third])
    write(world)
    check(world, [first, second, third])
    tables = [world.table(), world.catalog.load(DEAD)]
    named = {
        task.file.file_path.rpartition("/")[2] for one in tables for task in one.scan().plan_files()
    }
    assert world.files() == named


class Cut(Exception):
    """Stands for the end of the process."""


def cut(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """The n-th commit from now on is not tried, nor anything after it."""
    real, left = commit.commit, [number]

    def tried(*args: Any) -> Any:
        left[0] -= 1
        if left[0] < 0:
            raise Cut
        return real(*args)

    monkeypatch.setattr(commit, "commit", tried)


def cut_after_the_dead_commit(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        cut(patch, 1)
        with pytest.raises(Cut):
            write(world)


def test_a_dead_body_stays_dead_under_a_schema_that_takes_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise it would be in both tables."""
    found = bodies(0, 30)
    fill(world, found)
    cut_after_the_dead_commit(world, monkeypatch)
    assert sum(there(world)[1].values()) == 6
    write(world, LATER, SUSPEND)
    check(world, [found])


@pytest.mark.parametrize("on_error", [SUSPEND, SKIP])
def test_dead_bodies_of_a_run_that_was_cut_are_known_in_any_mode(
    world: World, monkeypatch: pytest.MonkeyPatch, on_error: str
) -> None:
    found = bodies(0, 30)
    fill(world, found)
    cut_after_the_dead_commit(world, monkeypatch)
    run = write(world, on_error=on_error)
    assert run._stage.skipped == 0  # type: ignore[union-attr]
    check(world, [found])


def test_a_body_that_dies_under_a_later_schema_is_not_lost(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The dead table reaches further than the table, and yet does not have this one."""
    found = [*bodies(0, 9), b'{"id":1,"x":5}', *bodies(1, 4)]
    fill(world, found)
    cut_after_the_dead_commit(world, monkeypatch)
    write(world, {**LATER, "required": ["id"]})
    good, bad = there(world)
    assert bad[0, 3, b'{"id":1,"x":5}'] == 1
    assert sum(good.values()) + sum(bad.values()) == len(found)
    assert set(good.values()) | set(bad.values()) == {1}


def in_between(world: World, number: int, more: list[bytes]) -> Any:
    """Before the n-th commit, another writer writes everything and what is new."""
    real, left = commit.commit, [number]

    def meanwhile(*args: Any) -> Any:
        left[0] -= 1
        if left[0] == -1:
            fill(world, more)
            write(world)
        return real(*args)

    return meanwhile


def test_two_writers_of_which_one_is_in_between(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each commit of one, another one writes everything."""
    for number in range(2):
        own = World(world.folder / str(number))
        first, second = bodies(0, 30), bodies(30, 12)
        fill(own, first)
        with monkeypatch.context() as patch:
            patch.setattr(commit, "commit", in_between(own, number, second))
            run = run_of(own)
            run._source.pin()
            run.catch_up()
        assert run.added.races == 1
        write(own)
        check(own, [first, second])
        assert write(own).added.commits == 0


@pytest.mark.parametrize("seed", range(size("PYRMQ_DEAD_ROUNDS", 3, 60)))
def test_cuts_at_random_places(world: World, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    chance = random.Random(seed)
    found = []
    for _ in range(4):
        found.append(bodies(sum(map(len, found)), chance.randint(1, 12)))
        fill(world, found[-1])
        with monkeypatch.context() as patch:
            cut(patch, chance.randint(0, 3))
            with contextlib.suppress(Cut):
                write(world, commit_bytes=chance.choice([1, 1 << 30]))
    write(world)
    check(world, found)


def test_dead_bodies_of_another_log_are_an_error(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store was made anew, the table dropped, and the dead table left: the same positions are
    those of other messages, which would be left out."""
    fill(world, bodies(0, 30))
    write(world)
    world.catalog.iceberg.drop_table("mq.orders")
    shutil.rmtree(world.log().root)
    fill(world, [b"longer than before", *bodies(1, 29)])
    with pytest.raises(TableStoreError, match=f"drop or rename table {DEAD}"):
        write(world)


def test_the_table_is_dropped_and_written_again(world: World) -> None:
    """From the same store: what is dead is there already."""
    found = bodies(0, 30)
    fill(world, found)
    write(world)
    world.catalog.iceberg.drop_table("mq.orders")
    write(world)
    check(world, [found])


def test_a_table_of_that_name_that_is_not_the_dead_one(world: World) -> None:
    from pyiceberg.schema import Schema
    from pyiceberg.types import LongType, NestedField

    fill(world, bodies(0, 6))
    world.catalog.create(DEAD, Schema(NestedField(1, "x", LongType())))
    with pytest.raises(TableSchemaError, match="is not the one of dead bodies of"):
        write(world)
    assert there_is_nothing(world)


def there_is_nothing(world: World) -> bool:
    return world.table().current_snapshot() is None


def test_columns_that_change_in_the_middle_of_a_run(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another writer with a newer schema is in between: the run is made again with its columns."""
    found = bodies(0, 30)
    fill(world, found)
    real, left = commit.commit, [1]

    def meanwhile(*args: Any) -> Any:
        left[0] -= 1
        if left[0] == 0:
            run_of(world, {**SCHEMA, "properties": {**SCHEMA["properties"], "n": {}}})  # type: ignore[dict-item]
        return real(*args)

    with monkeypatch.context() as patch:
        patch.setattr(commit, "commit", meanwhile)
        write(world)
    check(world, [found])
    assert world.table().schema().find_field("value.n") is not None


def test_the_files_of_dead_bodies_go_away_when_the_commit_is_refused(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(world, bodies(0, 30))

    asked = []

    def refused(*args: Any) -> Any:
        asked.append(args)
        raise TableConflictError("refused")

    run = run_of(world, stop=lambda: bool(asked))
    with monkeypatch.context() as patch:
        patch.setattr(commit, "commit", refused)
        run._source.pin()
        run.catch_up()
    assert run.added.races == 1
    assert world.files() == set()
