"""`pyrmq admin message queue-index|dump`: what stands in files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pyrmq.cli.admin.session import Session, printing, session

if TYPE_CHECKING:
    from pyrmq.admin.api import Admin
    from pyrmq.cli.admin.view import View


@click.command("queue-index")
@session()
@click.option("-t", "--topic", required=True, help="The topic.")
@click.option("--queue", type=click.IntRange(0, 65_535), required=True)
@click.option("--count", type=click.IntRange(1, 65_536), default=10, show_default=True)
@click.option("-b", "--broker", metavar="HOST:PORT", help="[default: the first that has the topic]")
@click.option("--group", help="With what this group wants of the topic.")
@click.argument("index", type=click.IntRange(0))
def queue_index(
    session: Session,
    topic: str,
    queue: int,
    count: int,
    broker: str | None,
    group: str | None,
    index: int,
) -> None:
    """Show the entries of a consume queue from INDEX on, as they stand in its file."""
    from pyrmq.cli.admin.view import Column, View

    async def work(admin: Admin) -> View:
        found = await admin.messages.queue_entries(
            topic, queue, index, count, broker=broker, group=group
        )
        notes = [f"the queue has {found.low} to before {found.high}, at {found.broker}"]
        if found.filter:
            notes.append(f"filter: {found.filter}")
        columns = (
            Column("INDEX", "index", right=True),
            Column("LOG OFFSET", "phys", right=True),
            Column("BYTES", "size", right=True),
            Column("TAG HASH", "tags_code", right=True),
        )
        return View(found, found.entries, columns, notes, "no entries")

    session.report(work)


@click.command()
@session()
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
def dump(session: Session, file: str) -> None:
    """Print the messages of a FILE of a compaction log, without their bodies."""
    from pyrmq.admin.queue_files import messages_of
    from pyrmq.cli.admin.view import moment, show_each
    from pyrmq.errors import PyrmqError

    try:
        with printing():
            for found in messages_of(file):
                row = {
                    "topic": found.topic,
                    "queue_id": found.queue_id,
                    "queue_offset": found.queue_offset,
                    "commit_log_offset": found.commit_log_offset,
                    "msg_id": found.msg_id,
                    "keys": found.keys,
                    "store_timestamp": found.store_timestamp,
                    "properties": found.properties,
                }
                show_each(
                    row,
                    session.output,
                    lambda r: (
                        f"{r['topic']} {r['queue_id']} {r['queue_offset']}  "
                        f"{moment(r['store_timestamp'])}  {r['msg_id']}  {' '.join(r['keys'])}"
                    ),
                )
    except (PyrmqError, OSError) as e:
        session.fail(e)
