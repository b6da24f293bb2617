"""Dead letters: what is in %DLQ% topics, by group, topic and cause, with the originals.

A message goes to a group's dead letters when the group has not consumed it. The log does not say
why in words; what it says is distinguished here:

| Cause | Sign |
|---|---|
| forwarded by a proxy | DLQ_ORIGIN_TOPIC or DLQ_ORIGIN_MESSAGE_ID |
| given up in order | ORIGIN_MESSAGE_ID is the message's unique key: of an orderly consumer |
| retries exhausted | more deliveries than the limit: the message's, else the group's, else 16 |
| refused | one delivery: the consumer sent it back with delay level -1 |
| refused or own limit | some: the same, or past a limit that the consumer itself has |

A consumer's own limit (setMaxReconsumeTimes) is in the request that sends a message back; the log
has it only now and then, as the property MAX_RECONSUME_TIMES.

Originals are looked for in the topic that the message came from: at the physical offset that
ORIGIN_MESSAGE_ID holds, else by its unique key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
from pyspark.sql import functions as F

from pyrmq.errors import ProtocolError
from pyrmq.model.names import DLQ_PREFIX
from pyrmq.net import fastjson
from spark_ext.jobs import report
from spark_ext.jobs.command import Output, output_options, run_alone, source_options, spark_options
from spark_ext.jobs.errors import JobError
from spark_ext.jobs.source import Source, exactly

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

COLUMNS = (
    "topic", "brokerName", "queueId", "queueOffset", "commitLogOffset", "bornTimestamp",
    "storeTimestamp", "tags", "keys", "transactionId", "reconsumeTimes", "bodyLength", "properties",
)  # fmt: skip
"""What is read of the dead letters; with `bodies` the body as well."""
ORIGINAL_COLUMNS = (
    "topic", "brokerName", "queueId", "queueOffset", "commitLogOffset", "storeTimestamp",
    "transactionId",
)  # fmt: skip
"""What is read of the topics that they came from."""
CAUSES = (
    "retries exhausted", "refused", "given up in order", "forwarded by a proxy",
    "refused or own limit",
)  # fmt: skip
MAX_RETRIES = 16
"""retryMaxTimes of a group that is not configured. [SubscriptionGroupConfig]"""
FEW = 1_000_000
"""Dead letters whose keys are sent to all workers; those of more are shuffled."""
_OFFSET_ID = "^([0-9A-F]{32}|[0-9A-F]{56})$"
"""offsetMsgId: address, port and physical offset in hex. A unique key has the same form."""


def _property(name: str) -> Column:
    return F.try_element_at("properties", F.lit(name))


def _letters(dead: DataFrame, max_retries: Mapping[str, int]) -> DataFrame:
    limits = F.lit(MAX_RETRIES)
    if max_retries:
        table = F.create_map(*[F.lit(part) for pair in max_retries.items() for part in pair])
        limits = F.coalesce(F.try_element_at(table, F.col("group")), limits)
    limits = F.coalesce(_property("MAX_RECONSUME_TIMES").try_cast("int"), limits)
    origin = F.coalesce(_property("DLQ_ORIGIN_MESSAGE_ID"), _property("ORIGIN_MESSAGE_ID"))
    by_proxy = (
        _property("DLQ_ORIGIN_TOPIC").isNotNull() | _property("DLQ_ORIGIN_MESSAGE_ID").isNotNull()
    )
    cause = (
        F.when(by_proxy, F.lit(CAUSES[3]))
        .when(F.col("originMessageId") == F.col("transactionId"), F.lit(CAUSES[2]))
        .when(F.col("reconsumeTimes") > limits, F.lit(CAUSES[0]))
        .when(F.col("reconsumeTimes") > 1, F.lit(CAUSES[4]))
        .otherwise(F.lit(CAUSES[1]))
    )
    # The last 16 digits are the physical offset; a sign bit would be no offset.
    digits = F.substring("originMessageId", -16, 16)
    position = F.when(
        F.col("originMessageId").rlike(_OFFSET_ID) & (F.substring(digits, 1, 1) < "8"),
        F.conv(digits, 16, 10).try_cast("bigint"),
    )
    return (
        dead.withColumn("group", F.expr(f"substr(topic, {len(DLQ_PREFIX) + 1})"))
        .withColumn("originMessageId", origin)
        .select(
            "*",
            F.coalesce(_property("DLQ_ORIGIN_TOPIC"), _property("RETRY_TOPIC")).alias("origin"),
            cause.alias("cause"),
            position.alias("originOffset"),
        )
    )


def compute(
    dead: DataFrame,
    originals: DataFrame | None = None,
    max_retries: Mapping[str, int] | None = None,
    few: bool = True,
) -> DataFrame:
    """One row per dead letter (`dead`: COLUMNS, perhaps body), with the place of its original where
    `originals` (ORIGINAL_COLUMNS) has it; `max_retries` by group where it is not 16. `few`:
    the letters' keys fit in the memory of each worker and of the driver."""
    letters = _letters(dead, max_retries or {})
    if originals is None:
        originals = dead.sparkSession.createDataFrame([], dead.select(*ORIGINAL_COLUMNS).schema)
    place = F.struct(
        *[F.col(name) for name in ("brokerName", "queueId", "queueOffset", "storeTimestamp")]
    )
    first = F.min_by(place, F.struct("storeTimestamp", "queueOffset")).alias
    there = originals.withColumnRenamed("topic", "origin").withColumn(
        "originOffset", F.col("commitLogOffset")
    )

    def hint(keys: DataFrame) -> DataFrame:
        return F.broadcast(keys) if few else keys

    # Few of all messages are wanted: they are picked before anything is sorted or grouped.
    by_offset = ["origin", "brokerName", "originOffset"]
    at = (
        there.join(hint(letters.select(*by_offset).distinct()), by_offset, "left_semi")
        .groupBy(*by_offset, F.col("transactionId").alias("keyThere"))
        .agg(first("byOffset"))
    )
    by_key = ["origin", "transactionId"]
    keyed = (
        there.join(hint(letters.select(*by_key).distinct()), by_key, "left_semi")
        .groupBy(*by_key)
        .agg(first("byKey"))
    )
    letters = letters.alias("l").join(
        at.alias("a"),
        [F.col(f"l.{name}") == F.col(f"a.{name}") for name in by_offset]
        + [F.col("keyThere").eqNullSafe(F.col("transactionId"))],
        "left",
    )
    found = letters.select("l.*", "byOffset").join(keyed, by_key, "left")
    original = F.coalesce("byOffset", "byKey")
    body = [F.col("body")] if "body" in dead.columns else []
    return found.withColumn("original", original).select(
        "group",
        F.col("origin").alias("topic"),
        "cause",
        F.col("transactionId").alias("uniqueKey"),
        "keys",
        "tags",
        "reconsumeTimes",
        "bodyLength",
        "bornTimestamp",
        F.col("storeTimestamp").alias("deadTimestamp"),
        "brokerName",
        F.col("queueId").alias("deadQueueId"),
        F.col("queueOffset").alias("deadQueueOffset"),
        "originMessageId",
        F.col("original").isNotNull().alias("originalFound"),
        F.col("original.brokerName").alias("originalBroker"),
        F.col("original.queueId").alias("originalQueueId"),
        F.col("original.queueOffset").alias("originalQueueOffset"),
        F.col("original.storeTimestamp").alias("originalTimestamp"),
        (F.unix_millis("storeTimestamp") - F.unix_millis("original.storeTimestamp")).alias(
            "diedMs"
        ),
        "properties",
        *body,
    )


