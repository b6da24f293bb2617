"""Messages of an archive back into a topic, through the sink.

Each queue's messages are sent in their order, by one task. The sink sends at least once: a restore
that failed half-way and is started again repeats what it had sent. What brokers and clients keep in
properties for their own ends is left out, or a restored half would be a half again and a delayed
message wait once more; what users set, tags and keys stay.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click
from pyspark.sql import functions as F

from pyrmq.model.names import NO_SEND_TOPICS
from pyrmq.model.properties import SYSTEM_PROPERTIES
from spark_ext.jobs import report
from spark_ext.jobs.archive_read import opened, read_archive
from spark_ext.jobs.command import Moment, Pair, run_alone, spark_options
from spark_ext.jobs.early import before, need_archive, need_servers
from spark_ext.jobs.engine import FORMAT
from spark_ext.jobs.errors import JobError
from spark_ext.jobs.session import activate
from spark_ext.option_table import TABLE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame, SparkSession

    from spark_ext.jobs.archive_manifest import Head

log = logging.getLogger(__name__)

NEEDED = ("body", "tags", "keys", "properties", "flag")


def messages(archived: DataFrame, to: str | None = None, keep_queues: bool = False) -> DataFrame:
    """Rows for the sink, of all messages with a body: topic (`to` or its own), tags, keys,
    properties, body, flag, with `keep_queues` queueId; the rows of a queue in one partition and in
    order."""
    own = F.map_filter("properties", lambda name, _: ~name.isin("", *sorted(SYSTEM_PROPERTIES)))
    columns = [
        (F.lit(to) if to else F.col("topic")).alias("topic"),
        F.col("tags"),
        F.col("keys"),
        own.alias("properties"),
        F.col("body"),
        F.col("flag"),
    ]
    if keep_queues:
        columns.append(F.col("queueId"))
    return (
        archived.where(has_body())
        .repartition("topic", "brokerName", "queueId")
        .sortWithinPartitions("topic", "brokerName", "queueId", "commitLogOffset", "queueOffset")
        .select(columns)
    )


def restore(
    spark: SparkSession,
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
    archived = chosen(spark, root, topics, days, since, until)
    counts = counted(archived, to)
    if counts:
        activate(spark)
        writer = messages(archived, to, keep_queues).write.format(FORMAT).mode("append")
        writer.options(**{"nameServer": name_server, **(options or {})}).save()
    return counts


def counted(archived: DataFrame, to: str | None = None) -> dict[str, int]:
    """How many messages of each topic can be sent."""
    rows = archived.groupBy("topic", has_body().alias("whole")).count().collect()
    counts = {row.topic: row["count"] for row in rows if row.whole}
    check_topics(counts, to)
    empty = sum(row["count"] for row in rows if not row.whole)
    if empty:
        log.warning("%d messages have no body: they are left out, no broker takes them", empty)
    return counts


def check_topics(topics: Iterable[str], to: str | None = None) -> None:
    """JobError if one of these is the broker's own, as sending would fail in the middle."""
    own = sorted(NO_SEND_TOPICS.intersection([to] if to else topics))
    if own:
        raise JobError(
            f"clients may not send to {', '.join(own)}: name the topics to restore, or another "
            "one for all of it"
        )


def has_body() -> Column:
    return F.coalesce(F.length("body"), F.lit(0)) > 0


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


def chosen(
    spark: SparkSession,
    root: str,
    topics: Sequence[str] = (),
    days: Sequence[str] = (),
    since: int | None = None,
    until: int | None = None,
) -> DataFrame:
    """What `restore` would send. JobError for a topic that the archive has not."""
    manifest, head = opened(spark, root)
    check_head(head, root)
    known = {file.topic for run in manifest.runs() for file in run.files}
    for topic in topics:
        if topic not in known:
            raise JobError(f"{root} has no topic {topic}: {', '.join(sorted(known)) or 'none'}")
    return read_archive(spark, root, topics=topics, days=days, since=since, until=until)


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
@before(_check)
@spark_options
def command(
    spark: SparkSession,
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
) -> None:
    """Send the messages of ARCHIVE back to their topics, or all of them to one."""
    names = [f"{day:%Y-%m-%d}" for day in days]
    if dry_run:
        counts = counted(chosen(spark, root, topics, names, since, until), to)
    else:
        assert namesrv is not None  # _check
        counts = restore(
            spark,
            root,
            namesrv,
            to=to,
            topics=topics,
            days=names,
            since=since,
            until=until,
            keep_queues=keep_queues,
            options=dict(options),
        )
    done = "would be sent" if dry_run else "sent"
    click.echo(f"{report.number(sum(counts.values()), 'message')} {done}")
    if counts:
        lines = [[topic, to or topic, count] for topic, count in sorted(counts.items())]
        click.echo("\n" + report.lines(("archived topic", "sent to", "messages"), lines))


if __name__ == "__main__":
    run_alone(command)
