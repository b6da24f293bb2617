"""Messages of an archive back into a topic, through the sink.

Each queue's messages are sent in their order, by one task. The sink sends at least once: a restore
that failed half-way and is started again repeats what it had sent. What brokers and clients keep in
properties for their own ends is left out, or a restored half would be a half again and a delayed
message wait once more; what users set, tags and keys stay.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

import click

from pyrmq.cli.access import Access, access_options
from pyrmq.model.names import NO_SEND_TOPICS
from spark_ext.jobs import report
from spark_ext.jobs.archive_read import opened, read_archive
from spark_ext.jobs.command import (
    Moment,
    Pair,
    archive_engine_options,
    connecting,
    run_alone,
)
from spark_ext.jobs.early import before, need_archive, need_servers
from spark_ext.jobs.engine import Engine, Table, Where, engine_of
from spark_ext.jobs.errors import JobError
from spark_ext.option_table import TABLE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_ext.jobs.archive_manifest import Head, Manifest
    from spark_ext.jobs.engine import SparkEngine

log = logging.getLogger(__name__)

NEEDED = ("body", "tags", "keys", "properties", "flag")
_COUNTS = """
SELECT topic, coalesce(octet_length(body), 0) > 0 AS whole, count(*) AS messages
FROM {archived} GROUP BY topic, coalesce(octet_length(body), 0) > 0
"""


def restore(
    where: Where,
    root: str,
    name_server: str,
    *,
    to: str | None = None,
    topics: Sequence[str] = (),
    days: Sequence[str] = (),
    since: int | None = None,
    until: int | None = None,
    keep_queues: bool = False,
    options: Mapping[str, str] | None = None,
) -> dict[str, int]:
    """Sends what an archive holds of these topics, days and store times to the topic that it is of,
    or to `to`; how many of each topic there were. `keep_queues`: into queues of the same number,
    which must exist. `options`: of the sink.

    Nothing is sent (JobError) if there are messages of a topic that nobody may send to. Messages
    without a body are left out with a warning: no broker takes them."""
    engine = engine_of(where)
    manifest = _checked(engine, root, topics)
    which: dict[str, Any] = {"topics": topics, "days": days, "since": since, "until": until}
    archived = read_archive(engine, root, **which)
    counts = counted(archived, to)
    if not counts:
        return counts
    given = {"nameServer": name_server, **(options or {})}
    if engine.name == "local":
        from spark_ext.jobs import restore_local

        runs = (read_archive(engine, root, runs=[number], **which) for number in manifest.numbers())
        restore_local.send(cast(Any, engine), runs, given, to, keep_queues)
    else:
        from spark_ext.jobs import restore_spark

        restore_spark.send(cast("SparkEngine", engine).session, archived, given, to, keep_queues)
    return counts


def counted(archived: Table, to: str | None = None) -> dict[str, int]:
    """How many messages of each topic can be sent."""
    rows = engine_of(archived).sql(_COUNTS, archived=archived).collect()
    counts = {row.topic: row.messages for row in rows if row.whole}
    check_topics(counts, to)
    empty = sum(row.messages for row in rows if not row.whole)
    if empty:
        log.warning("%d messages without a body are left out: no broker takes those", empty)
    return counts


def check_topics(topics: Iterable[str], to: str | None = None) -> None:
    """JobError if one of these is the broker's own, as sending would fail in the middle."""
    own = sorted(NO_SEND_TOPICS.intersection([to] if to else topics))
    if own:
        raise JobError(
            f"clients may not send to {', '.join(own)}: name the topics to restore, or another "
            "one for all of it"
        )


def check_head(head: Head, root: str) -> None:
    """JobError for an archive whose bodies are not those that were sent, or that lacks columns."""
    missing = [name for name in NEEDED if name not in head.columns]
    if missing:
        raise JobError(f"{root} was made without {', '.join(missing)}: it cannot be restored")
    # The flag that a body is compressed is not sent: a consumer would take the bytes as the body.
    given = {name.lower(): text for name, text in head.selection.items()}
    decompress = TABLE["decompress"]
    if not decompress.parse(given.get("decompress") or decompress.default or ""):
        raise JobError(
            f"{root} was made with decompress=false: bodies that were compressed are so in it, "
            "and it cannot be restored"
        )


def _checked(where: Where, root: str, topics: Sequence[str]) -> Manifest:
    """JobError for an archive that cannot be restored, or that has not one of these topics."""
    manifest, head = opened(where, root)
    check_head(head, root)
    known = {file.topic for run in manifest.runs() for file in run.files}
    for topic in topics:
        if topic not in known:
            raise JobError(f"{root} has no topic {topic}: {', '.join(sorted(known)) or 'none'}")
    return manifest


def chosen(
    where: Where,
    root: str,
    topics: Sequence[str] = (),
    days: Sequence[str] = (),
    since: int | None = None,
    until: int | None = None,
) -> Any:
    """What `restore` would send. JobError for a topic that the archive has not."""
    _checked(where, root, topics)
    return read_archive(where, root, topics=topics, days=days, since=since, until=until)


def _check(root: str, namesrv: str | None, dry_run: bool, **options: Any) -> None:
    """JobError where Spark would be started for nothing."""
    need_archive(root, (options["master"], options["conf"]))
    if not dry_run:
        if not namesrv:
            raise JobError("name the name server to send to: --namesrv")
        need_servers(namesrv)


@click.command("restore")
@click.argument("root", metavar="ARCHIVE")
@click.option("-n", "--namesrv", envvar="NAMESRV_ADDR", help="Name servers, `host:port;...`.")
@click.option("-t", "--topic", "topics", multiple=True, help="This topic only; may be repeated.")
@click.option("--to", help="Send all of it to this topic.")
@click.option(
    "--day",
    "days",
    multiple=True,
    type=click.DateTime(["%Y-%m-%d"]),
    help="This day (UTC) only; may be repeated.",
)
@click.option("--since", type=Moment(), help="Store time to begin at: ms, or ISO 8601 in UTC.")
@click.option("--until", type=Moment(), help="Store time to end before.")
@click.option("--keep-queues", is_flag=True, help="Into queues of the same number.")
@click.option("--dry-run", is_flag=True, help="Only count.")
@click.option(
    "-o", "--option", "options", type=Pair(), multiple=True, help="An option of the sink."
)
@access_options
@before(_check)
@archive_engine_options
def command(
    engine: Engine,
    root: str,
    namesrv: str | None,
    topics: tuple[str, ...],
    to: str | None,
    days: tuple[object, ...],
    since: int | None,
    until: int | None,
    keep_queues: bool,
    dry_run: bool,
    options: tuple[tuple[str, str], ...],
    access: Callable[[], Access],
) -> None:
    """Send the messages of ARCHIVE back to their topics, or all of them to one."""
    names = [f"{day:%Y-%m-%d}" for day in days]
    if dry_run:
        counts = counted(chosen(engine, root, topics, names, since, until), to)
    else:
        assert namesrv is not None  # _check
        counts = restore(
            engine,
            root,
            namesrv,
            to=to,
            topics=topics,
            days=names,
            since=since,
            until=until,
            keep_queues=keep_queues,
            options={**connecting(access), **dict(options)},
        )
    done = "would be sent" if dry_run else "sent"
    click.echo(f"{report.number(sum(counts.values()), 'message')} {done}")
    if counts:
        lines = [[topic, to or topic, count] for topic, count in sorted(counts.items())]
        click.echo("\n" + report.lines(("archived topic", "sent to", "messages"), lines))


if __name__ == "__main__":
    run_alone(command)
