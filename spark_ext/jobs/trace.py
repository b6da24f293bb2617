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
from typing import Any

import click

from pyrmq.escape import escape
from spark_ext.jobs import report
from spark_ext.jobs.command import Output, engine_options, output_options, run_alone, source_options
from spark_ext.jobs.engine import Engine, Table, Where, engine_of
from spark_ext.jobs.errors import JobError
from spark_ext.jobs.source import Source, exactly

# The records that clients write to the trace topic. [TraceDataEncoder] The body of a message holds
# records that end in 0x02, their fields stand between 0x01. Old clients write Pub without
# offsetMsgId; missing texts are the word `null`. Behind the type stand:
#
# Pub: time, region, group, topic, msgId, tags, keys, storeHost, bodyLength, cost, msgType,
#   offsetMsgId, success[, clientHost]
# SubBefore: time, region, group, requestId, msgId, retryTimes, keys
# SubAfter: requestId, msgId, cost, success, keys[, contextCode[, time, group]]
# EndTransaction: time, region, group, topic, msgId, tags, keys, storeHost, msgType, transactionId,
#   state, fromCheck
# Recall: time, region, group, topic, msgId, success
TYPES = ("Pub", "SubBefore", "SubAfter", "EndTransaction", "Recall")
PLACES: dict[str, dict[str, int]] = {
    "Pub": {
        "time": 1, "group": 3, "topic": 4, "msgId": 5, "keys": 7, "storeHost": 8,
        "bodyLength": 9, "cost": 10, "clientHost": 14,
    },
    "SubBefore": {"time": 1, "group": 3, "requestId": 4, "msgId": 5, "retryTimes": 6, "keys": 7},
    "SubAfter": {
        "requestId": 1, "msgId": 2, "cost": 3, "success": 4, "keys": 5, "contextCode": 6,
        "time": 7, "group": 8,
    },
    "EndTransaction": {
        "time": 1, "group": 3, "topic": 4, "msgId": 5, "keys": 7, "storeHost": 8,
        "transactionId": 10, "state": 11, "fromCheck": 12,
    },
    "Recall": {"time": 1, "group": 3, "topic": 4, "msgId": 5, "success": 6},
}  # fmt: skip
"""Where the fields stand; `success` of Pub depends on the count of fields."""
NUMBERS = {"time": "bigint", "cost": "int", "bodyLength": "int", "retryTimes": "int"}
TEXTS = (
    "group", "topic", "msgId", "requestId", "keys", "storeHost", "clientHost", "transactionId",
    "state",
)  # fmt: skip
NEEDED = {
    "Pub": ("time", "group", "topic", "msgId", "cost"),
    "SubBefore": ("time", "group", "requestId", "msgId"),
    "SubAfter": ("requestId", "msgId", "cost"),
    "EndTransaction": ("time", "group", "topic", "msgId", "state"),
    "Recall": ("time", "group", "topic", "msgId"),
}
"""Fields without which a record is none."""

MAX_TIME = 32_503_680_000_000
"""Times lie in front of the year 3000, in ms: a foreign record's may be any number, and Spark fails
on one that it cannot compute with."""


def _field(name: str) -> str:
    """SQL for a field's text by the record's type; null where the type has no such field."""
    cases = [
        f"WHEN '{kind}' THEN get(f, {places[name]})"
        for kind, places in PLACES.items()
        if name in places
    ]
    return f"CASE type {' '.join(cases)} END"


def _number(text: str, kind: str) -> str:
    """Digits only: engines differ in what else they take for a number."""
    bare = f"translate({text}, '0123456789', '')"
    return f"CASE WHEN {bare} IN ('', '-') THEN try_cast({text} AS {kind}) END"


def _truth(text: str) -> str:
    return f"CASE lower({text}) WHEN 'true' THEN true WHEN 'false' THEN false END"


def _texts() -> str:
    """SQL for the fields as texts, by the names that they have in PLACES."""
    # Pub: 13 fields end in success; of 14 offsetMsgId stands before it, of 15 clientHost behind.
    pub = "CASE WHEN size(f) = 13 THEN get(f, 12) ELSE get(f, 13) END"
    names = dict.fromkeys(name for places in PLACES.values() for name in places)
    columns = [f"{_field(name)} AS `{name}`" for name in names if name != "success"]
    columns.append(f"CASE WHEN type = 'Pub' THEN {pub} ELSE {_field('success')} END AS success")
    known = ", ".join(f"'{kind}'" for kind in TYPES)
    columns.append(f"CASE WHEN type IN ({known}) THEN type END AS type")
    return ", ".join(columns)


def _fields() -> str:
    columns = [f"{_number(f'`{n}`', kind)} AS `{n}`" for n, kind in NUMBERS.items()]
    columns += [f"nullif(nullif(`{name}`, ''), 'null') AS `{name}`" for name in TEXTS]
    columns += [
        f"{_number('contextCode', 'int')} AS contextCode",
        f"{_truth('success')} AS success",
        f"{_truth('fromCheck')} AS fromCheck",
    ]
    return ", ".join(columns)


