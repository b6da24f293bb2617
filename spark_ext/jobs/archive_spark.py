"""Writing an archive by Spark: a streaming query, whose micro-batches are the runs.

Spark notes in the checkpoint which range of the log a batch is before it begins, and gives a batch
that did not finish the same range again.
"""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING
from urllib.parse import unquote

from pyspark.sql import functions as F

from spark_ext.jobs import archive_scan
from spark_ext.jobs.archive_manifest import (
    CHECKPOINT,
    OPEN_FILES,
    UNIQUE,
    Archived,
    Head,
    Manifest,
    Run,
    brief,
    finish,
    opened_for_writing,
)
from spark_ext.jobs.archive_scan import Contents, Counted
from spark_ext.jobs.engine import STRICT, stored_schema
from spark_ext.jobs.files import Folder

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

DAY_MS = 86_400_000


def day_of(time: str) -> Column:
    """The UTC day of a timestamp column, whatever the session's time zone is; the first or the last
    that Python knows for times beyond."""
    first, last = (day.toordinal() - date(1970, 1, 1).toordinal() for day in (date.min, date.max))
    number = f"greatest({first}L, least({last}L, unix_millis({time}) div {DAY_MS}))"
    return F.expr(f"date_from_unix_date(int({number}))")


def archive_stream(
    spark: SparkSession,
    stream: DataFrame,
    root: str,
    head: Head,
    *,
    codec: str = "snappy",
    follow: float | None = None,
) -> Archived:
    """Adds a streaming frame with the columns of `head`, archive.NEEDED among them."""
    manifest = Manifest(Folder(spark, root))
    with opened_for_writing(manifest, head, codec):
        added: list[Run] = []

        def write(batch: DataFrame, number: int) -> None:
            if manifest.has(number):
                return  # it was finished, only Spark did not come to note it
            run = _write_run(batch, number, manifest, codec)
            if run.rows:
                added.append(brief(run))

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
    finish(manifest, run)
    return run


def _describe(spark: SparkSession, number: int, manifest: Manifest) -> Run:
    """A run's manifest, from what stands in its files: what is not in them is not claimed. On this
    machine a job of Spark would take longer than reading them."""
    data = manifest.data(number)
    sizes = {f"{data}/{name}": size for name, size in manifest.folder.sizes(data)}
    root = manifest.folder.local_path()
    if root is None:
        return _by_spark(spark, data, manifest).run(number, sizes)
    files = [name for name in sizes if not name.rpartition("/")[2].startswith(("_", "."))]
    return archive_scan.of_files(root, files).run(number, sizes)


def _by_spark(spark: SparkSession, data: str, manifest: Manifest) -> Contents:
    reader = spark.read.schema(stored_schema(archive_scan.PLACE)).options(**STRICT)
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
    contents = Contents()
    for row in rows:
        name = unquote(row.path).rpartition(f"/{data}/")[2]
        found = Counted(*(row[column] for column in Counted._fields))
        contents.add(f"{data}/{name}", row.topic, row.day.isoformat(), [found])
    return contents
