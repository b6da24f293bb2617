"""Topics to Parquet, partitioned by topic and day, each message exactly once.

The archive is a stream that runs until it has caught up, or on and on (`follow`). Which range of
the log a run is stands in the checkpoint before it begins, and a run that did not finish gets the
same range again. A run is written to a folder of its own, and belongs to the archive when its
manifest exists (`archive_manifest`). So a kill at any moment costs at most the work of one run:
there is no gap and no repeat. A day is that of the store time, in UTC."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import click

from pyrmq.escape import escape
from spark_ext.jobs import report
from spark_ext.jobs.archive_manifest import CODECS, Archived, Head
from spark_ext.jobs.archive_read import gaps, leftovers, opened, verify
from spark_ext.jobs.command import (
    Output,
    archive_engine_options,
    output_options,
    run_alone,
    source_options,
)
from spark_ext.jobs.early import before, need_archive, need_servers
from spark_ext.jobs.engine import Engine, Where, engine_of
from spark_ext.jobs.errors import JobError
from spark_ext.jobs.source import Source
from spark_ext.option import Query
from spark_ext.option_table import OPTIONS
from spark_ext.schema import COLUMNS, WITH_PROPERTIES

if TYPE_CHECKING:
    from spark_ext.jobs.archive_manifest import Archived
    from spark_ext.jobs.engine import SparkEngine


def table(where: Where, root: str) -> Any:
    """An archive's files: run, topic, day, path, rows, bytes, first and last store time."""
    manifest, _ = opened(where, root)
    rows = [
        (run.run, f.topic, f.day, f.path, f.rows, f.fileBytes, f.firstTimestamp, f.lastTimestamp)
        for run in manifest.runs()
        for f in run.files
    ]
    engine = engine_of(where)
    schema = (
        "run int, topic string, day string, path string, `rows` bigint, bytes bigint, "
        "`first` bigint, `last` bigint"
    )
    return engine.sql(
        """SELECT run, topic, CAST(day AS date) AS day, path, `rows`, bytes,
            timestamp_millis(`first`) AS firstTimestamp, timestamp_millis(`last`) AS lastTimestamp
        FROM {files}""",
        files=engine.values(rows, schema),
    )


def summary(where: Where, root: str, added: Archived | None = None, top: int = 20) -> str:
    """What an archive holds, by topic, and what a call added."""
    manifest, _ = opened(where, root)
    runs = list(manifest.runs())
    text = []
    if added is not None:
        text.append(
            f"added {report.number(added.rows, 'message')}, {report.size(added.file_bytes)} of "
            f"Parquet, in {report.number(len(added.runs), 'run')}"
        )
    days = sorted({f.day for run in runs for f in run.files})
    text.append(
        f"{root} holds {report.number(sum(run.rows for run in runs), 'message')}, "
        f"{report.size(sum(run.fileBytes for run in runs))}, of {report.number(len(runs), 'run')}"
        + (f", {days[0]} to {days[-1]}" if days else "")
    )
    topics: dict[str, list[int]] = {}
    for file in (f for run in runs for f in run.files):
        sums = topics.setdefault(file.topic, [0, 0, 0])
        for at, value in enumerate((file.rows, file.fileBytes, 1)):
            sums[at] += value
    queues: dict[str, set[tuple[str, int]]] = {}
    for q in (q for run in runs for q in run.queues):
        queues.setdefault(q.topic, set()).add((q.brokerName, q.queueId))
    rows = sorted(topics.items(), key=lambda item: (-item[1][0], item[0]))
    if rows:
        lines = [
            [topic, count, report.size(size), files, len(queues.get(topic, ()))]
            for topic, (count, size, files) in rows[:top]
        ]
        titles = ("topic", "messages", "bytes", "files", "queues")
        text += ["", report.lines(titles, lines)]
    if len(rows) > top:
        text.append(f"... and {report.number(len(rows) - top, 'more topic')}")
    rest = leftovers(manifest)
    if rest:
        text.append(f"of a run that did not finish, to be replaced: {', '.join(rest)}")
    return "\n".join(text)


def plot(where: Where, root: str, path: str, note: str = "") -> None:
    """Messages by day, coloured by topic (the eight largest, and the others)."""
    from spark_ext.jobs.plot import columns

    manifest, _ = opened(where, root)
    counts: dict[tuple[str, str], int] = {}
    sums: dict[str, int] = {}
    for file in (f for run in manifest.runs() for f in run.files):
        key = file.topic, file.day
        counts[key] = counts.get(key, 0) + file.rows
        sums[file.topic] = sums.get(file.topic, 0) + file.rows
    large = sorted(sums, key=lambda topic: (-sums[topic], topic))[:8]
    days = sorted({day for _, day in counts})[-40:]
    series: dict[str, list[float]] = {t: [counts.get((t, d), 0) for d in days] for t in large}
    others = [sum(n for (t, d), n in counts.items() if d == day and t not in large) for day in days]
    if any(others):
        series["others"] = [float(count) for count in others]
    columns(path, "Archived messages by day", days, series, "messages", note=note)


