"""Reading an archive, and checking it: by its manifests, so that what a killed run left is not
seen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import unquote

from pyspark.sql import Window
from pyspark.sql import functions as F

from spark_ext.jobs import archive_gaps
from spark_ext.jobs.archive_manifest import MANIFESTS, Head, Manifest, Run
from spark_ext.jobs.engine import schema_of
from spark_ext.jobs.errors import JobError
from spark_ext.jobs.files import Folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MAX_PROBLEMS = 100
NEEDED = ("brokerName", "queueId", "queueOffset")
"""Columns that tell where there are gaps."""
STRICT = {"ignoreMissingFiles": "false", "ignoreCorruptFiles": "false"}
"""A session may be set to read past files that are gone or damaged: not those of an archive."""


def stored_schema(columns: Sequence[str], *partitions: str) -> str:
    """The schema of an archive's files with what their folders say; topic is one of those."""
    inside = [name for name in columns if name != "topic"]
    return ", ".join((schema_of(inside), *partitions, "topic string", "day date"))


def opened(spark: SparkSession, root: str) -> tuple[Manifest, Head]:
    """An archive that exists."""
    manifest = Manifest(Folder(spark, root))
    head = manifest.head()
    if head is None:
        raise JobError(f"{manifest.folder.uri} is no archive: it has no {MANIFESTS}/archive.json")
    return manifest, head


def read_archive(
    spark: SparkSession,
    root: str,
    *,
    topics: Sequence[str] = (),
    days: Sequence[str] = (),
    since: int | None = None,
    until: int | None = None,
) -> DataFrame:
    """The messages of an archive: its columns, run (int) and day (date). Topics, days (2026-01-31,
    UTC) and store times (ms, `until` excluded) narrow it; files that cannot hold any of that are
    not opened."""
    manifest, head = opened(spark, root)
    if since is not None or until is not None:
        _need(head, "storeTimestamp")
    schema = stored_schema(head.columns, "run int")
    # By file: what else may lie in a folder is not of the archive.
    files = [
        file.path
        for run in manifest.runs()
        for file in run.files
        if (not topics or file.topic in topics)
        and (not days or file.day in days)
        and (since is None or file.lastTimestamp >= since)
        and (until is None or file.firstTimestamp < until)
    ]
    if not files:
        return spark.createDataFrame([], schema).select(*head.columns, "run", "day")
    reader = spark.read.schema(schema).options(**STRICT).option("basePath", manifest.folder.uri)
    frame = reader.parquet(*[manifest.folder.path_of(name) for name in files])
    if since is not None:
        frame = frame.where(F.unix_millis("storeTimestamp") >= since)
    if until is not None:
        frame = frame.where(F.unix_millis("storeTimestamp") < until)
    return frame.select(*head.columns, "run", "day")


def _need(head: Head, column: str) -> None:
    if column not in head.columns:
        raise JobError(f"the archive has no column {column}")


def leftovers(manifest: Manifest) -> list[str]:
    """Folders of runs that did not finish. The next run replaces them."""
    whole = {manifest.data(number) for number in manifest.numbers()}
    return [n for n in manifest.folder.names() if n.startswith("run=") and n not in whole]


def verify(spark: SparkSession, root: str) -> list[str]:
    """What is wrong with an archive: files that are missing, foreign or hold other counts than the
    manifest says; messages that are in it twice; checkpoint and manifests that do not fit. At most
    100 are listed."""
    manifest, _ = opened(spark, root)
    problems: list[str] = []
    try:
        manifest.check_checkpoint()
    except JobError as e:
        problems.append(str(e))
    there: dict[str, int] = {}
    for run in manifest.runs():
        _check_files(manifest, run, problems)
        there |= {file.path: file.rows for file in run.files}
    if problems:
        return problems[:MAX_PROBLEMS]
    frame = read_archive(spark, root)
    counts = frame.groupBy(F.col("_metadata.file_path").alias("path")).count().collect()
    for row in counts:
        name = unquote(row.path).rpartition("/run=")[2]
        wanted = there.pop(f"run={name}", 0)
        if row["count"] != wanted:
            problems.append(f"run={name} has {row['count']} rows, the manifest says {wanted}")
    problems += [f"{name}: {rows} rows are gone" for name, rows in there.items() if rows]
    place = ["brokerName", "commitLogOffset", "topic", "queueId", "queueOffset"]
    twice = frame.groupBy(place).count().where("count > 1").limit(MAX_PROBLEMS).collect()
    for row in twice:
        problems.append(
            f"{row.brokerName} {row.topic}-{row.queueId}@{row.queueOffset} is there "
            f"{row['count']} times"
        )
    return problems[:MAX_PROBLEMS]


def gaps(spark: SparkSession, root: str) -> list[str]:
    """Messages that should be in an archive and are not, at most 100 lines; nothing for one that
    was made with a filter by tag, whose gaps are meant."""
    manifest, head = opened(spark, root)
    if archive_gaps.is_filtered(head):
        return []
    found, backwards = archive_gaps.find(manifest.runs())
    lines = list(backwards)
    for gap in found:
        if len(lines) >= MAX_PROBLEMS:
            break
        whole = gap.missing == gap.last - gap.first + 1
        parts = [gap] if whole else archive_gaps.exact(gap, _offsets(spark, manifest, gap))
        lines += [str(part) for part in parts]
    return lines[:MAX_PROBLEMS]


def _offsets(spark: SparkSession, manifest: Manifest, gap: archive_gaps.Gap) -> list[int]:
    """Offsets around the missing ones of a run and queue, in order: a gap's two neighbours each."""
    files = [file.path for file in manifest.run(gap.run).files if file.topic == gap.topic]
    reader = spark.read.schema(stored_schema(NEEDED)).options(**STRICT)
    frame = reader.parquet(*[manifest.folder.path_of(name) for name in files])
    queue = (F.col("brokerName") == gap.brokerName) & (F.col("queueId") == gap.queueId)
    offsets = frame.where(queue).select("queueOffset").distinct()
    order = Window.orderBy("queueOffset")
    near = offsets.select(
        "queueOffset",
        F.lag("queueOffset").over(order).alias("before"),
        F.lead("queueOffset").over(order).alias("after"),
    ).where("before IS NULL OR queueOffset > before + 1 OR after > queueOffset + 1")
    rows = near.orderBy("queueOffset").limit(2 * MAX_PROBLEMS).collect()
    return [row.queueOffset for row in rows]


def _check_files(manifest: Manifest, run: Run, problems: list[str]) -> None:
    data = manifest.data(run.run)
    found = {
        f"{data}/{name}": size
        for name, size in manifest.folder.sizes(data)
        if not name.rpartition("/")[2].startswith(("_", "."))
    }
    for file in run.files:
        size = found.pop(file.path, None)
        if size is None:
            problems.append(f"{file.path} is missing")
        elif size != file.fileBytes:
            problems.append(f"{file.path} has {size} bytes, the manifest says {file.fileBytes}")
    problems += [f"{name} is not in the manifest" for name in found]
