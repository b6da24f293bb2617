"""`pyrmq store repair` and `rejoin`: queues and index built anew from the log, which is the truth;
a store that is cut to where it agrees with its master's.

What is replaced is moved aside, never deleted. The rebuilding itself is what every start of a
store does when its queues or its index are not there.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from pyrmq.cli.access import Access, access_options
from pyrmq.cli.store_checks import (
    DAMAGED,
    SOUND,
    CannotReadError,
    commit_log_option,
    finding_line,
    name_left_out,
    path_argument,
    progress,
    reading,
    refuse_if_open,
    result_lines,
    run_check,
    with_body,
)
from pyrmq.escape import escape, json_line

QUEUE_FILE = 6_000_000
"""RocketMQ's default of mappedFileSizeConsumeQueue, bytes."""
ENTRY = 20
STALLED = 120
"""Seconds without any progress of the index after which waiting for it is given up."""


@click.command()
@path_argument
@commit_log_option
@click.option("--queues", is_flag=True, help="Rebuild consumequeue/.")
@click.option("--index", is_flag=True, help="Rebuild index/.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option(
    "--queue-file-size",
    type=click.IntRange(ENTRY),
    help="mappedFileSizeConsumeQueue, where no queue file is left to show it.  [default: 6000000]",
)
@click.option(
    "--index-size",
    type=(click.IntRange(1), click.IntRange(2)),
    metavar="SLOTS ENTRIES",
    help="maxHashSlotNum and maxIndexNum, without an index file.  [default: 5000000 20000000]",
)
@click.pass_context
def repair(
    ctx: click.Context,
    path: Path,
    commit_log: tuple[Path, ...],
    queues: bool,
    index: bool,
    yes: bool,
    queue_file_size: int | None,
    index_size: tuple[int, int] | None,
) -> None:
    """Rebuild queues and index of PATH from its log; without options both.

    The old ones are moved to PATH/repair-YYYYMMDDHHMMSS, nothing is deleted. Refuses if the log
    itself is damaged where more follows: that only a copy of the file can mend. Ends with a check,
    whose exit code is this command's.
    """
    from pyrmq.engine import Verifier, inspect_store

    if not queues and not index:
        queues = index = True
    name_left_out(path)
    refuse_if_open(path)
    with reading():
        report = inspect_store(path, list(commit_log))
        verifier = Verifier(path, list(commit_log), log_only=True)
    refuse_what_cannot_be_rebuilt(report)
    found = run_check(path, verifier, "log")
    summary = verifier.summary()
    refuse_damaged_log(path, summary, found)
    click.echo(f"the log has {summary['records']} records up to {summary['maxPhyOffset']}")
    what = [name for name, on in (("consumequeue", queues), ("index", index)) if on]
    if not yes:
        click.confirm(f"Move {' and '.join(what)} aside and rebuild from the log?", abort=True)
    if report["checkpointFault"]:
        what.append("checkpoint")
    with reading(), locked(path):
        aside = move_aside(path, what)
        click.echo(f"moved to {aside}: {', '.join(what)}")
        save_tail(report, summary, path, commit_log, aside)
        if queues:
            kept = keep_expired(path, aside, report, verifier.records_by_queue())
            if kept:
                click.echo(f"{kept} queues keep their offsets: all their messages are expired")
    options = sizes(report, queue_file_size, index_size)
    if commit_log:
        options["commit_log_dirs"] = list(commit_log)
    rebuild(path, options, index)
    checker = Verifier(path, list(commit_log))
    for one in run_check(path, checker, "verify"):
        click.echo(finding_line(one))
    summary = checker.summary()
    for line in result_lines(summary):
        click.echo(escape(line))
    ctx.exit(DAMAGED if summary["damage"] else SOUND)


def refuse_what_cannot_be_rebuilt(report: dict[str, Any]) -> None:
    if report["rocksdb"]:
        raise CannotReadError("the queues are in a RocksDB, which pyrmq does not write")
    if report["commitLog"]["fileSize"] == 0:
        raise CannotReadError("there are no commit-log files to rebuild from")


def refuse_damaged_log(path: Path, summary: dict[str, Any], found: list[Any]) -> None:
    """A start would end the log at its first damage and cut off all that follows."""
    files = [one for one in found if one[0] == "damage" and one[1] == "file"]
    if not summary["damagedParts"] and not files:
        return
    for one in found:
        if one[0] == "damage":
            click.echo(finding_line(one))
    raise click.ClickException(
        f"{path}: the log itself is damaged and was left alone. Restore the named files from a "
        "replica or a backup; `pyrmq store dump` prints what can be read"
    )


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """The store's own lock, so that no broker starts in between."""
    with (path / "lock").open("a+b") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
        except OSError as e:
            if e.errno in (errno.EACCES, errno.EAGAIN):
                raise CannotReadError(f"{path}: a broker has this store open") from e
            raise
        yield


