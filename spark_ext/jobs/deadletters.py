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
from typing import Any

import click

from pyrmq.errors import ProtocolError
from pyrmq.model.names import DLQ_PREFIX
from pyrmq.net import fastjson
from spark_ext.jobs import report
from spark_ext.jobs.command import Output, engine_options, output_options, run_alone, source_options
from spark_ext.jobs.engine import Engine, Table, Where, engine_of, schema_of
from spark_ext.jobs.errors import JobError
from spark_ext.jobs.local_read import local_path
from spark_ext.jobs.source import Source, exactly

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


def _property(name: str) -> str:
    return f"try_element_at(properties, '{name}')"


_IS_OFFSET_ID = """length(originMessageId) IN (32, 56)
    AND translate(originMessageId, '0123456789ABCDEF', '') = ''
    AND substr(right(originMessageId, 16), 1, 1) < '8'"""
"""offsetMsgId: address, port and physical offset in hex (a sign bit would be no offset). A unique
key has the same form."""
_OWN_LIMIT = _property("MAX_RECONSUME_TIMES")
_LETTERS = f"""
WITH named AS (
    SELECT *, substr(topic, {len(DLQ_PREFIX) + 1}) AS `group`,
        coalesce({_property("DLQ_ORIGIN_MESSAGE_ID")}, {_property("ORIGIN_MESSAGE_ID")})
            AS originMessageId,
        coalesce({_property("DLQ_ORIGIN_TOPIC")}, {_property("RETRY_TOPIC")}) AS origin,
        coalesce({_property("DLQ_ORIGIN_TOPIC")}, {_property("DLQ_ORIGIN_MESSAGE_ID")}) IS NOT NULL
            AS byProxy,
        CASE WHEN translate({_OWN_LIMIT}, '0123456789', '') IN ('', '-')
            THEN try_cast({_OWN_LIMIT} AS int) END AS ownLimit
    FROM {{dead}}
), limited AS (
    SELECT n.*, coalesce(ownLimit, l.most, {MAX_RETRIES}) AS allowed
    FROM named n LEFT JOIN {{limits}} l ON n.`group` = l.ofGroup
)
SELECT *,
    CASE WHEN byProxy THEN '{CAUSES[3]}'
        WHEN originMessageId = transactionId THEN '{CAUSES[2]}'
        WHEN reconsumeTimes > allowed THEN '{CAUSES[0]}'
        WHEN reconsumeTimes > 1 THEN '{CAUSES[4]}'
        ELSE '{CAUSES[1]}' END AS cause,
    CASE WHEN {_IS_OFFSET_ID}
        THEN try_cast(conv(right(originMessageId, 16), 16, 10) AS bigint) END AS originOffset
FROM limited
"""
_THERE = """
SELECT HINT o.topic AS origin, o.brokerName, o.queueId, o.queueOffset, o.commitLogOffset,
    o.storeTimestamp, o.transactionId
FROM {originals} o
    LEFT JOIN (SELECT DISTINCT origin, brokerName, originOffset FROM {letters}
        WHERE originOffset IS NOT NULL) a
        ON o.topic = a.origin AND o.brokerName = a.brokerName AND o.commitLogOffset = a.originOffset
    LEFT JOIN (SELECT DISTINCT origin, transactionId FROM {letters}
        WHERE transactionId IS NOT NULL) k
        ON o.topic = k.origin AND o.transactionId = k.transactionId
WHERE a.origin IS NOT NULL OR k.origin IS NOT NULL
"""
"""Few of all messages are wanted: they are picked, in one pass, before anything is sorted."""
_FOUND = """
WITH byKey AS (
    SELECT *, row_number() OVER (PARTITION BY origin, transactionId
        ORDER BY storeTimestamp, queueOffset, brokerName, queueId) AS number
    FROM {there} WHERE transactionId IS NOT NULL
), byOffset AS (
    SELECT *, row_number() OVER (PARTITION BY origin, brokerName, commitLogOffset, transactionId
        ORDER BY storeTimestamp, queueOffset, queueId) AS number
    FROM {there}
), found AS (
    SELECT l.*, coalesce(a.brokerName, k.brokerName) AS originalBroker,
        coalesce(a.queueId, k.queueId) AS originalQueueId,
        coalesce(a.queueOffset, k.queueOffset) AS originalQueueOffset,
        coalesce(a.storeTimestamp, k.storeTimestamp) AS originalTimestamp
    FROM {letters} l
        LEFT JOIN byOffset a ON a.number = 1 AND l.origin = a.origin
            AND l.brokerName = a.brokerName AND l.originOffset = a.commitLogOffset
            AND l.transactionId IS NOT DISTINCT FROM a.transactionId
        LEFT JOIN byKey k ON k.number = 1 AND l.origin = k.origin
            AND l.transactionId = k.transactionId
)
SELECT `group`, origin AS topic, cause, transactionId AS uniqueKey, keys, tags, reconsumeTimes,
    bodyLength, bornTimestamp, storeTimestamp AS deadTimestamp, brokerName,
    queueId AS deadQueueId, queueOffset AS deadQueueOffset, originMessageId,
    originalBroker IS NOT NULL AS originalFound, originalBroker, originalQueueId,
    originalQueueOffset, originalTimestamp,
    unix_millis(storeTimestamp) - unix_millis(originalTimestamp) AS diedMs, propertiesBODY
FROM found
"""


def _letters(dead: Table, max_retries: Mapping[str, int]) -> Table:
    engine = engine_of(dead)
    limits = engine.values(list(max_retries.items()), "ofGroup string, most int")
    return engine.sql(_LETTERS, dead=dead, limits=limits)