def _good() -> str:
    complete = [
        f"WHEN '{kind}' THEN {' AND '.join(f'`{name}` IS NOT NULL' for name in names)}"
        for kind, names in NEEDED.items()
    ]
    return (
        f"coalesce(CASE type {' '.join(complete)} END, false)"
        f" AND (`time` IS NULL OR (`time` >= 0 AND `time` < {MAX_TIME}))"
        " AND (cost IS NULL OR cost >= 0)"
    )


def parse(messages: Table) -> Table:
    """One row per trace record of `messages` (columns body, storeTimestamp): type, the fields of
    PLACES, storeTimestamp, and `bad`: it is no record that these rules know."""
    engine: Engine = engine_of(messages)
    records = f"""SELECT storeTimestamp, explode(split({engine.text("body")}, chr(2))) AS record
        FROM {{messages}}"""
    split = f"""SELECT storeTimestamp, split(record, chr(1)) AS f
        FROM ({records}) WHERE trim(record) <> ''"""
    typed = f"SELECT *, get(f, 0) AS type FROM ({split})"
    texts = f"SELECT storeTimestamp, {_texts()} FROM ({typed})"
    fields = f"SELECT type, storeTimestamp, {_fields()} FROM ({texts})"
    return engine.sql(f"SELECT *, NOT ({_good()}) AS bad FROM ({fields})", messages=messages)


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

    records: Any
    groups: Any


_COSTS = """
    avg(cost) AS meanMs,
    percentile_approx(cost, 0.5{accuracy}) AS p50Ms,
    percentile_approx(cost, 0.95{accuracy}) AS p95Ms,
    percentile_approx(cost, 0.99{accuracy}) AS p99Ms,
    max(cost) AS maxMs,
    timestamp_millis(min(`time`)) AS firstTime,
    timestamp_millis(max(`time`)) AS lastTime""".format(accuracy=f", {ACCURACY}")
_TYPES = {
    "kind": "string", "group": "string", "topic": "string", "count": "bigint", "failed": "bigint",
    "successRate": "double", "meanMs": "double", "p50Ms": "int", "p95Ms": "int", "p99Ms": "int",
    "maxMs": "int", "retries": "bigint", "unfinished": "bigint", "waitP50Ms": "bigint",
    "waitP95Ms": "bigint", "waitMaxMs": "bigint", "firstTime": "timestamp", "lastTime": "timestamp",
}  # fmt: skip
_ENDS = f"""
SELECT `group`, topic, count(*) AS `count`,
    count_if(NOT coalesce(GOOD, false)) AS failed,
    1 - count_if(NOT coalesce(GOOD, false)) / count(*) AS successRate, {_COSTS}
FROM {{records}} WHERE NOT bad AND type = 'TYPE' GROUP BY `group`, topic
"""
"""Sends, and ends of transactions."""
_CONSUMPTION = f"""
WITH before AS (
    SELECT requestId, msgId, min(`group`) AS `group`, min(`time`) AS begin,
        max(retryTimes) AS retryTimes
    FROM {{records}} WHERE NOT bad AND type = 'SubBefore' GROUP BY requestId, msgId
), after AS (
    SELECT requestId, msgId, min(`group`) AS afterGroup, max(cost) AS cost,
        bool_and(success) AS success, max(`time`) AS finish
    FROM {{records}} WHERE NOT bad AND type = 'SubAfter' GROUP BY requestId, msgId
), sent AS (
    SELECT msgId, min(topic) AS topic, min(`time` + cost) AS sentAt
    FROM (SELECT topic, `time`, cost, explode(split(msgId, ',')) AS msgId
        FROM {{records}} WHERE NOT bad AND type = 'Pub')
    GROUP BY msgId
), attempts AS (
    SELECT coalesce(`group`, afterGroup) AS `group`, topic, cost, success, retryTimes,
        coalesce(begin, finish) AS `time`,
        CASE WHEN coalesce(retryTimes, 0) = 0 AND begin IS NOT NULL AND sentAt IS NOT NULL
            THEN greatest(begin - sentAt, CAST(0 AS bigint)) END AS wait
    FROM before FULL JOIN after USING (requestId, msgId) LEFT JOIN sent USING (msgId)
)
SELECT `group`, topic, count(*) AS `count`,
    count_if(NOT success) AS failed,
    CASE WHEN count(success) > 0 THEN 1 - count_if(NOT success) / count(success) END AS successRate,
    {_COSTS},
    count_if(retryTimes > 0) AS retries,
    count(*) - count(success) AS unfinished,
    percentile_approx(wait, 0.5, {ACCURACY}) AS waitP50Ms,
    percentile_approx(wait, 0.95, {ACCURACY}) AS waitP95Ms,
    max(wait) AS waitMaxMs
FROM attempts GROUP BY `group`, topic
"""
"""SubAfter has a group only from 4.9 on, and never a topic: the one comes from the SubBefore of the
same request, the other from the Pub of the same message. A batch has one Pub record with the ids of
all its messages."""
_WAITS = ("retries", "unfinished", "waitP50Ms", "waitP95Ms", "waitMaxMs")