def sync_folder(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def move_aside(path: Path, names: list[str]) -> Path:
    """Renames what is there into a new folder, whose path is returned."""
    aside = path / datetime.now().strftime("repair-%Y%m%d%H%M%S")
    aside.mkdir()
    for name in names:
        if (path / name).exists():
            (path / name).rename(aside / name)
    sync_folder(aside)
    sync_folder(path)
    return aside


def save_tail(
    report: dict[str, Any],
    summary: dict[str, Any],
    path: Path,
    commit_log: tuple[Path, ...],
    aside: Path,
) -> None:
    """Copies what stands behind the log's end: the next start, which is part of the rebuilding,
    cuts it off as every start does."""
    end, size = summary["maxPhyOffset"], report["commitLog"]["fileSize"]
    left, at = summary["tailBytes"], end
    if not left:
        return
    target = aside / f"commitlog-tail-{end:020d}"
    with target.open("xb") as out:
        while left > 0:
            base = at - at % size
            count = min(left, base + size - at)
            name = f"{base:020d}"
            folders = commit_log or (path / "commitlog",)
            for file in (folder / name for folder in folders):
                if file.is_file():
                    with file.open("rb") as source:
                        source.seek(at - base)
                        copy_bytes(source, out, count)
                    break
            at, left = at + count, left - count
        os.fsync(out.fileno())
    click.echo(f"behind the log's end stood {summary['tailBytes']} bytes: copied to {target}")


def copy_bytes(source: Any, target: Any, count: int) -> None:
    while count > 0 and (piece := source.read(min(count, 1 << 20))):
        target.write(piece)
        count -= len(piece)


def keep_expired(
    path: Path, aside: Path, report: dict[str, Any], records: list[tuple[str, int, int]]
) -> int:
    """Puts the last file of queues back of which the log has no record any more.

    Without it such a queue would count from 0 again, below what its groups have committed.
    """
    alive = {(topic, queue) for topic, queue, count in records if count}
    kept = 0
    for q in report["queues"]:
        key = q["topic"], q["queueId"]
        if key in alive or not 0 < q["minOffset"] == q["maxOffset"]:
            continue
        folder = Path("consumequeue") / q["topic"] / str(q["queueId"])
        end = q["maxOffset"] * ENTRY
        bases = [int(f.name) for f in (aside / folder).iterdir() if f.name.isdecimal()]
        base = max((b for b in bases if b < end), default=None)
        if base is None:
            continue
        (path / folder).mkdir(parents=True)
        name = f"{base:020d}"
        with (aside / folder / name).open("rb") as old, (path / folder / name).open("xb") as new:
            copy_bytes(old, new, end - base)
            new.truncate(report["queueFileSize"])
            os.fsync(new.fileno())
        kept += 1
    return kept


def sizes(
    report: dict[str, Any], queue_file: int | None, index: tuple[int, int] | None
) -> dict[str, Any]:
    """File sizes to open the store with: what the files say, then what was given, then defaults."""
    options: dict[str, Any] = {
        "commit_log_file_size": report["commitLog"]["fileSize"],
        "consume_queue_file_size": report["queueFileSize"] or queue_file or QUEUE_FILE,
    }
    for folder, option in (
        ("batchconsumequeue", "batch_queue_file_size"),
        ("consumequeue_ext", "queue_ext_file_size"),
    ):
        some = next((Path(report["path"]) / folder).glob("*/*/" + "[0-9]" * 20), None)
        if some is not None and some.stat().st_size:
            options[option] = some.stat().st_size
    shapes = {(f["slots"], f["maxEntries"]) for f in report["index"] if f["slots"]}
    shape = shapes.pop() if len(shapes) == 1 else index
    if shape:
        options["index_slots"], options["index_entries"] = shape
    return options


def rebuild(path: Path, options: dict[str, Any], index: bool) -> None:
    """Opens and closes the store, which enters all of the log."""
    from pyrmq.engine import Store

    click.echo("rebuilding …")
    store = Store(path, **options)
    try:
        if index:
            wait_for_index(store)
        count = sum(1 for _ in store.queues())
        click.echo(f"rebuilt: {count} queues")
    finally:
        store.close()


def wait_for_index(store: Any) -> None:
    """Waits until the index has reached the log's end."""
    stats = store.stats()
    if "indexedWhere" not in stats:
        click.echo("this build writes no index: none was rebuilt", err=True)
        return
    start, end = stats["indexedWhere"], stats["maxPhyOffset"]
    at, moved = start, time.monotonic()
    with progress(end - start, "index") as bar:
        while at < end:
            time.sleep(0.05)
            before, at = at, store.stats()["indexedWhere"]
            if at > before:
                moved = time.monotonic()
                if bar is not None:
                    bar.update(at - before)
            elif time.monotonic() - moved > STALLED or store.failure():
                why = store.failure() or f"no progress for {STALLED} s"
                raise CannotReadError(f"the index is not complete: {why}")


OFFSETS = ("consumerOffset.json", "consumerOffset.json.bak")
"""They may count messages that are cut off; the slave copies its master's."""
MOST_LISTED = 100_000
"""Messages that are written to messages.jsonl at most."""


@click.command()
@path_argument
@commit_log_option
@click.option("--master", required=True, metavar="HOST:PORT", help="The broker that is master now.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@access_options
def rejoin(
    path: Path,
    commit_log: tuple[Path, ...],
    master: str,
    yes: bool,
    access: Callable[[], Access],
) -> None:
    """Make PATH the store of a slave of MASTER again.

    For a broker that was master, and whose log has records that the broker which replaced it never
    got. Finds the last record that both have, copies what stands behind it to a new folder
    PATH/rejoin-YYYYMMDDHHMMSS (the bytes, the messages as JSON lines, and the offsets of groups,
    which may count them), and cuts the log there.
    The next start, with brokerRole=SLAVE, brings queues and index in line; that the store was
    promoted once is forgotten. No broker may have it open.
    """
    from pyrmq.broker.replication import rejoin as work
    from pyrmq.broker.replication import role
    from pyrmq.engine import inspect_store
    from pyrmq.errors import PyrmqError
    from pyrmq.net.address import parse_address

    name_left_out(path)
    refuse_if_open(path)
    with reading():
        report = inspect_store(path, list(commit_log))
    facts = report["commitLog"]
    if not facts["fileSize"]:
        raise CannotReadError(f"{path}: there are no commit-log files: start the slave as it is")
    folders = list(commit_log) or [path / "commitlog"]
    log = work.Log.of(folders, facts["fileSize"], facts["maxPhyOffset"])
    try:
        address, connect = parse_address(master, "--master"), access()
        channel = work.check_is_master(address, connect.credentials, connect.tls)
        end = work.end_of_master(channel)
        apart = work.find(log, work.at_master(channel), end)
        channel.close()
    except PyrmqError as e:
        raise click.ClickException(f"{master}: {escape(e)}") from e
    if apart is None:
        raise click.ClickException(
            f"nothing of this log, which begins at {facts['minPhyOffset']}, is at {master}: it is "
            "no log of this broker name, or the master has deleted those files. Move PATH away and "
            "let the slave start empty"
        )
    if not apart.length:
        with locked(path), reading():
            role.forget(path)
        click.echo(
            f"the log ends at {apart.offset}, and {master} has all of it: nothing to put aside; "
            "start this broker with brokerRole=SLAVE"
        )
        return
    click.echo(
        f"the logs are the same up to {apart.offset}; behind it stand {apart.length} bytes, "
        f"{len(apart.records)} messages, which {master} has not"
    )
    if not yes:
        click.confirm("Put them aside and cut the log there?", abort=True)
    with locked(path), reading():
        aside = _put_aside(path, commit_log, log, apart)
        (path / "abort").write_text("accept-loss")
        sync_folder(path)
        work.cut(log, apart)
        role.forget(path)
    click.echo(f"put aside: {aside}; start this broker with brokerRole=SLAVE")


def _put_aside(path: Path, commit_log: tuple[Path, ...], log: Any, apart: Any) -> Path:
    from pyrmq.broker.replication import rejoin as work
    from pyrmq.engine import Records

    aside = path / datetime.now().strftime("rejoin-%Y%m%d%H%M%S")
    aside.mkdir()
    work.put_aside(log, apart, aside / f"commitlog-tail-{apart.offset:020d}")
    with (aside / "messages.jsonl").open("x") as out:
        for offset in apart.records[:MOST_LISTED]:
            found, _ = Records(path, list(commit_log), phys=offset).next(1, log.file_size)
            for one in found:
                if isinstance(one, dict):
                    out.write(json_line(with_body(one, "text")) + "\n")
    for name in OFFSETS:
        if (path / "config" / name).exists():
            (path / "config" / name).rename(aside / name)
            sync_folder(path / "config")
    sync_folder(aside)
    sync_folder(path)
    return aside