def compute(
    dead: Table,
    originals: Table | None = None,
    max_retries: Mapping[str, int] | None = None,
    few: bool = True,
) -> Any:
    """One row per dead letter (`dead`: COLUMNS, perhaps body), with the place of its original where
    `originals` (ORIGINAL_COLUMNS) has it; `max_retries` by group where it is not 16. `few`:
    the letters' keys fit in the memory of each worker and of the driver."""
    engine = engine_of(dead)
    letters = engine.keep(_letters(dead, max_retries or {}))
    if originals is None:
        originals = engine.values([], schema_of(ORIGINAL_COLUMNS))
    there = _THERE.replace("HINT", "/*+ BROADCAST(a, k) */" if few else "")
    return engine.sql(
        _FOUND.replace("BODY", ", body" if "body" in dead.columns else ""),
        letters=letters,
        there=engine.sql(there, originals=originals, letters=letters),
    )


def group_limits(paths: Sequence[str]) -> dict[str, int]:
    """retryMaxTimes by group from config/subscriptionGroup.json of store roots, where there is one.
    [SubscriptionGroupManager]"""
    limits: dict[str, int] = {}
    for path in paths:
        file = Path(local_path(path)) / "config" / "subscriptionGroup.json"
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
    where: Where,
    source: Source,
    *,
    groups: Sequence[str] = (),
    originals: bool = True,
    bodies: bool = False,
) -> Any:
    """From a source, of all groups or of those named. `originals`: look for them, which reads the
    topics that the dead letters came from, also what is older than the source's `since`; `bodies`:
    with a column body."""
    pattern = exactly(DLQ_PREFIX + group for group in groups) or f"{DLQ_PREFIX}.+"
    columns = (*COLUMNS, "body") if bodies else COLUMNS
    dead = source.load(where, columns, pattern=pattern, system=True)
    there, few = None, True
    if originals:
        engine = engine_of(where)
        dead = engine.keep(dead)
        text = """SELECT origin, count(*) AS `count` FROM {letters}
            WHERE origin IS NOT NULL GROUP BY origin"""
        rows = engine.sql(text, letters=_letters(dead, {})).collect()
        wanted = sorted(row.origin for row in rows)
        few = sum(row["count"] for row in rows) <= FEW
        if wanted:
            whole = originals_of(source)
            there = whole.load(where, ORIGINAL_COLUMNS, pattern=exactly(wanted), system=True)
    return compute(dead, there, group_limits(source.roots), few)


def originals_of(source: Source) -> Source:
    """The same source from the log's start: a letter that died since some time may be of a message
    from before it."""
    options = {n: v for n, v in source.options.items() if not n.lower().startswith("starting")}
    return replace(source, since=None, options=options)


def by_cause(found: Table) -> Any:
    """One row per group, topic and cause, the most first."""
    return engine_of(found).sql(
        """SELECT `group`, topic, cause, count(*) AS `count`,
            CAST(sum(bodyLength) AS bigint) AS bytes,
            count_if(originalFound) AS originals, max(reconsumeTimes) AS maxReconsumeTimes,
            min(deadTimestamp) AS first, max(deadTimestamp) AS last,
            percentile_approx(diedMs, 0.5, 10000) AS p50DiedMs
        FROM {found} GROUP BY `group`, topic, cause
        ORDER BY `count` DESC, `group`, topic NULLS FIRST, cause""",
        found=found,
    )


def summary(found: Table, top: int = 20) -> str:
    rows = by_cause(found).collect()
    total = sum(row["count"] for row in rows)
    there = sum(row.originals for row in rows)
    groups = len({row.group for row in rows})
    are = "original is" if there == 1 else "originals are"
    text = [
        f"{report.number(total, 'dead letter')} of {report.number(groups, 'group')}; "
        f"{there} {are} in the log"
    ]
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


def plot(found: Table, path: str, note: str = "") -> None:
    """Dead letters by group, coloured by cause."""
    from spark_ext.jobs.plot import bars

    text = "SELECT `group`, cause, count(*) AS `count` FROM {found} GROUP BY `group`, cause"
    rows = engine_of(found).sql(text, found=found).collect()
    counts = {(row.group, row.cause): row["count"] for row in rows}
    sums: dict[str, int] = {}
    for row in rows:
        sums[row.group] = sums.get(row.group, 0) + row["count"]
    groups = sorted(sums, key=lambda group: (-sums[group], group))
    series = {c: [counts.get((g, c), 0) for g in groups] for c in CAUSES}
    bars(path, "Dead letters by group and cause", groups, series, "messages", note=note)


@click.command("deadletters")
@source_options
@click.option("-g", "--group", "groups", multiple=True, help="This group only; may be repeated.")
@click.option("--no-originals", is_flag=True, help="Do not look for the originals.")
@click.option("--bodies", is_flag=True, help="A column with the bodies in the table.")
@click.option("--top", type=click.IntRange(1), default=20, show_default=True)
@output_options()
@engine_options
def command(
    engine: Engine,
    source: Source,
    output: Output,
    groups: tuple[str, ...],
    no_originals: bool,
    bodies: bool,
    top: int,
) -> None:
    """Dead letters in STORE by group, topic and cause, with where their originals stand.

    The table has one row per dead letter."""
    chosen = deadletters(engine, source, groups=groups, originals=not no_originals, bodies=bodies)
    found = engine.keep(chosen)
    click.echo(summary(found, top))
    output.write(engine, found)
    output.draw(lambda path, note: plot(found, path, note), source.text)


if __name__ == "__main__":
    run_alone(command)
