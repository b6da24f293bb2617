"""`pyrmq pipeline table write`: the command, its errors, and the service that it may be."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from pyrmq.errors import PyrmqError
from tests.support.waiting import eventually
from tests.tables.commands import command, into
from tests.tables.making import TABLE, Log, World, check_same, rows_of

ROOT = Path(__file__).parents[3]


def run(*arguments: Any) -> Result:
    return command("write", *arguments)


def options(world: World, log: Log) -> list[str]:
    return [str(log.root), "-t", "orders", *into(world)]


def test_a_table_is_written_and_continued(world: World, log: Log) -> None:
    first = run(*options(world, log), "--partition", "day,queue", "--codec", "snappy")
    assert first.exit_code == 0, first.output
    assert "added 60 messages" in first.output
    assert "mq.orders has 60 offsets of 3 queues" in first.output
    log.put(5)
    second = run(*options(world, log))
    assert "added 5 messages" in second.output
    check_same(world, log)
    assert [field.name for field in world.table().spec().fields] == [
        "storeTimestamp_day",
        "queueId",
    ]


@pytest.mark.parametrize(
    ("more", "text"),
    [
        (["--partition", "queue"], "has the partitions day, not queue (leave out --partition"),
        (["--partition", "none"], "has the partitions day, not none"),
        (["--codec", "gzip"], "is zstd, not gzip"),
    ],
)
def test_what_a_table_was_not_created_with(
    world: World, log: Log, more: list[str], text: str
) -> None:
    run(*options(world, log), "--partition", "day", "--codec", "zstd")
    log.put(5)
    refused = run(*options(world, log), *more)
    assert refused.exit_code != 0
    assert text in refused.output
    assert len(rows_of(world)) == 60
    assert "added 5 messages" in run(*options(world, log), "--partition", "day").output


def test_a_delta_table_with_other_partitions(log: Log, tmp_path: Path) -> None:
    pytest.importorskip("deltalake")
    words = [
        str(log.root),
        "-t",
        "orders",
        "--format",
        "delta",
        "--catalog",
        str(tmp_path / "lake"),
    ]
    assert run(*words, "--table", TABLE, "--partition", "queue").exit_code == 0
    log.put(5)
    refused = run(*words, "--table", TABLE, "--partition", "day")
    assert "has the partitions queue, not day" in refused.output
    assert "added 5 messages" in run(*words, "--table", TABLE).output


@pytest.mark.parametrize(
    ("more", "text"),
    [
        (["--every", "10m", "--follow"], "give one of them"),
        (["--partition", "week"], "is no partition"),
        (["--columns", "body,nope"], "no such columns: nope"),
        (["--since", "2026-01-01"], "leave out --since"),
        (["-o", "subExpression=A"], "leave out -o subExpression"),
        (["-o", "verifyCRC=true"], "verifyCrc: 'true' (expected none, tail or all)"),
        (["-o", "batchRows=5"], "does not take -o batchRows"),
        (["-o", "storageOptions=x"], "no JSON object"),
        (["--every", "soon"], "is no duration"),
        (["--every", "0"], "is no duration"),
        (["--wait", "31d"], "is no duration"),
        (["--catalog-property", "token=geheim123"], "seen by all users of this machine"),
        (["--catalog-property", "s3.secret-access-key=geheim123"], "seen by all users"),
        (["-t", "nothing"], "is not in the store"),
        (["--table", "orders"], "name the table mq.orders"),
        (["-n", "127.0.0.1:1"], "and not both"),
    ],
)
def test_what_cannot_be_meant(world: World, log: Log, more: list[str], text: str) -> None:
    result = run(*options(world, log), *more)
    said = result.output + (str(result.exception) if result.exception else "")
    assert result.exit_code != 0
    assert text in said
    assert "geheim123" not in said
    assert isinstance(result.exception, PyrmqError | SystemExit)
    assert world.catalog.find(TABLE) is None


def test_the_help_has_no_options_that_are_refused() -> None:
    for name in ("write", "lag"):
        said = command(name, "--help").output
        assert "--broker-name" in said
        assert "--since" not in said
        assert "--until" not in said


def wait_for_rows(world: World, count: int) -> None:
    eventually(
        lambda: len(rows_of(world)) if world.catalog.find(TABLE) else 0,
        f"{count} rows",
        until=lambda n: n == count,
    )


def open_files(held: str) -> set[str]:
    """What a process has open; `held` is its folder fd in /proc."""
    found = set()
    for one in os.listdir(held):
        with contextlib.suppress(FileNotFoundError):  # it was closed meanwhile
            found.add(os.readlink(f"{held}/{one}"))
    return found


def service(world: World, log: Log, *more: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "pyrmq", "pipeline", "table", "write", *options(world, log), *more],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_service_follows_the_log_until_a_signal(world: World, log: Log, number: int) -> None:
    with service(world, log, "--every", "0.2") as process:
        try:
            eventually(
                lambda: world.catalog.find(TABLE) and len(rows_of(world)),
                "rows",
                until=lambda n: n == 60,
            )
            log.put(9)
            wait_for_rows(world, 69)
            process.send_signal(number)
            output, _ = process.communicate(timeout=30)
        finally:
            process.kill()
    assert process.returncode == 0, output.decode()
    assert b"added 69 messages" in output
    check_same(world, log)
    assert world.files() == world.referenced()


@pytest.mark.slow
def test_two_services_write_one_table(world: World, log: Log) -> None:
    """Each commit has one winner; the other deletes its files and continues behind it."""
    with (
        service(world, log, "--every", "0.05") as one,
        service(world, log, "--every", "0.05") as two,
    ):
        try:
            for _ in range(12):
                log.put(5)
                wait_for_rows(world, len(log.rows))
                check_same(world, log)
            for process in (one, two):
                process.send_signal(signal.SIGTERM)
            outputs = [process.communicate(timeout=30)[0].decode() for process in (one, two)]
        finally:
            one.kill()
            two.kill()
    assert [one.returncode, two.returncode] == [0, 0], outputs
    added = [int(re.search(r"added (\d+) message", text)[1]) for text in outputs]  # type: ignore[index]
    assert sum(added) == len(log.rows)
    assert world.files() == world.referenced()


@pytest.mark.slow
def test_a_service_waits_for_a_catalog_that_is_away(world: World, log: Log) -> None:
    """SQLite is locked by another program; the service goes on when it is not any more."""
    import sqlite3

    assert run(*options(world, log)).exit_code == 0
    log.put(9)
    database = world.folder / "catalog" / "catalog.db"
    other = sqlite3.connect(database, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with service(world, log, "--every", "0.2") as process:
        try:
            assert process.poll() is None
            held = f"/proc/{process.pid}/fd"
            eventually(
                lambda: open_files(held),
                "the service has opened the catalog",
                until=lambda paths: str(database) in paths,
            )
            other.execute("COMMIT")
            other.close()
            wait_for_rows(world, 69)
            process.send_signal(signal.SIGTERM)
            output, _ = process.communicate(timeout=30)
        finally:
            process.kill()
    assert process.returncode == 0, output.decode()
    check_same(world, log)
