"""What clients wrote to the trace topic: how long sends and consumption take, how much fails.

Three questions, one table (`kind`):
- send: by topic and producer group, from Pub records; costs are those that the producer measured.
- consume: by topic and consumer group, from SubBefore and SubAfter; the cost is that of the
  listener, per message. The wait is the time from the end of the send until the first attempt
  to consume: between two machines' clocks.
- transaction: by topic and producer group, how the local transactions ended.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click
from pyspark.sql import functions as F

from pyrmq.escape import escape
from spark_ext.jobs import report
from spark_ext.jobs.command import Output, output_options, run_alone, source_options, spark_options
from spark_ext.jobs.source import Source
from spark_ext.jobs.trace_records import parse

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row, SparkSession

COLUMNS = ("body", "storeTimestamp")
TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
RESULT = (
    "kind", "group", "topic", "count", "failed", "successRate", "meanMs", "p50Ms", "p95Ms", "p99Ms",
    "maxMs", "retries", "unfinished", "waitP50Ms", "waitP95Ms", "waitMaxMs", "firstTime",
    "lastTime",
)  # fmt: skip
ACCURACY = 10_000
"""Of percentiles: they are exact up to so many different values, then within 1 part of it."""


@dataclass(frozen=True)
class Trace:
    """`records`: every record; `groups`: one row per kind, group and topic, columns RESULT."""

    records: DataFrame
    groups: DataFrame


def _part(of: str, share: float) -> Column:
    return F.percentile_approx(of, share, ACCURACY)


def _costs() -> list[Column]:
    return [
        F.avg("cost").alias("meanMs"),
        _part("cost", 0.5).alias("p50Ms"),
        _part("cost", 0.95).alias("p95Ms"),
        _part("cost", 0.99).alias("p99Ms"),
        F.max("cost").alias("maxMs"),
        F.timestamp_millis(F.min("time")).alias("firstTime"),
        F.timestamp_millis(F.max("time")).alias("lastTime"),
    ]


def _counts(good: Column) -> list[Column]:
    failed = F.count_if(~F.coalesce(good, F.lit(False)))
    return [
        F.count("*").alias("count"),
        failed.alias("failed"),
        (1 - failed / F.count("*")).alias("successRate"),
    ]


def _result(frame: DataFrame, kind: str) -> DataFrame:
    """The columns of RESULT; those that a kind does not have are null."""
    types = {"retries": "bigint", "unfinished": "bigint", "meanMs": "double"}
    columns = [F.lit(kind).alias("kind")]
    for name in RESULT[1:]:
        if name in frame.columns:
            columns.append(F.col(f"`{name}`"))
        else:
            columns.append(F.lit(None).cast(types.get(name, "bigint")).alias(name))
    return frame.select(columns)


def _sends(records: DataFrame) -> DataFrame:
    sends = records.where("type = 'Pub'").groupBy("group", "topic")
    return _result(sends.agg(*_counts(F.col("success")), *_costs()), "send")


def _transactions(records: DataFrame) -> DataFrame:
    ends = records.where("type = 'EndTransaction'").groupBy("group", "topic")
    good = F.col("state") == "COMMIT_MESSAGE"
    return _result(ends.agg(*_counts(good), *_costs()), "transaction")


def _consumption(records: DataFrame) -> DataFrame:
    """SubAfter has a group only from 4.9 on, and never a topic: the one comes from the SubBefore of
    the same request, the other from the Pub of the same message."""
    starts = records.where("type = 'SubBefore'").groupBy("requestId", "msgId")
    before = starts.agg(
        F.first("group").alias("group"),
        F.min("time").alias("begin"),
        F.max("retryTimes").alias("retryTimes"),
    )
    ends = records.where("type = 'SubAfter'").groupBy("requestId", "msgId")
    after = ends.agg(
        F.first("group").alias("afterGroup"),
        F.max("cost").alias("cost"),
        F.bool_and("success").alias("success"),
        F.max("time").alias("end"),
    )
    # A batch has one Pub record with the ids of all its messages.
    sent = (
        records.where("type = 'Pub'")
        .select("topic", "time", "cost", F.explode(F.split("msgId", ",")).alias("msgId"))
        .groupBy("msgId")
        .agg(F.first("topic").alias("topic"), F.min(F.col("time") + F.col("cost")).alias("sentAt"))
    )
    attempts = (
        before.join(after, ["requestId", "msgId"], "full")
        .join(sent, "msgId", "left")
        .withColumn("group", F.coalesce("group", "afterGroup"))
        .withColumn("time", F.coalesce("begin", "end"))
        .withColumn("finished", F.col("success").isNotNull())
        .withColumn(
            "wait",
            F.when(
                F.coalesce("retryTimes", F.lit(0)) == 0,
                F.greatest(F.col("begin") - F.col("sentAt"), F.lit(0)),
            ),
        )
    )
    ended = F.count_if("finished")
    failed = F.count_if(F.col("finished") & ~F.col("success"))
    groups = attempts.groupBy("group", "topic").agg(
        F.count("*").alias("count"),
        failed.alias("failed"),
        F.when(ended > 0, 1 - failed / ended).alias("successRate"),
        *_costs(),
        F.count_if(F.col("retryTimes") > 0).alias("retries"),
        F.count_if(~F.col("finished")).alias("unfinished"),
        _part("wait", 0.5).alias("waitP50Ms"),
        _part("wait", 0.95).alias("waitP95Ms"),
        F.max("wait").alias("waitMaxMs"),
    )
    return _result(groups, "consume")


def compute(messages: DataFrame) -> Trace:
    """From the messages of a trace topic (COLUMNS). successRate: of what has ended; unfinished:
    attempts to consume of which no end is known."""
    records = parse(messages).cache()
    good = records.where("NOT bad")
    groups = _sends(good).unionByName(_consumption(good)).unionByName(_transactions(good))
    groups = groups.orderBy("kind", F.desc_nulls_last("p95Ms"), "group", "topic")
    return Trace(records, groups.cache())


def trace(spark: SparkSession, source: Source, *, topic: str = TRACE_TOPIC) -> Trace:
    """From a source; `topic` is the trace topic, where clients use one of their own."""
    return compute(source.load(spark, COLUMNS, topics=[topic], system=True))


def summary(found: Trace, top: int = 20) -> str:
    kinds = found.records.groupBy("type", "bad").count().collect()
    counts: dict[str, int] = {}
    for row in kinds:
        name = "not readable" if row.bad else row.type
        counts[name] = counts.get(name, 0) + row["count"]
    total = sum(counts.values())
    text = [
        f"{total} trace records: "
        + ", ".join(f"{n} {escape(k)}" for k, n in sorted(counts.items()))
    ]
    rows = found.groups.collect()
    for kind, title in (
        ("send", "Sends, the slowest first"),
        ("consume", "Consumption, the slowest first"),
        ("transaction", "Ends of transactions"),
    ):
        part = [row for row in rows if row.kind == kind]
        if part:
            text += ["", title, _table(kind, part[:top])]
        if len(part) > top:
            text.append(f"... and {len(part) - top} more")
    return "\n".join(text)


def _table(kind: str, rows: list[Row]) -> str:
    if kind == "transaction":
        titles: tuple[str, ...] = ("group", "topic", "ends", "not committed", "committed")
        return report.lines(
            titles,
            [
                [r.group, r.topic, r["count"], r.failed, report.share(r.successRate, 1)]
                for r in rows
            ],
        )
    titles = ("group", "topic", "count", "failed", "success", "p50", "p95", "p99", "max")
    body = [
        [
            r.group, r.topic, r["count"], r.failed, report.share(r.successRate, 1),
            *[report.duration(ms) for ms in (r.p50Ms, r.p95Ms, r.p99Ms, r.maxMs)],
        ]
        for r in rows
    ]  # fmt: skip
    if kind == "consume":
        titles += ("retries", "unfinished", "wait p50", "wait p95")
        for cells, r in zip(body, rows, strict=True):
            cells += [
                r.retries, r.unfinished, report.duration(r.waitP50Ms), report.duration(r.waitP95Ms),
            ]  # fmt: skip
    return report.lines(titles, body)


def plot(found: Trace, path: str) -> None:
    """p50 and what p95 has on top of it, for the slowest groups."""
    from spark_ext.jobs.plot import MAX_BARS, bars

    rows = found.groups.where("p95Ms IS NOT NULL").orderBy(F.desc("p95Ms")).limit(MAX_BARS)
    found_rows = rows.collect()
    bars(
        path,
        "Costs of sends and consumption by group",
        [f"{r.kind} {r.group}" for r in found_rows],
        {
            "p50": [r.p50Ms for r in found_rows],
            "up to p95": [r.p95Ms - r.p50Ms for r in found_rows],
        },
        "ms",
    )


@click.command("trace")
@source_options
@click.option("--topic", default=TRACE_TOPIC, show_default=True, help="The trace topic.")
@click.option("--top", type=click.IntRange(1), default=20, show_default=True)
@output_options()
@spark_options
def command(spark: SparkSession, source: Source, output: Output, topic: str, top: int) -> None:
    """Latencies and success rates of sends and consumption, from the trace topic in STORE.

    The table has one row per kind (send, consume, transaction), group and topic."""
    found = trace(spark, source, topic=topic)
    click.echo(summary(found, top))
    output.write(found.groups)
    output.draw(lambda path: plot(found, path))


if __name__ == "__main__":
    run_alone(command)