def group_limits(paths: Sequence[str]) -> dict[str, int]:
    """retryMaxTimes by group from config/subscriptionGroup.json of store roots, where there is one.
    [SubscriptionGroupManager]"""
    limits: dict[str, int] = {}
    for path in paths:
        file = Path(path.removeprefix("file://")) / "config" / "subscriptionGroup.json"
        try:
            table = fastjson.loads_object(file.read_bytes()).get("subscriptionGroupTable")
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, ProtocolError) as e:
            raise JobError(f"{file} cannot be read: {e}") from e
        for group, value in (table if isinstance(table, dict) else {}).items():
            times = value.get("retryMaxTimes") if isinstance(value, dict) else None
            if isinstance(times, int) and 0 <= times < 1 << 31:
                limits[str(group)] = times
    return limits


def deadletters(
    spark: SparkSession,
    source: Source,
    *,
    groups: Sequence[str] = (),
    originals: bool = True,
    bodies: bool = False,
) -> DataFrame:
    """From a source, of all groups or of those named. `originals`: look for them, which reads the
    topics that the dead letters came from, also what is older than the source's `since`; `bodies`:
    with a column body."""
    pattern = exactly(DLQ_PREFIX + group for group in groups) or f"{DLQ_PREFIX}.+"
    columns = (*COLUMNS, "body") if bodies else COLUMNS
    dead = source.load(spark, columns, pattern=pattern, system=True)
    there, few = None, True
    if originals:
        dead = dead.cache()
        rows = _letters(dead, {}).where("origin IS NOT NULL").groupBy("origin").count().collect()
        wanted = sorted(row.origin for row in rows)
        few = sum(row["count"] for row in rows) <= FEW
        if wanted:
            whole = originals_of(source)
            there = whole.load(spark, ORIGINAL_COLUMNS, pattern=exactly(wanted), system=True)
    return compute(dead, there, group_limits(source.paths), few)


