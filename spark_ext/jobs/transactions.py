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
from typing import Any

import click

from pyrmq.model.names import CHECK_MAX_TOPIC, HALF_TOPIC, OP_TOPIC
from pyrmq.model.transaction import (
    CHECK_TIMES,
    PREPARED_QUEUE_OFFSET,
    PRODUCER_GROUP,
    REAL_QUEUE_ID,
    REAL_TOPIC,
)
from spark_ext.jobs import report
from spark_ext.jobs.command import Output, engine_options, output_options, run_alone, source_options
from spark_ext.jobs.engine import Engine, Table, Where, engine_of
from spark_ext.jobs.source import Source, exactly

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


def _property(name: str) -> str:
    return f"try_element_at(properties, '{name}')"


def _number(text: str, kind: str) -> str:
    """Digits only: engines differ in what else they take for a number."""
    return (
        f"CASE WHEN translate({text}, '0123456789', '') IN ('', '-') "
        f"THEN try_cast({text} AS {kind}) END"
    )


_GROUP = f"coalesce({_property(PRODUCER_GROUP)}, '')"
_HALVES = f"""
SELECT brokerName,
    coalesce(transactionId, concat('offset ', CAST(queueOffset AS string))) AS transactionId,
    bornTimestamp, {_GROUP} AS producerGroup, {_property(REAL_TOPIC)} AS topic,
    {_number(_property(REAL_QUEUE_ID), "int")} AS queueId,
    {_number(_property(CHECK_TIMES), "int")} AS checks,
    {_number(_property(PREPARED_QUEUE_OFFSET), "bigint")} AS standsFor,
    queueId AS halfQueueId, queueOffset AS halfQueueOffset, commitLogOffset AS halfOffset,
    storeTimestamp
FROM {{stored}} WHERE topic = '{HALF_TOPIC}'
"""
"""A half without a unique key (an old client's) is a transaction of its own. An immunity copy is
settled by an op record of the half that it stands for."""
_OPS = f"""
SELECT brokerName, opQueueId, opOffset, min(storeTimestamp) AS opTimestamp
FROM (SELECT brokerName, opQueueId, storeTimestamp, {_number("trim(text)", "bigint")} AS opOffset
    FROM (SELECT brokerName, queueId AS opQueueId, storeTimestamp, explode(split(TEXT, ',')) AS text
        FROM {{stored}} WHERE topic = '{OP_TOPIC}' AND trim(tags) = 'd'))
WHERE opOffset IS NOT NULL
GROUP BY brokerName, opQueueId, opOffset
"""
_COMMITTED = f"""
SELECT brokerName, preparedTransactionOffset AS halfOffset, count(*) AS deliveries,
    min(queueOffset) AS committedQueueOffset, min(storeTimestamp) AS committedAt
FROM {{messages}} WHERE (sysFlag & {TYPE_MASK}) = {COMMIT_TYPE}
GROUP BY brokerName, preparedTransactionOffset
"""
_IDENTITY = "brokerName, transactionId, bornTimestamp, producerGroup"
_DISCARDED = f"""
SELECT brokerName, transactionId, bornTimestamp, {_GROUP} AS producerGroup,
    max(storeTimestamp) AS discardedAt
FROM {{stored}} WHERE topic = '{CHECK_MAX_TOPIC}'
GROUP BY brokerName, transactionId, bornTimestamp, {_GROUP}
"""
_FOUND = f"""
WITH own AS (
    SELECT h.*, o.opTimestamp AS ownOp
    FROM {{halves}} h LEFT JOIN {{ops}} o ON h.brokerName = o.brokerName
        AND h.halfQueueId = o.opQueueId AND h.halfQueueOffset = o.opOffset
), settled AS (
    SELECT h.*, coalesce(ownOp, o.opTimestamp) AS opTimestamp
    FROM own h LEFT JOIN {{ops}} o ON h.brokerName = o.brokerName
        AND h.halfQueueId = o.opQueueId AND h.standsFor = o.opOffset
), copies AS (
    SELECT s.*, deliveries, committedQueueOffset, committedAt, row_number() OVER (
        PARTITION BY s.brokerName, transactionId, bornTimestamp, producerGroup
        ORDER BY halfQueueOffset DESC) AS fromLast
    FROM settled s LEFT JOIN {{committed}} c
        ON s.brokerName = c.brokerName AND s.halfOffset = c.halfOffset
), joined AS (
    SELECT {_IDENTITY}, min(topic) AS topic, min(queueId) AS queueId,
        greatest(CAST(count_if(checks IS NULL AND standsFor IS NULL) AS bigint), CAST(1 AS bigint))
            AS halves,
        count(*) AS stored, coalesce(max(checks), 0) AS checkTimes,
        min(storeTimestamp) AS firstStored,
        max(CASE WHEN fromLast = 1 THEN storeTimestamp END) AS lastStored,
        max(CASE WHEN fromLast = 1 THEN opTimestamp END) AS lastOp,
        max(CASE WHEN fromLast = 1 THEN deliveries END) AS lastDeliveries,
        max(CASE WHEN fromLast = 1 THEN halfQueueOffset END) AS halfQueueOffset,
        max(CASE WHEN fromLast = 1 THEN halfOffset END) AS halfOffset,
        coalesce(CAST(sum(deliveries) AS bigint), CAST(0 AS bigint)) AS deliveries,
        min(committedQueueOffset) AS committedQueueOffset, min(committedAt) AS committedAt
    FROM copies GROUP BY {_IDENTITY}
), waiting AS (
    SELECT *, lastOp IS NULL AND lastDeliveries IS NULL AS waits
    FROM joined LEFT JOIN {{discarded}} USING ({_IDENTITY})
), states AS (
    SELECT *, CASE
        WHEN deliveries > 0 AND NOT (waits AND halves > 1) THEN 'committed'
        WHEN discardedAt >= lastStored THEN 'discarded'
        WHEN waits THEN 'pending'
        ELSE 'rolledBack' END AS state
    FROM waiting
), decided AS (
    SELECT *, CASE state WHEN 'committed' THEN committedAt WHEN 'discarded' THEN discardedAt
        WHEN 'rolledBack' THEN lastOp END AS decidedAt
    FROM states
)
SELECT brokerName, transactionId, producerGroup, topic, queueId, state, checkTimes, halves,
    stored - halves AS copies, deliveries, bornTimestamp, firstStored, lastStored, decidedAt,
    greatest(coalesce(unix_millis(decidedAt), CAST(NOW AS bigint)) - unix_millis(firstStored),
        CAST(0 AS bigint)) AS ageMs,
    halfQueueOffset, halfOffset, committedQueueOffset
FROM decided
"""
"""A producer that sent twice: the other half can wait although one is committed."""


