"""What became of transactions: half and op topic, committed messages and those discarded, joined.

A half stands in the half topic; an op record names the queue offsets of halves that are dealt with;
a committed message has the physical offset of its half. When a producer is asked about a half,
RocketMQ appends a copy with a higher check count: copies of one half have its unique key, birth
and group, and are one transaction here. Only the last copy can still wait.

| State | The log has |
|---|---|
| committed | a committed message that names a copy |
| discarded | a copy in TRANS_CHECK_MAX_TIME_TOPIC, behind the last one (after the last check) |
| pending | none of these, and no op record of the last copy |
| rolledBack | none of these, and an op record of the last copy |

Apache RocketMQ writes op records up to 3 s late: a rollback that is so young counts as pending. A
producer that sends a half twice with the same key and birth has two halves in one transaction.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click
from pyspark.sql import functions as F

from pyrmq.model.names import CHECK_MAX_TOPIC, HALF_TOPIC, OP_TOPIC
from pyrmq.model.transaction import (
    CHECK_TIMES,
    PREPARED_QUEUE_OFFSET,
    PRODUCER_GROUP,
    REAL_QUEUE_ID,
    REAL_TOPIC,
)
from spark_ext.jobs import report
from spark_ext.jobs.command import Output, output_options, run_alone, source_options, spark_options
from spark_ext.jobs.source import Source, exactly

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

HALF_COLUMNS = (
    "topic", "brokerName", "queueId", "queueOffset", "commitLogOffset", "bornTimestamp",
    "storeTimestamp", "tags", "transactionId", "properties", "body",
)  # fmt: skip
"""What is read of the half, op and overflow topics."""
COMMITTED_COLUMNS = (
    "topic", "brokerName", "queueOffset", "sysFlag", "preparedTransactionOffset",
    "storeTimestamp",
)  # fmt: skip
"""What is read of all other topics."""
STATES = ("pending", "committed", "rolledBack", "discarded")
TYPE_MASK, COMMIT_TYPE = 0xC, 0x8
"""sysFlag: bits of the transaction type, and the type of a committed message. [MessageSysFlag]"""
IDENTITY = ["brokerName", "transactionId", "bornTimestamp", "producerGroup"]


def _property(name: str) -> Column:
    return F.try_element_at("properties", F.lit(name))


def _halves(stored: DataFrame) -> DataFrame:
    rows = stored.where(F.col("topic") == HALF_TOPIC)
    return rows.select(
        "brokerName",
        # A half without a unique key (an old client's) is a transaction of its own.
        F.coalesce(
            "transactionId", F.concat(F.lit("offset "), F.col("queueOffset").cast("string"))
        ).alias("transactionId"),
        "bornTimestamp",
        F.coalesce(_property(PRODUCER_GROUP), F.lit("")).alias("producerGroup"),
        _property(REAL_TOPIC).alias("topic"),
        _property(REAL_QUEUE_ID).try_cast("int").alias("queueId"),
        _property(CHECK_TIMES).try_cast("int").alias("checks"),
        # An immunity copy is settled by an op record of the half that it stands for.
        _property(PREPARED_QUEUE_OFFSET).try_cast("bigint").alias("standsFor"),
        F.col("queueId").alias("halfQueueId"),
        F.col("queueOffset").alias("halfQueueOffset"),
        F.col("commitLogOffset").alias("halfOffset"),
        "storeTimestamp",
    )


def op_offsets(stored: DataFrame) -> DataFrame:
    """Queue offsets of halves that op records name, with when the first did: bodies are numbers
    with a comma behind each, or one number alone (4.x); other tags than `d` name nothing."""
    rows = stored.where((F.col("topic") == OP_TOPIC) & (F.trim("tags") == "d"))
    return (
        rows.select(
            "brokerName",
            F.col("queueId").alias("opQueueId"),
            "storeTimestamp",
            F.explode(F.split(F.col("body").cast("string"), ",")).alias("text"),
        )
        .withColumn("opOffset", F.trim("text").try_cast("bigint"))
        .where("opOffset IS NOT NULL")
        .groupBy("brokerName", "opQueueId", "opOffset")
        .agg(F.min("storeTimestamp").alias("opTimestamp"))
    )


def _committed(messages: DataFrame) -> DataFrame:
    rows = messages.where(F.col("sysFlag").bitwiseAND(TYPE_MASK) == COMMIT_TYPE)
    return rows.groupBy(
        "brokerName", F.col("preparedTransactionOffset").alias("committedHalf")
    ).agg(
        F.count("*").alias("deliveries"),
        F.min("queueOffset").alias("committedQueueOffset"),
        F.min("storeTimestamp").alias("committedAt"),
    )


def _discarded(stored: DataFrame) -> DataFrame:
    rows = stored.where(F.col("topic") == CHECK_MAX_TOPIC)
    return rows.groupBy(
        "brokerName",
        "transactionId",
        "bornTimestamp",
        F.coalesce(_property(PRODUCER_GROUP), F.lit("")).alias("producerGroup"),
    ).agg(F.max("storeTimestamp").alias("discardedAt"))


def _with_ops(halves: DataFrame, ops: DataFrame) -> DataFrame:
    """Halves with the time of the op record that names them, or what they stand for."""
    for name in ("halfQueueOffset", "standsFor"):
        named = ops.select(
            "brokerName",
            F.col("opQueueId").alias("halfQueueId"),
            F.col("opOffset").alias(name),
            F.col("opTimestamp").alias(f"{name}Op"),
        )
        halves = halves.join(named, ["brokerName", "halfQueueId", name], "left")
    return halves.withColumn("opTimestamp", F.coalesce("halfQueueOffsetOp", "standsForOp"))


def compute(stored: DataFrame, messages: DataFrame, as_of: datetime) -> DataFrame:
    """One row per transaction. `stored`: half, op and overflow topic (HALF_COLUMNS); `messages`:
    all others (COMMITTED_COLUMNS). ageMs: of what is pending until `as_of`, of the others from the
    first half to the decision."""
    halves = _with_ops(_halves(stored), op_offsets(stored))
    committed = _committed(messages).withColumnRenamed("committedHalf", "halfOffset")
    copies = halves.join(committed, ["brokerName", "halfOffset"], "left")
    last = F.max_by(
        F.struct("storeTimestamp", "opTimestamp", "deliveries", "halfQueueOffset", "halfOffset"),
        "halfQueueOffset",
    )
    own = F.count_if(F.col("checks").isNull() & F.col("standsFor").isNull())
    found = copies.groupBy(*IDENTITY).agg(
        F.first("topic", ignorenulls=True).alias("topic"),
        F.first("queueId", ignorenulls=True).alias("queueId"),
        F.greatest(own, F.lit(1).cast("bigint")).alias("halves"),
        F.count("*").alias("stored"),
        F.coalesce(F.max("checks"), F.lit(0)).alias("checkTimes"),
        F.min("storeTimestamp").alias("firstStored"),
        last.alias("last"),
        F.coalesce(F.sum("deliveries"), F.lit(0).cast("bigint")).alias("deliveries"),
        F.min("committedQueueOffset").alias("committedQueueOffset"),
        F.min("committedAt").alias("committedAt"),
    )
    found = found.join(_discarded(stored), IDENTITY, "left")
    # A producer that sent twice: the other half can wait although one is committed.
    waits = F.col("last.opTimestamp").isNull() & F.col("last.deliveries").isNull()
    other_waits = waits & (F.col("halves") > 1)
    state = (
        F.when((F.col("deliveries") > 0) & ~other_waits, F.lit("committed"))
        .when(F.col("discardedAt") >= F.col("last.storeTimestamp"), F.lit("discarded"))
        .when(waits, F.lit("pending"))
        .otherwise(F.lit("rolledBack"))
    )
    decided = (
        F.when(F.col("state") == "committed", F.col("committedAt"))
        .when(F.col("state") == "discarded", F.col("discardedAt"))
        .when(F.col("state") == "rolledBack", F.col("last.opTimestamp"))
    )
    now = F.lit(round(as_of.timestamp() * 1000)).cast("bigint")
    until = F.coalesce(F.unix_millis("decidedAt"), now)
    return (
        found.withColumn("state", state)
        .withColumn("decidedAt", decided)
        .select(
            "brokerName",
            "transactionId",
            "producerGroup",
            "topic",
            "queueId",
            "state",
            "checkTimes",
            "halves",
            (F.col("stored") - F.col("halves")).alias("copies"),
            "deliveries",
            "bornTimestamp",
            "firstStored",
            F.col("last.storeTimestamp").alias("lastStored"),
            "decidedAt",
            F.greatest(until - F.unix_millis("firstStored"), F.lit(0)).alias("ageMs"),
            F.col("last.halfQueueOffset").alias("halfQueueOffset"),
            F.col("last.halfOffset").alias("halfOffset"),
            "committedQueueOffset",
        )
    )


def transactions(
    spark: SparkSession, source: Source, *, as_of: datetime | None = None
) -> DataFrame:
    """From a source. What is read of user topics is narrow; a store without transactions gives no
    rows. With the source's `since` those that have a half stored since then, with `until` as they
    were at that time."""
    source.need_all("transactions", times=True)
    # What is decided later than `since` may name a half from before it: all of the log is joined.
    since, whole = source.since, replace(source, since=None)
    topics = exactly((HALF_TOPIC, OP_TOPIC, CHECK_MAX_TOPIC))
    # Halves before the messages: what is committed meanwhile is committed, not lost.
    stored = whole.load(spark, HALF_COLUMNS, pattern=topics, system=True)
    messages = whole.load(spark, COMMITTED_COLUMNS)
    found = compute(stored, messages, as_of or seen_at(source.until))
    return found if since is None else found.where(F.unix_millis("lastStored") >= since)


def seen_at(until: int | None) -> datetime:
    """The time up to which the log is read: now, or an earlier end."""
    now = datetime.now(UTC)
    if until is None or until >= now.timestamp() * 1000:
        return now
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=until)


def by_state(found: DataFrame) -> DataFrame:
    """One row per topic, producer group and state."""
    return (
        found.groupBy("topic", "producerGroup", "state")
        .agg(
            F.count("*").alias("count"),
            F.avg("checkTimes").alias("meanChecks"),
            F.max("checkTimes").alias("maxChecks"),
            F.percentile_approx("ageMs", 0.5).alias("p50AgeMs"),
            F.max("ageMs").alias("maxAgeMs"),
            F.count_if(F.col("deliveries") > 1).alias("repeated"),
        )
        .orderBy("topic", "producerGroup", "state")
    )


def summary(found: DataFrame, top: int = 20) -> str:
    rows = by_state(found).collect()
    counts = {state: sum(r["count"] for r in rows if r.state == state) for state in STATES}
    text = [
        f"{sum(counts.values())} transactions: {counts['pending']} pending, "
        f"{counts['committed']} committed, {counts['rolledBack']} rolled back, "
        f"{counts['discarded']} discarded"
    ]
    repeated = sum(row.repeated for row in rows)
    if repeated:
        text.append(f"{repeated} were delivered more than once")
    if rows:
        titles: tuple[str, ...] = (
            "topic", "producer group", "state", "count", "checks mean", "max", "age p50", "max",
        )  # fmt: skip
        table = [
            [
                r.topic, r.producerGroup, r.state, r["count"], f"{r.meanChecks:.1f}", r.maxChecks,
                report.duration(r.p50AgeMs), report.duration(r.maxAgeMs),
            ]
            for r in rows[:top]
        ]  # fmt: skip
        text += ["", report.lines(titles, table)]
    if len(rows) > top:
        text.append(f"... and {len(rows) - top} more")
    waiting = found.where("state = 'pending'").orderBy(F.desc("ageMs")).limit(top).collect()
    if waiting:
        titles = ("broker", "transaction", "topic", "producer group", "checks", "age")
        table = [
            [
                r.brokerName, r.transactionId, r.topic, r.producerGroup, r.checkTimes,
                report.duration(r.ageMs),
            ]
            for r in waiting
        ]  # fmt: skip
        text += ["", "Pending, the oldest first", report.lines(titles, table)]
    return "\n".join(text)


def plot(found: DataFrame, path: str) -> None:
    """Transactions by topic, coloured by state."""
    from spark_ext.jobs.plot import bars

    rows = found.groupBy("topic", "state").count().collect()
    counts = {(row.topic, row.state): row["count"] for row in rows}
    topics = sorted({row.topic or "" for row in rows})
    series = {s: [counts.get((t or None, s), 0) for t in topics] for s in STATES}
    bars(path, "Transactions by topic and state", topics, series, "transactions")


@click.command("transactions")
@source_options
@click.option("--top", type=click.IntRange(1), default=20, show_default=True)
@output_options()
@spark_options
def command(spark: SparkSession, source: Source, output: Output, top: int) -> None:
    """What became of the half messages in STORE: pending, committed, rolled back or discarded,
    how often their producers were asked, how old they are or became.

    The table has one row per transaction."""
    found = transactions(spark, source).cache()
    click.echo(summary(found, top))
    output.write(found)
    output.draw(lambda path: plot(found, path))


if __name__ == "__main__":
    run_alone(command)
