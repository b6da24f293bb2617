"""Hot keys and sizes: what fills the log, and what is uneven in it.

One narrow pass counts by topic, queue, tag and size class; the topic's, queue's, tag's and size's
rows are sums of that. Keys take a second pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click
from pyspark.sql import functions as F

from spark_ext.jobs import report
from spark_ext.jobs.command import Output, output_options, run_alone, source_options, spark_options
from spark_ext.jobs.source import Source

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

COLUMNS = ("topic", "brokerName", "queueId", "tags", "keys", "bodyLength", "storeSize")
SCOPES = ("topic", "queue", "tag", "size", "key")
TOP_KEYS = 100
MAX_KEY = 200
"""Characters of a key that are kept."""


@dataclass(frozen=True)
class Hot:
    """`table`: rows of all scopes in one shape (`scope`: SCOPES; columns that a scope does not
    have are null): scope, topic, brokerName, queueId, tag, bodyFrom, key, messages, bytes,
    bodyBytes, largest, share, skew.

    bytes: of whole records; largest: the longest body; bodyFrom: a size class begins here and ends
    before twice that; share: of all records' bytes; skew of a topic: its busiest queue's messages
    over the mean of its queues (1: even)."""

    table: DataFrame


def _sums() -> list[Column]:
    return [
        F.sum("messages").alias("messages"),
        F.sum("bytes").alias("bytes"),
        F.sum("bodyBytes").alias("bodyBytes"),
        F.max("largest").alias("largest"),
    ]


def _base(messages: DataFrame) -> DataFrame:
    # Powers of two; 0 is a class of its own.
    size = F.when(F.col("bodyLength") > 0, F.floor(F.log2("bodyLength"))).otherwise(-1)
    return messages.groupBy(
        "topic", "brokerName", "queueId", F.col("tags").alias("tag"), size.alias("class")
    ).agg(
        F.count("*").alias("messages"),
        F.sum("storeSize").cast("bigint").alias("bytes"),
        F.sum("bodyLength").cast("bigint").alias("bodyBytes"),
        F.max("bodyLength").alias("largest"),
    )


def _keys(messages: DataFrame, top: int) -> DataFrame:
    parts = messages.select(
        "topic", "storeSize", "bodyLength", F.explode(F.split("keys", " +")).alias("text")
    ).where("text != ''")
    return (
        parts.groupBy("topic", F.left("text", F.lit(MAX_KEY)).alias("key"))
        .agg(
            F.count("*").alias("messages"),
            F.sum("storeSize").cast("bigint").alias("bytes"),
            F.sum("bodyLength").cast("bigint").alias("bodyBytes"),
            F.max("bodyLength").alias("largest"),
        )
        .orderBy(F.desc("messages"), "topic", "key")
        .limit(top)
    )


def compute(messages: DataFrame, top_keys: int = TOP_KEYS) -> Hot:
    """From COLUMNS of messages. Messages of an inner batch count with the record's whole size. With
    `top_keys` 0 the pass over keys is left out."""
    base = _base(messages).cache()
    queues = base.groupBy("topic", "brokerName", "queueId").agg(*_sums())
    skew = queues.groupBy("topic").agg((F.max("messages") / F.avg("messages")).alias("skew"))
    start = F.when(F.col("class") < 0, 0).otherwise(F.pow(F.lit(2.0), "class")).cast("bigint")
    scopes = {
        "topic": base.groupBy("topic").agg(*_sums()).join(skew, "topic"),
        "queue": queues,
        "tag": base.groupBy("topic", "tag").agg(*_sums()),
        "size": base.groupBy("topic", start.alias("bodyFrom")).agg(*_sums()),
    }
    if top_keys:
        scopes["key"] = _keys(messages, top_keys)
    total = base.agg(F.sum("bytes").alias("all"))
    table: DataFrame | None = None
    for scope, frame in scopes.items():
        part = _shaped(frame, scope)
        table = part if table is None else table.unionByName(part)
    assert table is not None
    share = F.col("bytes") / F.col("all")
    return Hot(table.crossJoin(F.broadcast(total)).withColumn("share", share).drop("all"))


_SHAPE = {
    "topic": "string", "brokerName": "string", "queueId": "int", "tag": "string",
    "bodyFrom": "bigint", "key": "string", "messages": "bigint", "bytes": "bigint",
    "bodyBytes": "bigint", "largest": "int", "skew": "double",
}  # fmt: skip


def _shaped(frame: DataFrame, scope: str) -> DataFrame:
    columns = [F.lit(scope).alias("scope")]
    for name, kind in _SHAPE.items():
        column = F.col(name) if name in frame.columns else F.lit(None)
        columns.append(column.cast(kind).alias(name))
    return frame.select(columns)


def hot(
    spark: SparkSession,
    source: Source,
    *,
    topics: Sequence[str] = (),
    pattern: str | None = None,
    system: bool = False,
    top_keys: int = TOP_KEYS,
) -> Hot:
    """From a source: of some topics, of those that match, or of all user topics."""
    messages = source.load(spark, COLUMNS, topics=topics, pattern=pattern, system=system)
    return compute(messages, top_keys)


def summary(found: Hot, top: int = 20) -> str:
    rows = found.table.orderBy(F.desc("bytes"), F.desc("messages"), "topic").collect()
    by_scope = {scope: [row for row in rows if row.scope == scope] for scope in SCOPES}
    topics = by_scope["topic"]
    text = [
        f"{sum(r.messages for r in topics)} messages, {report.size(sum(r.bytes for r in topics))} "
        f"of records, {len(topics)} topics, {len(by_scope['queue'])} queues"
    ]
    if not topics:
        return text[0]

    def table(title: str, scope: str, names: Sequence[str], extra: Sequence[str] = ()) -> None:
        part = by_scope[scope]
        if scope == "key":
            part = sorted(part, key=lambda r: -r.messages)
        if scope == "size":
            part = sorted(part, key=lambda r: (r.topic, r.bodyFrom))
        lines = [
            [
                *[row[name] for name in names], row.messages, report.size(row.bytes),
                report.share(row.share, 1), report.size(row.bodyBytes / row.messages),
                report.size(row.largest), *[f"{row[name]:.2f}" for name in extra],
            ]
            for row in part[:top]
        ]  # fmt: skip
        if lines:
            titles = [*names, "messages", "bytes", "share", "mean body", "largest", *extra]
            text.extend(["", title, report.lines(titles, lines)])
        if len(part) > top:
            text.append(f"... and {len(part) - top} more")

    table("Topics (skew: busiest queue over the mean)", "topic", ["topic"], ["skew"])
    table("Queues", "queue", ["topic", "brokerName", "queueId"])
    table("Tags", "tag", ["topic", "tag"])
    table("Body sizes (from, up to twice that)", "size", ["topic", "bodyFrom"])
    table("Keys", "key", ["topic", "key"])
    return "\n".join(text)


def plot(found: Hot, path: str) -> None:
    """Bytes of the topics, bodies and the rest of the records."""
    from spark_ext.jobs.plot import bars

    rows = found.table.where("scope = 'topic'").orderBy(F.desc("bytes"), "topic").collect()
    bars(
        path,
        "What fills the log",
        [row.topic for row in rows],
        {
            "bodies": [min(row.bodyBytes, row.bytes) / (1 << 20) for row in rows],
            "headers and properties": [
                max(row.bytes - row.bodyBytes, 0) / (1 << 20) for row in rows
            ],
        },
        "MiB",
    )


@click.command("hot")
@source_options
@click.option("-t", "--topic", "topics", multiple=True, help="This topic only; may be repeated.")
@click.option("--pattern", help="Topics whose whole name matches this regular expression.")
@click.option("--system", is_flag=True, help="The broker's own topics as well.")
@click.option("--top", type=click.IntRange(1), default=20, show_default=True)
@click.option("--top-keys", type=click.IntRange(0, 100_000), default=TOP_KEYS, show_default=True)
@output_options()
@spark_options
def command(
    spark: SparkSession,
    source: Source,
    output: Output,
    topics: tuple[str, ...],
    pattern: str | None,
    system: bool,
    top: int,
    top_keys: int,
) -> None:
    """Counts, bytes, skew and hot keys of what is in STORE, by topic, queue, tag, size and key.

    The table has all of them in one shape; column scope says which a row is."""
    found = hot(spark, source, topics=topics, pattern=pattern, system=system, top_keys=top_keys)
    found = Hot(found.table.cache())
    click.echo(summary(found, top))
    output.write(found.table)
    output.draw(lambda path: plot(found, path))


if __name__ == "__main__":
    run_alone(command)