def compute(stored: Table, messages: Table, as_of: datetime) -> Any:
    """One row per transaction. `stored`: half, op and overflow topic (HALF_COLUMNS); `messages`:
    all others (COMMITTED_COLUMNS). ageMs: of what is pending until `as_of`, of the others from the
    first half to the decision."""
    engine = engine_of(stored)
    stored = engine.keep(stored)
    return engine.sql(
        _FOUND.replace("NOW", str(round(as_of.timestamp() * 1000))),
        halves=engine.sql(_HALVES, stored=stored),
        ops=engine.sql(_OPS.replace("TEXT", engine.text("body")), stored=stored),
        committed=engine.sql(_COMMITTED, messages=messages),
        discarded=engine.sql(_DISCARDED, stored=stored),
    )


def transactions(where: Where, source: Source, *, as_of: datetime | None = None) -> Any:
    """From a source. What is read of user topics is narrow; a store without transactions gives no
    rows. With the source's `since` those that have a half stored since then, with `until` as they
    were at that time."""
    source.need_all("transactions", times=True)
    # What is decided later than `since` may name a half from before it: all of the log is joined.
    since, whole = source.since, replace(source, since=None)
    topics = exactly((HALF_TOPIC, OP_TOPIC, CHECK_MAX_TOPIC))
    # Halves before the messages: what is committed meanwhile is committed, not lost.
    stored = whole.load(where, HALF_COLUMNS, pattern=topics, system=True)
    messages = whole.load(where, COMMITTED_COLUMNS)
    found = compute(stored, messages, as_of or seen_at(source.until))
    return found if since is None else found.where(f"unix_millis(lastStored) >= {since}")


def seen_at(until: int | None) -> datetime:
    """The time up to which the log is read: now, or an earlier end."""
    now = datetime.now(UTC)
    if until is None or until >= now.timestamp() * 1000:
        return now
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=until)


def by_state(found: Table) -> Any:
    """One row per topic, producer group and state."""
    return engine_of(found).sql(
        """SELECT topic, producerGroup, state, count(*) AS `count`, avg(checkTimes) AS meanChecks,
            max(checkTimes) AS maxChecks, percentile_approx(ageMs, 0.5, 10000) AS p50AgeMs,
            max(ageMs) AS maxAgeMs, count_if(deliveries > 1) AS repeated
        FROM {found} GROUP BY topic, producerGroup, state
        ORDER BY topic NULLS FIRST, producerGroup, state""",
        found=found,
    )


def summary(found: Table, top: int = 20) -> str:
    rows = by_state(found).collect()
    counts = {state: sum(r["count"] for r in rows if r.state == state) for state in STATES}
    text = [
        f"{report.number(sum(counts.values()), 'transaction')}: {counts['pending']} pending, "
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
    text_of_waiting = f"""SELECT * FROM {{found}} WHERE state = 'pending'
        ORDER BY ageMs DESC, transactionId LIMIT {top}"""
    waiting = engine_of(found).sql(text_of_waiting, found=found).collect()
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


def plot(found: Table, path: str, note: str = "") -> None:
    """Transactions by topic, coloured by state."""
    from spark_ext.jobs.plot import bars

    text = "SELECT topic, state, count(*) AS `count` FROM {found} GROUP BY topic, state"
    rows = engine_of(found).sql(text, found=found).collect()
    counts = {(row.topic, row.state): row["count"] for row in rows}
    sums: dict[str, int] = {}
    for row in rows:
        sums[row.topic or ""] = sums.get(row.topic or "", 0) + row["count"]
    topics = sorted(sums, key=lambda topic: (-sums[topic], topic))
    order = ("committed", "rolledBack", "discarded", "pending")
    series = {s: [counts.get((t or None, s), 0) for t in topics] for s in order}
    bars(path, "Transactions by topic and state", topics, series, "transactions", note=note)


@click.command("transactions")
@source_options
@click.option("--top", type=click.IntRange(1), default=20, show_default=True)
@output_options()
@engine_options
def command(engine: Engine, source: Source, output: Output, top: int) -> None:
    """What became of the half messages in STORE: pending, committed, rolled back or discarded,
    how often their producers were asked, how old they are or became.

    The table has one row per transaction."""
    found = engine.keep(transactions(engine, source))
    click.echo(summary(found, top))
    output.write(engine, found)
    output.draw(lambda path, note: plot(found, path, note), source.text)


if __name__ == "__main__":
    run_alone(command)
