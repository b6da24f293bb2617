"""`pyrmq pipeline table compact`, `expire` and `write --format delta`, as a user types them."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import Result

from tests.tables.commands import command, into
from tests.tables.making import Log, World, check_same, write


def _run(world: World, *words: str) -> Result:
    return command(words[0], *into(world), *words[1:])


@pytest.fixture
def runs(world: World, log: Log) -> Log:
    """A table of six runs."""
    for _ in range(5):
        write(world, log)
        log.put(30)
    write(world, log)
    return log


def test_compact_then_expire(world: World, runs: Log) -> None:
    done = _run(world, "compact", "--min-files", "3")
    assert done.exit_code == 0, done.output
    assert "6 files" in done.output
    assert "replaced by 1" in done.output
    check_same(world, runs)
    assert "nothing to compact" in _run(world, "compact").output
    runs.put(30)
    write(world, runs)
    would = _run(world, "expire", "--older-than", "0.001s", "--keep", "1", "--dry-run")
    assert "would remove 7 snapshots" in would.output
    done = _run(world, "expire", "--older-than", "0.001s", "--keep", "1")
    assert "removed 7 snapshots" in done.output
    assert "1 snapshot stays" in done.output
    check_same(world, runs)
    assert world.files() == world.referenced()
    # A run after that goes on where the table ends.
    runs.put(30)
    assert write(world, runs).rows == 30
    check_same(world, runs)


def test_sizes(world: World, runs: Log) -> None:
    done = _run(world, "compact", "--target-size", "1g", "--min-files", "2")
    assert done.exit_code != 0
    assert "choose a target of 1 to 256 MiB" in done.output
    assert "is no size" in _run(world, "compact", "--target-size", "many").output
    done = _run(world, "compact", "--target-size", "64MiB", "--smaller-than", "1k")
    assert "nothing to compact" in done.output


def test_a_table_that_is_not_there(world: World, log: Log) -> None:
    write(world, log)
    for name in ("compact", "expire"):
        done = command(name, *into(world, "mq.nothing"))
        assert "has no table mq.nothing" in done.output


def test_ages_of_years(world: World, runs: Log) -> None:
    assert _run(world, "expire", "--older-than", "400d", "--keep", "1").exit_code == 0
    assert len(world.table().snapshots()) == 6
    seconds = _run(world, "expire", "--older-than", "7")
    assert "'7' is no duration" in seconds.output
    done = _run(world, "expire", "--orphans-older-than", "10m")
    assert "choose one hour or more" in done.output


def test_delta(world: World, log: Log) -> None:
    from deltalake import DeltaTable

    lake = world.folder / "lake"

    def run(*more: str) -> Result:
        words = [log.root, "-t", "orders", "--catalog", lake, "--table", "mq.orders"]
        return command("write", *words, *more)

    done = run("--format", "delta", "--partition", "day,queue")
    assert done.exit_code == 0, done.output
    assert "added 60 messages" in done.output
    assert "mq.orders has 60 offsets of 3 queues" in done.output
    log.put(30)
    assert "added 30 messages" in run("--format", "delta").output
    table = DeltaTable(str(lake / "mq" / "orders")).to_pyarrow_table()
    assert sorted(table["body"].to_pylist()) == sorted(row[3] for row in log.rows)
    refused = run("--format", "delta", "--partition", "hour")
    assert "a Delta table is partitioned by none or some of" in refused.output


def test_a_topic_that_is_not_there_makes_no_delta_table(world: World, log: Log) -> None:
    lake = world.folder / "lake"
    words = [log.root, "-t", "none", "--catalog", lake, "--table", "mq.none"]
    done = command("write", *words, "--format", "delta")
    assert "topic 'none' is not in the store" in done.output
    assert not lake.exists()


def test_watch_writes_delta_too(world: World, log: Log, tmp_path: Path) -> None:
    from deltalake import DeltaTable

    from spark_ext.jobs.table_watch import Service, Turns

    file = tmp_path / "tables.toml"
    file.write_text(
        f'[[tables]]\ntopic = "orders"\ntable = "mq.orders"\nformat = "delta"\n'
        f'catalog = "{world.folder}/lake"\nstore = "{log.root}"\n[upkeep]\nevery = "0.001s"\n'
    )
    with Turns() as turns:
        assert isinstance(turns, Turns)
        service = Service(file, turns)
        service.turn(service._states[0])
        assert not service._states[0].figures.failing
        assert service._states[0].figures.messages == 60
    assert DeltaTable(str(world.folder / "lake/mq/orders")).count() == 60
