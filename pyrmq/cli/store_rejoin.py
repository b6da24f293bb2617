"""`pyrmq store rejoin`: what a broker that comes back has and its master has not, put aside."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import click

from pyrmq.cli.store_bodies import with_body
from pyrmq.cli.store_checks import (
    CannotReadError,
    commit_log_option,
    path_argument,
    reading,
    refuse_if_open,
)
from pyrmq.cli.store_repair import locked, sync_folder
from pyrmq.escape import escape, json_line

OFFSETS = ("consumerOffset.json", "consumerOffset.json.bak")
"""They may count messages that are cut off; the slave copies its master's."""
MOST_LISTED = 100_000
"""Messages that are written to messages.jsonl at most."""


@click.command()
@path_argument
@commit_log_option
@click.option("--master", required=True, metavar="HOST:PORT", help="The broker that is master now.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
def rejoin(path: Path, commit_log: tuple[Path, ...], master: str, yes: bool) -> None:
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

    refuse_if_open(path)
    with reading():
        report = inspect_store(path, list(commit_log))
    facts = report["commitLog"]
    if not facts["fileSize"]:
        raise CannotReadError(f"{path}: there are no commit-log files: start the slave as it is")
    folders = list(commit_log) or [path / "commitlog"]
    log = work.Log.of(folders, facts["fileSize"], facts["maxPhyOffset"])
    try:
        channel = work.check_is_master(parse_address(master, "--master"))
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
