"""Topics to Parquet, partitioned by topic and day, each message exactly once.

The archive is a stream that runs until it has caught up (AvailableNow), or on and on (`follow`).
Spark notes in the checkpoint which range of the log a batch is before it begins, and gives a batch
that did not finish the same range again. A batch is written to a folder of its own, and belongs to
the archive when its manifest exists (`archive_manifest`). So a kill at any moment costs at most
the work of one batch: there is no gap and no repeat. A day is that of the store time, in UTC.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote

import click
from pyspark.sql import functions as F

from pyrmq.escape import escape
from spark_ext import times
from spark_ext.jobs.archive_manifest import (
    CHECKPOINT,
    HEAD,
    MANIFESTS,
    Archived,
    File,
    Head,
    LogRange,
    Manifest,
    QueueRange,
    Run,
)
from spark_ext.jobs.archive_read import STRICT, gaps, stored_schema, verify
from spark_ext.jobs.archive_report import plot, summary, table
from spark_ext.jobs.command import Output, output_options, run_alone, source_options, spark_options
from spark_ext.jobs.early import before, need_archive, need_servers
from spark_ext.jobs.engine import SparkEngine, Table
from spark_ext.jobs.errors import JobError
from spark_ext.jobs.files import Folder
from spark_ext.jobs.source import Source
from spark_ext.option import Query
from spark_ext.option_table import OPTIONS
from spark_ext.schema import COLUMNS, WITH_PROPERTIES

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

NEEDED = (
    "topic", "brokerName", "queueId", "queueOffset", "commitLogOffset", "storeTimestamp",
)  # fmt: skip
"""Columns that an archive always has: the manifest is made of them."""
CODECS = ("snappy", "zstd", "gzip", "lz4", "none")
GAPS = 3
"""Exit code of --verify where files are whole and messages are missing; 1 is damage."""
DAY_MS = 86_400_000
UNIQUE = ("body", "keys", "commitLogOffset")
"""Columns whose values hardly repeat: building a dictionary of them would be for nothing."""
OPEN_FILES = 100
"""Files of topics and days that a task writes at a time without sorting its rows first."""
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


def day_of(time: str) -> Column:
    """The UTC day of a timestamp column, whatever the session's time zone is; the first or the last
    that Python knows for times beyond."""
    first, last = (day.toordinal() - date(1970, 1, 1).toordinal() for day in (date.min, date.max))
    number = f"greatest({first}L, least({last}L, unix_millis({time}) div {DAY_MS}))"
    return F.expr(f"date_from_unix_date(int({number}))")


def archive(
    spark: SparkSession,
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
    """Adds to the archive `root` (any path that Spark writes to) what it does not have yet, and
    returns; with `follow` it continues, checking every so many seconds, until it is interrupted.

    The same `topics`, `pattern`, `system`, `columns` and options must be given each time: they are
    kept, and others are a JobError, as is a checkpoint that does not fit the manifests. One
    process may write to an archive at a time."""
    columns = tuple(columns) + tuple(name for name in NEEDED if name not in columns)
    stream = source.stream(spark, columns, topics=topics, pattern=pattern, system=system)
    options = source.stream_options(topics, pattern, system)
    selection = {name: text for name, text in options.items() if name.lower() in KEPT}
    return archive_stream(spark, stream, root, Head(selection, columns), codec=codec, follow=follow)


def archive_stream(
    spark: SparkSession,
    stream: DataFrame,
    root: str,
    head: Head,
    *,
    codec: str = "snappy",
    follow: float | None = None,
) -> Archived:
    """The same for a streaming frame with the columns of `head`, NEEDED among them."""
    if codec not in CODECS:
        raise JobError(f"no codec {codec}: {', '.join(CODECS)}")
    manifest = Manifest(Folder(spark, root))
    with _locked(manifest.folder):
        _agree(manifest, head)
        manifest.check_checkpoint()
        added: list[Run] = []

        def write(batch: DataFrame, number: int) -> None:
            if manifest.has(number):
                return  # it was finished, only Spark did not come to note it
            run = _write_run(batch, number, manifest, codec)
            if run.rows:
                added.append(replace(run, log={}, queues=(), files=()))

        writer = stream.writeStream.foreachBatch(write).option(
            "checkpointLocation", manifest.folder.path_of(CHECKPOINT)
        )
        if follow is None:
            query = writer.trigger(availableNow=True).start()
        else:
            query = writer.trigger(processingTime=f"{max(round(follow * 1000), 0)} ms").start()
        try:
            query.awaitTermination()
        except KeyboardInterrupt:
            if follow is None:
                raise
        finally:
            query.stop()
    return Archived(root, added)


@contextmanager
def _locked(folder: Folder) -> Iterator[None]:
    """Keeps a second process out, where the archive lies on a local disk."""
    path = folder.local_path()
    if path is None:
        yield
        return
    os.makedirs(os.path.join(path, MANIFESTS), exist_ok=True)
    with open(os.path.join(path, MANIFESTS, "_lock"), "w", encoding="ascii") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise JobError(f"{path}: another process is archiving there") from None
        yield


def _agree(manifest: Manifest, head: Head) -> None:
    there = manifest.head()
    if there is None:
        if manifest.numbers():
            raise JobError(f"{manifest.folder.path_of(HEAD)} is missing: restore it")
        manifest.folder.create(HEAD, head.to_json())
        return
    for what, old, new in (
        ("selection", _shown(there.selection), _shown(head.selection)),
        ("columns", list(there.columns), list(head.columns)),
    ):
        if old != new:
            raise JobError(
                f"{manifest.folder.uri} was begun with {what} {old}, not {new}: ask for the same, "
                "or begin another archive"
            )


def _shown(selection: Mapping[str, str]) -> dict[str, str]:
    """With times as people write them."""
    return {
        name: times.shown(int(text))
        if name.lower() in ("startingtimestamp", "endingtimestamp") and text.isdecimal()
        else text
        for name, text in selection.items()
    }


def _write_run(batch: DataFrame, number: int, manifest: Manifest, codec: str) -> Run:
    folder, data = manifest.folder, manifest.data(number)
    # What a killed run left here would be taken over by Spark's committer.
    folder.delete(data)
    spark = batch.sparkSession
    spark.conf.set("spark.sql.maxConcurrentOutputFileWriters", str(OPEN_FILES))
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    (
        batch.withColumn("day", day_of("storeTimestamp"))
        .write.partitionBy("topic", "day")
        .option("compression", codec)
        .options(**{f"parquet.enable.dictionary#{name}": "false" for name in UNIQUE})
        .parquet(folder.path_of(data))
    )
    run = _describe(spark, number, manifest)
    if not run.rows:
        folder.delete(data)
    check_files(folder, data, run)
    manifest.add(run)
    return run


def check_files(folder: Folder, data: str, run: Run) -> None:
    """JobError unless a run's files are as it says: a second writer deletes what the first has not
    yet acknowledged, and the archive's file system may have no lock to keep it out."""
    there = {f"{data}/{name}": size for name, size in folder.sizes(data)}
    for file in run.files:
        if there.get(file.path) != file.fileBytes:
            raise JobError(
                f"{folder.path_of(file.path)} is not as it was written: is another process at "
                "work here?"
            )