def originals_of(source: Source) -> Source:
    """The same source from the log's start: a letter that died since some time may be of a message
    from before it."""
    options = {n: v for n, v in source.options.items() if not n.lower().startswith("starting")}
    return replace(source, since=None, options=options)


def by_cause(found: DataFrame) -> DataFrame:
    """One row per group, topic and cause, the most first."""
    return (
        found.groupBy("group", "topic", "cause")
        .agg(
            F.count("*").alias("count"),
            F.sum("bodyLength").alias("bytes"),
            F.count_if("originalFound").alias("originals"),
            F.max("reconsumeTimes").alias("maxReconsumeTimes"),
            F.min("deadTimestamp").alias("first"),
            F.max("deadTimestamp").alias("last"),
            F.percentile_approx("diedMs", 0.5).alias("p50DiedMs"),
        )
        .orderBy(F.desc("count"), "group", "topic", "cause")
    )


def summary(found: DataFrame, top: int = 20) -> str:
    rows = by_cause(found).collect()
    total = sum(row["count"] for row in rows)
    there = sum(row.originals for row in rows)
    groups = len({row.group for row in rows})
    text = [f"{total} dead letters of {groups} groups; {there} originals are in the log"]
    if rows:
        titles = (
            "group", "topic", "cause", "count", "bodies", "originals", "retries", "died after",
            "first", "last",
        )  # fmt: skip
        table = [
            [
                r.group, r.topic, r.cause, r["count"], report.size(r.bytes), r.originals,
                r.maxReconsumeTimes, report.duration(r.p50DiedMs), r["first"], r["last"],
            ]
            for r in rows[:top]
        ]  # fmt: skip
        text += ["", report.lines(titles, table)]
    if len(rows) > top:
        text.append(f"... and {len(rows) - top} more")
    return "\n".join(text)


def plot(found: DataFrame, path: str) -> None:
    """Dead letters by group, coloured by cause."""
    from spark_ext.jobs.plot import bars

    rows = found.groupBy("group", "cause").count().collect()
    counts = {(row.group, row.cause): row["count"] for row in rows}
    sums: dict[str, int] = {}
    for row in rows:
        sums[row.group] = sums.get(row.group, 0) + row["count"]
    groups = sorted(sums, key=lambda group: (-sums[group], group))
    series = {c: [counts.get((g, c), 0) for g in groups] for c in CAUSES}
    bars(path, "Dead letters by group and cause", groups, series, "messages")


@click.command("deadletters")
@source_options
@click.option("-g", "--group", "groups", multiple=True, help="This group only; may be repeated.")
@click.option("--no-originals", is_flag=True, help="Do not look for the originals.")
@click.option("--bodies", is_flag=True, help="A column with the bodies in the table.")
@click.option("--top", type=click.IntRange(1), default=20, show_default=True)
@output_options()
@spark_options
def command(
    spark: SparkSession,
    source: Source,
    output: Output,
    groups: tuple[str, ...],
    no_originals: bool,
    bodies: bool,
    top: int,
) -> None:
    """Dead letters in STORE by group, topic and cause, with where their originals stand.

    The table has one row per dead letter."""
    found = deadletters(
        spark, source, groups=groups, originals=not no_originals, bodies=bodies
    ).cache()
    click.echo(summary(found, top))
    output.write(found)
    output.draw(lambda path: plot(found, path))


if __name__ == "__main__":
    run_alone(command)