NEEDED = (
    "topic", "brokerName", "queueId", "queueOffset", "commitLogOffset", "storeTimestamp",
)  # fmt: skip
"""Columns that an archive always has: the manifest is made of them."""
GAPS = 3
"""Exit code of --verify where files are whole and messages are missing; 1 is damage."""
KEPT = frozenset(
    option.name.lower()
    for option in OPTIONS
    if option.name == "decompress"
    or (
        option.selects
        and Query.STREAM in option.where
        and option.name != "startingOffsetsByTimestampStrategy"
    )
)
"""Options that say which messages an archive has and what they look like: later runs must have the
same. A store may move, and limits may change."""


def archive(
    where: Where,
    source: Source,
    root: str,
    *,
    topics: Sequence[str] = (),
    pattern: str | None = None,
    system: bool = False,
    columns: Sequence[str] = WITH_PROPERTIES,
    codec: str = "snappy",
    follow: float | None = None,
) -> Archived:
    """Adds to the archive `root` (a path; with Spark any that it writes to) what it does not have
    yet, and returns; with `follow` it continues, checking every so many seconds, until it is
    interrupted.

    The same `topics`, `pattern`, `system`, `columns` and options must be given each time: they are
    kept, and others are a JobError, as is a checkpoint that does not fit the manifests. One
    process may write to an archive at a time; one that an engine began goes on with the other."""
    engine = engine_of(where)
    columns = tuple(columns) + tuple(name for name in NEEDED if name not in columns)
    options = source.stream_options(topics, pattern, system)
    selection = {name: text for name, text in options.items() if name.lower() in KEPT}
    head = Head(selection, columns)
    if engine.name == "local":
        from spark_ext.jobs import archive_local

        here = archive_local.Stream(options, source.paths, columns)
        return archive_local.archive_stream(here, root, head, codec=codec, follow=follow)
    from spark_ext.jobs.archive_spark import archive_stream

    spark = cast("SparkEngine", engine).session
    stream = source.stream(spark, columns, topics=topics, pattern=pattern, system=system)
    return archive_stream(spark, stream, root, head, codec=codec, follow=follow)


def _check(source: Source | None, root: str, check: bool, **options: Any) -> None:
    """JobError where Spark would be started for nothing."""
    if check:
        need_archive(root, (options["master"], options["conf"]))
    elif source is None:
        raise JobError("name the stores to read, or a name server")
    elif options["wanted"] != "local":
        need_servers(source.name_server)


@click.command("archive")
@source_options
@click.option("--to", "root", required=True, help="The archive: a path, or a URI for Spark.")
@click.option("-t", "--topic", "topics", multiple=True, help="This topic only; may be repeated.")
@click.option("--pattern", help="Topics whose whole name matches this regular expression.")
@click.option("--system", is_flag=True, help="The broker's own topics as well.")
@click.option("--columns", help="Columns to keep, with commas; `all` for all.")
@click.option("--codec", type=click.Choice(CODECS), default="snappy", show_default=True)
@click.option(
    "--follow", type=click.FloatRange(0), help="Continue, checking every so many seconds."
)
@click.option(
    "--verify",
    "check",
    is_flag=True,
    help="Only check what the archive holds: exit code 1 for damage, 3 for gaps.",
)
@click.option("--top", type=click.IntRange(1), default=20, show_default=True)
@before(_check)
@output_options()
@archive_engine_options
def command(
    engine: Engine,
    source: Source | None,
    output: Output,
    root: str,
    topics: tuple[str, ...],
    pattern: str | None,
    system: bool,
    columns: str | None,
    codec: str,
    follow: float | None,
    check: bool,
    top: int,
) -> None:
    """Add to the archive what STORE has and it has not: Parquet by topic and day.

    Run it again for what has come since; a run that was killed is taken up where it was. The table
    has one row per file of the archive."""
    if check:
        problems = verify(engine, root)
        click.echo(summary(engine, root, top=top))
        if problems:
            raise JobError("the archive is damaged: " + "; ".join(problems))
        missing = gaps(engine, root)
        if missing:
            click.echo("\nThe archive is as it was written, but messages are missing:")
            click.echo("\n".join(map(escape, missing)))
            raise click.exceptions.Exit(GAPS)
        click.echo("every file is as its manifest says, no message is there twice or missing")
        return
    assert source is not None  # _check
    wanted: Sequence[str] = WITH_PROPERTIES
    if columns is not None:
        every = [name for name in COLUMNS if name != "propertiesRaw"]
        wanted = every if columns == "all" else [n.strip() for n in columns.split(",")]
    added = archive(
        engine,
        source,
        root,
        topics=topics,
        pattern=pattern,
        system=system,
        columns=wanted,
        codec=codec,
        follow=follow,
    )
    click.echo(summary(engine, root, added, top))
    output.write(engine, table(engine, root))
    output.draw(lambda path, note: plot(engine, root, path, note), f"archive {escape(root)}")


if __name__ == "__main__":
    run_alone(command)