def _describe(spark: SparkSession, number: int, manifest: Manifest) -> Run:
    """A run's manifest, from what stands in its files: what is not in them is not claimed."""
    data = manifest.data(number)
    reader = spark.read.schema(stored_schema(NEEDED)).options(**STRICT)
    frame = reader.parquet(manifest.folder.path_of(data))
    rows = (
        frame.groupBy(
            F.col("_metadata.file_path").alias("path"), "topic", "day", "brokerName", "queueId"
        )
        .agg(
            F.count("*").alias("rows"),
            F.min("queueOffset").alias("first"),
            F.max("queueOffset").alias("last"),
            F.min("commitLogOffset").alias("logFirst"),
            F.max("commitLogOffset").alias("logLast"),
            F.unix_millis(F.min("storeTimestamp")).alias("timeFirst"),
            F.unix_millis(F.max("storeTimestamp")).alias("timeLast"),
        )
        .collect()
    )
    sizes = dict(manifest.folder.sizes(data))
    files: dict[str, File] = {}
    queues: dict[tuple[str, str, int], QueueRange] = {}
    log: dict[str, LogRange] = {}
    for r in rows:
        name = unquote(r.path).rpartition(f"/{data}/")[2]
        f = files.get(name)
        files[name] = File(
            f"{data}/{name}",
            r.topic,
            r.day.isoformat(),
            r["rows"] + (f.rows if f else 0),
            sizes[name],
            min(r.timeFirst, f.firstTimestamp) if f else r.timeFirst,
            max(r.timeLast, f.lastTimestamp) if f else r.timeLast,
        )
        key = r.topic, r.brokerName, r.queueId
        q = queues.get(key)
        queues[key] = QueueRange(
            *key,
            min(r["first"], q.first) if q else r["first"],
            max(r["last"], q.last) if q else r["last"],
            r["rows"] + (q.rows if q else 0),
        )
        there = log.get(r.brokerName)
        log[r.brokerName] = LogRange(
            min(r.logFirst, there.first) if there else r.logFirst,
            max(r.logLast, there.last) if there else r.logLast,
        )
    return Run(
        run=number,
        finished=datetime.now(UTC).isoformat(timespec="milliseconds"),
        rows=sum(f.rows for f in files.values()),
        fileBytes=sum(f.fileBytes for f in files.values()),
        log=log,
        queues=[queues[key] for key in sorted(queues)],
        files=[files[name] for name in sorted(files)],
    )


def _check(source: Source | None, root: str, check: bool, **options: Any) -> None:
    """JobError where Spark would be started for nothing."""
    if check:
        need_archive(root, (options["master"], options["conf"]))
    elif source is None:
        raise JobError("name the stores to read, or a name server")
    else:
        need_servers(source.name_server)


@click.command("archive")
@source_options
@click.option("--to", "root", required=True, help="The archive: any path or URI that Spark writes.")
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
@spark_options
def command(
    spark: SparkSession,
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
        problems = verify(spark, root)
        click.echo(summary(spark, root, top=top))
        if problems:
            raise JobError("the archive is damaged: " + "; ".join(problems))
        missing = gaps(spark, root)
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
        spark,
        source,
        root,
        topics=topics,
        pattern=pattern,
        system=system,
        columns=wanted,
        codec=codec,
        follow=follow,
    )
    click.echo(summary(spark, root, added, top))
    output.write(SparkEngine(spark), cast(Table, table(spark, root)))
    output.draw(lambda path: plot(spark, root, path))


if __name__ == "__main__":
    run_alone(command)
