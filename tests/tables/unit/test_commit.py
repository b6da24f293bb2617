"""The commit: races, catalogs that are away, answers that are lost or late."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pyrmq.tables.catalog import Catalog
from pyrmq.tables.errors import CatalogAwayError, CatalogError, OutcomeUnknownError
from tests.tables.making import Log, World, check_same, run_of, write


class Away(ConnectionError):
    """No answer."""


class Scripted:
    """The catalog of a run. `answers` are taken one by one, each for one commit: a function that
    gets the real commit; then all is as usual."""

    def __init__(self, world: World) -> None:
        self.catalog: Catalog = world.catalog
        self.answers: list[Callable[[Callable[[], Any]], Any]] = []
        self.loads: list[Exception] = []
        """What `load_table` raises next, once the catalog is `away`."""
        self.away = False
        self.commits = 0
        self.late: list[Callable[[], Any]] = []
        """Commits that have not arrived."""
        iceberg = self.catalog.iceberg
        commit, load = iceberg.commit_table, iceberg.load_table

        def scripted_commit(table: Any, requirements: Any, updates: Any) -> Any:
            self.commits += 1
            real = lambda: commit(table, requirements, updates)  # noqa: E731
            return self.answers.pop(0)(real) if self.answers else real()

        def scripted_load(name: Any) -> Any:
            if self.away and self.loads:
                raise self.loads.pop(0)
            return load(name)

        iceberg.commit_table, iceberg.load_table = scripted_commit, scripted_load

    def refuse(self, real: Callable[[], Any]) -> Any:
        raise Away("the catalog does not answer")

    def lose(self, real: Callable[[], Any]) -> Any:
        real()
        self.away = True
        raise Away("the answer is lost")

    def delay(self, real: Callable[[], Any]) -> Any:
        self.late.append(real)
        raise Away("the request is on its way")


@pytest.fixture
def scripted(world: World, log: Log) -> Scripted:
    write(world, log)
    log.put(12)
    return Scripted(world)


def test_a_catalog_that_comes_back(world: World, log: Log, scripted: Scripted) -> None:
    scripted.answers = [scripted.refuse, scripted.refuse]
    added = write(world, log, catalog=scripted.catalog)
    assert (added.commits, added.rows) == (1, 12)
    check_same(world, log)
    assert world.files() == world.referenced()


def test_an_answer_that_is_lost(world: World, log: Log, scripted: Scripted) -> None:
    scripted.answers = [scripted.lose]
    added = write(world, log, catalog=scripted.catalog)
    assert (added.commits, scripted.commits) == (1, 1)
    check_same(world, log)
    assert world.files() == world.referenced()


def test_a_commit_that_arrives_late_is_refused(world: World, log: Log, scripted: Scripted) -> None:
    scripted.answers = [scripted.delay]
    write(world, log, catalog=scripted.catalog)
    with pytest.raises(Exception, match="has changed"):
        scripted.late[0]()
    check_same(world, log)


def test_a_commit_that_arrived_and_whose_snapshot_is_expired(
    world: World, log: Log, scripted: Scripted
) -> None:
    """The answer is lost; before anyone asks, another writer commits and expires the snapshot."""

    def overtaken(real: Callable[[], Any]) -> Any:
        real()
        mine = world.table().metadata.current_snapshot_id
        log.put(3)
        write(world, log)
        world.table().maintenance.expire_snapshots().by_id(mine).commit()
        raise Away("the answer is lost")

    scripted.answers = [overtaken]
    added = write(world, log, catalog=scripted.catalog)
    assert added.races == 0
    check_same(world, log)
    assert world.files() == world.referenced()


def test_ends_that_cannot_be_read_after_a_lost_answer(
    world: World, log: Log, scripted: Scripted
) -> None:
    """Nobody knows whether the files are in the table: they stay."""

    def broken(real: Callable[[], Any]) -> Any:
        with (
            world.table().transaction() as t,
            t.update_snapshot(snapshot_properties={"pyrmq.ends": "broken"}).fast_append(),
        ):
            pass
        raise Away("no answer")

    before = world.files()
    scripted.answers = [broken]
    with pytest.raises(OutcomeUnknownError):
        write(world, log, catalog=scripted.catalog)
    assert len(world.files() - before) == 1


def test_a_commit_that_arrives_before_the_next_attempt(
    world: World, log: Log, scripted: Scripted
) -> None:
    def arrive(real: Callable[[], Any]) -> Any:
        scripted.late[0]()
        return real()

    scripted.answers = [scripted.delay, arrive]
    added = write(world, log, catalog=scripted.catalog)
    assert (added.commits, added.races) == (1, 0)
    check_same(world, log)
    assert world.files() == world.referenced()


def test_a_catalog_that_stays_away_costs_no_message(
    world: World, log: Log, scripted: Scripted
) -> None:
    """The commit that was given up may still arrive: its files stay until it cannot."""
    scripted.answers = [scripted.delay] + [scripted.refuse] * 20
    with pytest.raises(OutcomeUnknownError, match="nothing is lost or added twice"):
        write(world, log, catalog=scripted.catalog)
    assert len(world.files()) == 2
    scripted.late[0]()
    check_same(world, log)
    assert world.files() == world.referenced()
    assert write(world, log).commits == 0


def test_a_catalog_that_cannot_be_asked_after_a_commit(
    world: World, log: Log, scripted: Scripted
) -> None:
    scripted.answers = [scripted.lose]
    scripted.loads = [Away("no answer")] * 20
    with pytest.raises(OutcomeUnknownError):
        write(world, log, catalog=scripted.catalog)
    check_same(world, log)
    assert write(world, log).commits == 0


def test_a_catalog_that_is_away_for_a_moment_before_the_run(
    world: World, log: Log, scripted: Scripted
) -> None:
    run = run_of(world, log, catalog=scripted.catalog)
    scripted.away = True
    scripted.loads = [Away("no answer")] * 2
    run.catch_up()
    check_same(world, log)


def test_a_catalog_that_is_away_for_long_before_the_run(
    world: World, log: Log, scripted: Scripted
) -> None:
    run = run_of(world, log, catalog=scripted.catalog)
    scripted.away = True
    scripted.loads = [Away("no answer")] * 20
    with pytest.raises(CatalogAwayError, match="no answer"):
        run.catch_up()
    assert world.files() == world.referenced()
    run = run_of(world, log)
    run.catch_up()
    check_same(world, log)


def test_a_catalog_that_refuses(world: World, log: Log, scripted: Scripted) -> None:
    from pyiceberg.exceptions import ForbiddenError

    def forbid(real: Callable[[], Any]) -> Any:
        raise ForbiddenError("you may not write")

    scripted.answers = [forbid]
    with pytest.raises(CatalogError, match="you may not write"):
        write(world, log, catalog=scripted.catalog)
    assert world.files() == world.referenced()


def test_a_catalog_whose_disk_is_full(world: World, log: Log, scripted: Scripted) -> None:
    import sqlite3

    from sqlalchemy.exc import OperationalError

    def full(real: Callable[[], Any]) -> Any:
        cause = sqlite3.OperationalError("database or disk is full")
        cause.sqlite_errorname = "SQLITE_FULL"
        raise OperationalError("UPDATE", {}, cause)

    scripted.answers = [full]
    with pytest.raises(CatalogError, match="disk is full") as raised:
        write(world, log, catalog=scripted.catalog)
    assert not isinstance(raised.value, CatalogAwayError)
    assert world.files() == world.referenced()
    assert scripted.commits == 1


def test_files_of_killed_runs_that_cannot_be_listed(
    world: World, log: Log, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from pyrmq.tables import leftovers

    def fail(table: Any) -> int:
        raise OSError("no listing")

    monkeypatch.setattr(leftovers, "clean", fail)
    assert write(world, log).rows == 60
    assert "files of killed runs are not deleted" in caplog.text


def test_of_two_writers_one_wins_and_the_other_continues(
    world: World, log: Log, scripted: Scripted
) -> None:
    def second(real: Callable[[], Any]) -> Any:
        write(world, log)
        log.put(5)
        return real()

    scripted.answers = [second]
    added = write(world, log, catalog=scripted.catalog)
    assert (added.races, added.commits, added.rows) == (1, 1, 5)
    check_same(world, log)
    assert world.files() == world.referenced()


def test_of_two_writers_of_a_new_table_one_wins(world: World, log: Log) -> None:
    run = run_of(world, log)
    scripted = Scripted(world)

    def second(real: Callable[[], Any]) -> Any:
        run.catch_up()
        return real()

    scripted.answers = [second]
    added = write(world, log, catalog=scripted.catalog)
    assert (added.races, added.commits) == (1, 0)
    check_same(world, log)
    assert world.files() == world.referenced()


def test_a_compaction_in_between_costs_no_new_files(
    world: World, log: Log, scripted: Scripted
) -> None:
    def compact(real: Callable[[], Any]) -> Any:
        table = world.table()
        with table.transaction() as transaction, transaction.update_snapshot().fast_append():
            pass
        assert table.current_snapshot().summary.get("pyrmq.ends") is None
        return real()

    scripted.answers = [compact, compact]
    added = write(world, log, catalog=scripted.catalog)
    assert (added.races, added.commits, scripted.commits) == (0, 1, 3)
    check_same(world, log)
    assert world.files() == world.referenced()


def test_a_column_that_is_added_in_between(world: World, log: Log, scripted: Scripted) -> None:
    from pyiceberg.types import StringType

    def evolve(real: Callable[[], Any]) -> Any:
        with world.table().update_schema() as update:
            update.add_column("note", StringType())
        with world.table().transaction() as t, t.update_snapshot().fast_append():
            pass
        return real()

    scripted.answers = [evolve]
    added = write(world, log, catalog=scripted.catalog)
    assert (added.races, added.commits) == (1, 1)
    check_same(world, log)
    assert world.files() == world.referenced()


def test_retries_of_pyiceberg_are_not_used(world: World, log: Log, scripted: Scripted) -> None:
    """They would add our files on top of the same messages of another writer."""
    with world.table().transaction() as transaction:
        transaction.set_properties({"commit.retry.num-retries": "9"})

    def second(real: Callable[[], Any]) -> Any:
        write(world, log)
        return real()

    scripted.answers = [second]
    write(world, log, catalog=scripted.catalog)
    check_same(world, log)


def test_manifests_are_merged_without_a_loss(world: World, log: Log) -> None:
    write(world, log)
    with world.table().transaction() as transaction:
        transaction.set_properties({"commit.manifest.min-count-to-merge": "3"})
    for _ in range(7):
        log.put(3)
        write(world, log)
    assert len(world.table().current_snapshot().manifests(world.table().io)) < 7
    check_same(world, log)


def test_a_catalog_that_another_process_keeps_locked(
    world: World, log: Log, scripted: Scripted
) -> None:
    """SQLite says that nothing was done: runs that are tried again do not fill the disk."""
    import sqlite3

    from sqlalchemy.exc import OperationalError

    def locked(real: Callable[[], Any]) -> Any:
        cause = sqlite3.OperationalError("database is locked")
        cause.sqlite_errorname = "SQLITE_BUSY"
        raise OperationalError("UPDATE", {}, cause)

    before = world.files()
    scripted.answers = [locked] * 20
    with pytest.raises(CatalogAwayError) as raised:
        write(world, log, catalog=scripted.catalog)
    assert not isinstance(raised.value, OutcomeUnknownError)
    assert world.files() == before
    scripted.answers = [locked]
    assert write(world, log, catalog=scripted.catalog).commits == 1
    check_same(world, log)
