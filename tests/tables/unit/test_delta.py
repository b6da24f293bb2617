"""Delta tables: each message once, whatever is killed when and whoever else writes."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pyrmq.tables import delta, delta_commit
from pyrmq.tables.delta import Place, ends_of
from pyrmq.tables.delta_write import DeltaRun
from pyrmq.tables.durable import DurableFileIO
from pyrmq.tables.ends import ENDS
from pyrmq.tables.errors import (
    CatalogError,
    OutcomeUnknownError,
    TableSchemaError,
    TableStoreError,
)
from pyrmq.tables.runs import Added
from pyrmq.tables.schema import columns_of
from pyrmq.tables.source import StoreSource
from tests.segments.making import as_rows
from tests.tables.dying import Killed, die_at
from tests.tables.making import COLUMNS, Log, Row, World, check_rows, impatient
from tests.tables.syncs import record_syncs

PLACE_OF = "mq.orders"


def place(world: World) -> Place:
    return Place(str(world.folder / "lake"), PLACE_OF)


def run_of(world: World, *logs: Log, partition: tuple[str, ...] = ("day",), **how: Any) -> DeltaRun:
    topic = how.pop("topic", "orders")
    source = StoreSource([str(log.root) for log in logs], topic, columns_of(()))
    how.setdefault("waiting", impatient())
    return DeltaRun(place(world), source, partition, "zstd", **how)


def write(world: World, *logs: Log, **how: Any) -> Added:
    run = run_of(world, *logs, **how)
    run.catch_up()
    return run.added


def rows_of(world: World) -> list[Row]:
    return as_rows(place(world).find().to_pyarrow_table(columns=list(COLUMNS)), COLUMNS)


def check_same(world: World, *logs: Log) -> None:
    check_rows(rows_of(world), *logs)


@pytest.mark.parametrize(
    "partition", [(), ("day",), ("queue",), ("day", "queue"), ("day", "queue", "broker")]
)
def test_each_message_is_there_once(world: World, log: Log, partition: tuple[str, ...]) -> None:
    assert write(world, log, partition=partition).rows == 60
    log.put(30)
    # A later run keeps to the partitions that the table has.
    assert write(world, log).rows == 30
    assert write(world, log).rows == 0
    check_same(world, log)
    ends = ends_of(place(world).find())
    assert ends is not None
    assert [(q, one.start, one.end) for _, q, one in ends.queues()] == [
        (0, 0, 30), (1, 0, 30), (2, 0, 30)
    ]  # fmt: skip


def test_rows_are_those_of_an_iceberg_table(world: World, log: Log) -> None:
    from tests.tables.making import write as write_iceberg

    write(world, log)
    write_iceberg(world, log)
    keys = [("brokerName", "ascending"), ("queueId", "ascending"), ("queueOffset", "ascending")]
    ours = place(world).find().to_pyarrow_table().drop_columns(["day"]).sort_by(keys).to_pylist()
    assert ours == world.table().scan().to_arrow().sort_by(keys).to_pylist()


def test_files_that_a_filter_leaves_out_are_not_read(world: World, log: Log) -> None:
    write(world, log, partition=("queue",))
    log.put(60)
    write(world, log)
    table = place(world).find()
    assert len(table.file_uris()) == 6
    actions = pa.table(table.get_add_actions(flatten=True))
    assert actions["num_records"].to_pylist() == [20] * 6
    assert sorted(actions["min.queueOffset"].to_pylist()) == [0] * 3 + [20] * 3
    assert sorted(actions["max.queueOffset"].to_pylist()) == [19] * 3 + [39] * 3
    assert actions["min.storeTimestamp"].null_count == 0
    for path in table.file_uris():
        if "queueId=1/" in path:
            Path(path).unlink()
    import pyarrow.compute as pc

    assert table.to_pyarrow_dataset().to_table(filter=pc.field("queueId") == 2).num_rows == 40


def test_of_two_writers_one_wins_and_the_other_goes_on(world: World, log: Log) -> None:
    write(world, log)
    log.put(30)
    slow = run_of(world, log)
    done: list[int] = []
    read = slow._read

    def late(*args: Any) -> Any:
        position = read(*args)
        if not done:
            done.append(write(world, log).rows)
            log.put(30)
        return position

    slow._read = late  # type: ignore[method-assign]
    slow.catch_up()
    assert (done, slow.added.races) == ([30], 1)
    check_same(world, log)
    there = {Path(path).name for path in place(world).find().file_uris()}
    assert {path.name for path in world.folder.rglob("*.parquet")} == there


def test_files_that_others_rewrite_meanwhile_are_no_race(world: World, log: Log) -> None:
    for _ in range(3):
        write(world, log)
        log.put(30)
    run = run_of(world, log)
    read = run._read

    def late(*args: Any) -> Any:
        position = read(*args)
        place(world).find().optimize.compact()
        return position

    run._read = late  # type: ignore[method-assign]
    run.catch_up()
    assert run.added.races == 0
    check_same(world, log)


def test_ends_are_found_behind_commits_of_others(world: World, log: Log) -> None:
    write(world, log)
    for number in range(20):
        place(world).find().alter.set_table_description(f"{number}")
    place(world).find().create_checkpoint()
    log.put(30)
    assert write(world, log).rows == 30
    place(world).find().vacuum(0, dry_run=False, enforce_retention_duration=False)
    check_same(world, log)


@pytest.mark.parametrize("version", [0, 1])
def test_a_table_that_was_restored_gets_the_later_messages_again(
    world: World, log: Log, version: int
) -> None:
    write(world, log)
    log.put(30)
    write(world, log)
    place(world).find().restore(version)
    log.put(30)
    assert write(world, log).rows == (60 if version else 120)
    check_same(world, log)
    place(world).find().restore(3)  # the table as it was restored before
    write(world, log)
    check_same(world, log)


def test_a_table_that_was_restored_to_a_time_says_what_to_do(world: World, log: Log) -> None:
    write(world, log)
    table = place(world).find()
    table.alter.set_table_description("later")
    at = datetime.fromtimestamp(table.history()[-2]["timestamp"] / 1000, UTC)
    table.restore(at)
    log.put(30)
    with pytest.raises(TableSchemaError, match="restored to a time"):
        write(world, log)
    place(world).find().restore(1)
    assert write(world, log).rows == 30
    check_same(world, log)


@pytest.mark.parametrize("name", ["a b", "a%2Fb", "ä=+:?#", "\u5b57" * 80])
def test_brokers_with_odd_names_as_partitions(world: World, name: str) -> None:
    log = world.log(name)
    log.put(30)
    write(world, log, partition=("day", "broker"))
    log.put(30)
    write(world, log)
    check_same(world, log)


@pytest.mark.parametrize("new", [False, True])
def test_a_commit_that_cannot_be_synced_keeps_its_files(
    world: World, log: Log, monkeypatch: pytest.MonkeyPatch, new: bool
) -> None:
    def broken(path: Path) -> None:
        raise OSError(5, "Input/output error")

    if not new:
        write(world, log)
        log.put(30)
    with monkeypatch.context() as patch:
        patch.setattr(delta_commit, "sync_folder", broken)
        with pytest.raises(OutcomeUnknownError, match="Input/output error"):
            write(world, log)
    check_same(world, log)
    assert write(world, log).rows == 0


def test_the_entry_of_the_commit_is_on_the_disk(
    world: World, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(world, log)
    log.put(30)
    synced = record_syncs(monkeypatch)
    write(world, log)
    assert place(world).find().version() == 2
    folder = world.folder / "lake" / "mq" / "orders" / "_delta_log"
    at = synced.index(str(folder / f"{2:020}.json"))
    assert str(folder) in synced[at:]


def test_killed_at_each_step(world: World, log: Log) -> None:
    write(world, log)
    log.put(30)
    steps = 0
    for kill in range(20):
        with pytest.MonkeyPatch.context() as patch:
            die_at(
                patch,
                kill,
                (DurableFileIO, "new_output"),
                (DurableFileIO, "delete"),
                (delta_commit, "_attempt"),
                (delta_commit, "_sync"),
            )
            try:
                write(world, log)
            except Killed:
                steps += 1
            else:
                break
        before = len(rows_of(world))
        assert before in (60, 90)
        if before == 90:
            break
    assert steps == 3
    write(world, log)
    check_same(world, log)


def test_a_commit_whose_answer_is_lost_is_recognised(
    world: World, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt = delta_commit._attempt

    def lost(table: Any, staged: Any) -> None:
        attempt(table, staged)
        raise OSError("no answer")

    write(world, log)
    log.put(30)
    monkeypatch.setattr(delta_commit, "_attempt", lost)
    assert write(world, log).rows == 30
    check_same(world, log)


def test_a_commit_that_never_arrives_keeps_its_files(
    world: World, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(table: Any, staged: Any) -> None:
        raise OSError("no answer")

    write(world, log)
    log.put(30)
    files = set(world.folder.rglob("*.parquet"))
    with monkeypatch.context() as patch:
        patch.setattr(delta_commit, "_attempt", away)
        with pytest.raises(OutcomeUnknownError, match="nothing is lost or added twice"):
            write(world, log)
    assert len(set(world.folder.rglob("*.parquet")) - files) == 1
    assert write(world, log).rows == 30
    check_same(world, log)


def test_the_entry_of_a_commit_is_on_the_disk(
    world: World, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(world, log)
    log.put(30)
    synced = record_syncs(monkeypatch)
    write(world, log)
    entries = (world.folder / "lake" / "mq" / "orders" / delta_commit.LOG).glob("*.json")
    assert str(max(entries)) in synced


def test_a_log_that_cannot_be_read_after_a_lost_answer_keeps_the_files(
    world: World, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt = delta_commit._attempt

    def lost(table: Any, staged: Any) -> None:
        attempt(table, staged)
        patch.setattr(delta_commit, "has_commit", denied)
        raise OSError("no answer")

    def denied(*asked: Any) -> bool:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(delta_commit, "_attempt", lost)
        with pytest.raises(OutcomeUnknownError, match="Permission denied"):
            write(world, log)
    check_same(world, log)
    assert write(world, log).rows == 0


def test_a_full_disk_leaves_nothing(
    world: World, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Any, path: str) -> Any:
        raise OSError(28, "No space left on device")

    write(world, log)
    log.put(30)
    files = set(world.folder.rglob("*"))
    with monkeypatch.context() as patch:
        patch.setattr(DurableFileIO, "new_output", full)
        with pytest.raises(OSError, match="No space left"):
            write(world, log)
    assert set(world.folder.rglob("*")) == files
    assert write(world, log).rows == 30


def test_a_store_that_was_made_anew_is_refused(world: World, log: Log) -> None:
    import shutil

    write(world, log)
    shutil.rmtree(log.root)
    log.rows.clear()
    log.put(90)
    with pytest.raises(TableStoreError, match="was made anew"):
        write(world, log)


def test_tables_of_others_are_refused(world: World, log: Log) -> None:
    from deltalake import write_deltalake

    write_deltalake(place(world).uri, pa.table({"a": [1]}))
    with pytest.raises(TableSchemaError, match="was not made by pyrmq"):
        write(world, log)


def test_another_topic_is_refused(world: World, log: Log) -> None:
    write(world, log)
    with pytest.raises(TableSchemaError, match="is of topic orders, not of others"):
        write(world, log, topic="others")


def test_a_table_with_other_columns_is_refused(world: World, log: Log) -> None:
    source = StoreSource([str(log.root)], "orders", columns_of(("tags",)))
    DeltaRun(place(world), source, (), "zstd", waiting=impatient()).catch_up()
    with pytest.raises(TableSchemaError, match=r"has other columns: .*body"):
        write(world, log)


def test_a_log_that_no_longer_says_the_ends(
    world: World, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(world, log)
    real = delta.history
    monkeypatch.setattr(
        delta, "history", lambda table: [one for one in real(table) if ENDS not in one]
    )
    with pytest.raises(TableSchemaError, match="no longer says how far it goes"):
        write(world, log)


def test_storage_that_cannot_be_used_is_named_without_secrets(world: World, log: Log) -> None:
    options = {
        "aws_region": "x", "aws_access_key_id": "AKID", "aws_secret_access_key": "hush",
        "aws_endpoint": "http://127.0.0.1:1", "aws_allow_http": "true", "max_retries": "0",
        "retry_timeout": "0s",
    }  # fmt: skip
    source = StoreSource([str(log.root)], "orders", columns_of(()))
    there = Place("s3://bucket/lake", PLACE_OF, options)
    with pytest.raises(CatalogError) as raised:
        DeltaRun(there, source, (), "zstd", waiting=impatient()).catch_up()
    assert "s3://bucket/lake/mq/orders" in str(raised.value)
    assert "hush" not in str(raised.value)


def test_times_between_milliseconds_are_bounded_from_both_sides() -> None:
    from datetime import UTC, datetime

    from pyrmq.tables.delta_write import _bound

    time = datetime(2026, 11, 28, 1, 2, 3, 4567, UTC)
    assert _bound(time, up=False) == "2026-11-28T01:02:03.004Z"
    assert _bound(time, up=True) == "2026-11-28T01:02:03.005Z"
    early = datetime(1969, 12, 31, 23, 59, 59, 999500, UTC)
    assert _bound(early, up=False) == "1969-12-31T23:59:59.999Z"
    assert _bound(early, up=True) == "1970-01-01T00:00:00.000Z"