def _result(rows: str, kind: str) -> str:
    """The columns of RESULT; those that a kind does not have are null."""
    columns = []
    for name in RESULT:
        value = "NULL" if kind != "consume" and name in _WAITS else f"`{name}`"
        value = f"'{kind}'" if name == "kind" else value
        columns.append(f"CAST({value} AS {_TYPES[name]}) AS `{name}`")
    return f"SELECT {', '.join(columns)} FROM ({rows})"


def compute(messages: Table) -> Trace:
    """From the messages of a trace topic (COLUMNS). successRate: of what has ended; unfinished:
    attempts to consume of which no end is known."""
    engine = engine_of(messages)
    records = engine.keep(parse(messages))
    ends = {
        "send": _ENDS.replace("TYPE", "Pub").replace("GOOD", "success"),
        "consume": _CONSUMPTION,
        "transaction": _ENDS.replace("TYPE", "EndTransaction").replace(
            "GOOD", "state = 'COMMIT_MESSAGE'"
        ),
    }
    parts = " UNION ALL ".join(_result(rows, kind) for kind, rows in ends.items())
    order = "kind, p95Ms DESC NULLS LAST, `group` NULLS FIRST, topic NULLS FIRST"
    groups = engine.sql(f"SELECT * FROM ({parts}) ORDER BY {order}", records=records)
    return Trace(records, engine.keep(groups))


def trace(where: Where, source: Source, *, topic: str = TRACE_TOPIC) -> Trace:
    """From a source; `topic` is the trace topic, where clients use one of their own."""
    return compute(source.load(where, COLUMNS, pattern=exactly([topic]), system=True))


def summary(found: Trace, top: int = 20) -> str:
    text = "SELECT type, bad, count(*) AS count FROM {records} GROUP BY type, bad"
    kinds = engine_of(found.records).sql(text, records=found.records).collect()
    counts: dict[str, int] = {}
    for row in kinds:
        name = "not readable" if row.bad else row.type
        counts[name] = counts.get(name, 0) + row["count"]
    total = sum(counts.values())
    lines = [
        f"{report.number(total, 'trace record')}: "
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
            lines += ["", title, _table(kind, part[:top])]
        if len(part) > top:
            lines.append(f"... and {len(part) - top} more")
    return "\n".join(lines)


def _table(kind: str, rows: list[Any]) -> str:
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


def plot(found: Trace, path: str, note: str = "") -> None:
    """p50 and what p95 has on top of it, for the slowest groups: what sends and consumption take,
    how long messages wait for their first attempt to be consumed, and what failed."""
    from spark_ext.jobs.plot import MAX_BARS, bars

    slow = found.groups.where("p95Ms IS NOT NULL OR failed > 0 OR unfinished > 0").collect()
    slow = sorted(slow, key=lambda r: (-max(r.p95Ms or 0, r.waitP95Ms or 0), -r.failed))
    names: list[str] = []
    said: list[str] = []
    series: dict[str, list[float]] = {
        "p50": [], "up to p95": [], "wait p50": [], "wait up to p95": [],
    }  # fmt: skip

    def row(name: str, text: str, cost: tuple[Any, Any], wait: tuple[Any, Any]) -> None:
        names.append(name)
        said.append(text)
        for (p50, p95), (first, more) in ((cost, ("p50", "up to p95")),
                                          (wait, ("wait p50", "wait up to p95"))):  # fmt: skip
            series[first].append(p50 or 0)
            series[more].append((p95 or 0) - (p50 or 0))

    for r in slow:
        row(f"{r.kind} {r.group}", _ends(r), (r.p50Ms, r.p95Ms), (0, 0))
        if r.waitP95Ms is not None:
            row(f"wait {r.group}", "", (0, 0), (r.waitP50Ms, r.waitP95Ms))
    title = "What sends and consumption take, and how long messages wait"
    cut = {name: values[:MAX_BARS] for name, values in series.items()}
    bars(path, title, names, cut, "ms", note=note, said=said)


def _ends(row: Any) -> str:
    """What of a row's sends, attempts or transactions did not go well."""
    parts = [f"{row.failed:,} of {row['count']:,} failed" if row.failed else ""]
    parts.append(f"{row.unfinished:,} unfinished" if row.unfinished else "")
    return ", ".join(part for part in parts if part)


@click.command("trace")
@source_options
@click.option("--topic", default=TRACE_TOPIC, show_default=True, help="The trace topic.")
@click.option("--top", type=click.IntRange(1), default=20, show_default=True)
@output_options()
@engine_options
def command(engine: Engine, source: Source, output: Output, topic: str, top: int) -> None:
    """Latencies and success rates of sends and consumption, from the trace topic in STORE.

    The table has one row per kind (send, consume, transaction), group and topic."""
    found = trace(engine, source, topic=topic)
    if source.since is None and source.until is None and not found.records.count():
        raise JobError(
            f"there is no trace topic {escape(topic)}, or nothing in it: brokers have one with "
            "traceTopicEnable=true, clients write to it with message tracing switched on; "
            "--topic names another one"
        )
    click.echo(summary(found, top))
    output.write(engine, found.groups)
    output.draw(lambda path, note: plot(found, path, note), source.text)


if __name__ == "__main__":
    run_alone(command)
