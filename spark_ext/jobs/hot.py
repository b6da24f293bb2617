"""Hot keys and sizes: what fills the log, and what is uneven in it.

One narrow pass counts by topic, queue, tag and size class; the topic's, queue's, tag's and size's
rows are sums of that. Keys take a second pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import click

from spark_ext.jobs import report
from spark_ext.jobs.command import Output, engine_options, output_options, run_alone, source_options
from spark_ext.jobs.engine import Engine, Table, Where, engine_of
from spark_ext.jobs.source import Source

COLUMNS = ("topic", "brokerName", "queueId", "tags", "keys", "bodyLength", "storeSize")
SCOPES = ("topic", "queue", "tag", "size", "key")
TOP_KEYS = 100
OPTIONAL = ("largest", "mean body", "share")
"""Columns of the summary that a narrow terminal does without; the table has them."""
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

    table: Any


_BASE = """
SELECT topic, brokerName, queueId, tags AS tag,
    CASE WHEN bodyLength > 0 THEN length(bin(CAST(bodyLength AS bigint))) - 1 ELSE -1 END AS class,
    count(*) AS messages,
    CAST(sum(storeSize) AS bigint) AS bytes,
    CAST(sum(bodyLength) AS bigint) AS bodyBytes,
    max(bodyLength) AS largest
FROM {messages}
GROUP BY topic, brokerName, queueId, tags,
    CASE WHEN bodyLength > 0 THEN length(bin(CAST(bodyLength AS bigint))) - 1 ELSE -1 END
"""
"""One pass: what all scopes but the keys are sums of. A class of sizes is a power of two; bodies of
no bytes are one of their own."""
_KEYS = f"""
SELECT topic, left(text, {MAX_KEY}) AS key, count(*) AS messages,
    CAST(sum(storeSize) AS bigint) AS bytes,
    CAST(sum(bodyLength) AS bigint) AS bodyBytes,
    max(bodyLength) AS largest
FROM (SELECT topic, storeSize, bodyLength, explode(split(keys, ' +')) AS text FROM {{messages}})
WHERE text <> ''
GROUP BY topic, left(text, {MAX_KEY})
ORDER BY messages DESC, topic, key
LIMIT {{top}}
"""
_SUMS = """CAST(sum(messages) AS bigint) AS messages, CAST(sum(bytes) AS bigint) AS bytes,
    CAST(sum(bodyBytes) AS bigint) AS bodyBytes, max(largest) AS largest"""
_FROM = "CAST(CASE WHEN class < 0 THEN 0 ELSE pow(2, class) END AS bigint)"
_BY_SCOPE = {
    "topic": ("topic", "topic"),
    "queue": ("topic, brokerName, queueId", "topic, brokerName, queueId"),
    "tag": ("topic, tag", "topic, tag"),
    "size": (f"topic, {_FROM} AS bodyFrom", f"topic, {_FROM}"),
}
"""What a scope's rows are made of, and how they are grouped."""
_SHAPE = {
    "topic": "string", "brokerName": "string", "queueId": "int", "tag": "string",
    "bodyFrom": "bigint", "key": "string", "messages": "bigint", "bytes": "bigint",
    "bodyBytes": "bigint", "largest": "int", "skew": "double",
}  # fmt: skip
_SKEW = """
SELECT topic, max(messages) / avg(messages) AS skew
FROM (SELECT topic, CAST(sum(messages) AS bigint) AS messages
    FROM {base} GROUP BY topic, brokerName, queueId)
GROUP BY topic
"""


def _shaped(scope: str, rows: str, has: Sequence[str]) -> str:
    """Rows of a scope in the shape of all; what it does not have is null."""
    columns = [
        f"CAST({name if name in has else 'NULL'} AS {kind}) AS {name}"
        for name, kind in _SHAPE.items()
    ]
    return f"SELECT '{scope}' AS scope, {', '.join(columns)} FROM ({rows})"


def compute(messages: Table, top_keys: int = TOP_KEYS) -> Hot:
    """From COLUMNS of messages. Messages of an inner batch count with the record's whole size. With
    `top_keys` 0 the pass over keys is left out."""
    engine = engine_of(messages)
    base = engine.keep(engine.sql(_BASE, messages=messages))
    tables = {"base": base}
    sums = ("messages", "bytes", "bodyBytes", "largest")
    parts = []
    for scope, (columns, groups) in _BY_SCOPE.items():
        rows = f"SELECT {columns}, {_SUMS} FROM {{base}} GROUP BY {groups}"
        names = ["topic", "bodyFrom"] if scope == "size" else columns.split(", ")
        if scope == "topic":
            rows = f"SELECT * FROM ({rows}) JOIN ({_SKEW}) USING (topic)"
            names.append("skew")
        parts.append(_shaped(scope, rows, [*names, *sums]))
    if top_keys:
        tables["keys"] = engine.sql(_KEYS.replace("{top}", str(top_keys)), messages=messages)
        parts.append(_shaped("key", "SELECT * FROM {keys}", ["topic", "key", *sums]))
    whole = f"""SELECT t.*, bytes / allBytes AS share FROM ({" UNION ALL ".join(parts)}) t
        CROSS JOIN (SELECT sum(bytes) AS allBytes FROM {{base}})"""
    return Hot(engine.sql(whole, **tables))


def hot(
    where: Where,
    source: Source,
    *,
    topics: Sequence[str] = (),
    pattern: str | None = None,
    system: bool = False,
    top_keys: int = TOP_KEYS,
) -> Hot:
    """From a source: of some topics, of those that match, or of all user topics."""
    messages = source.load(where, COLUMNS, topics=topics, pattern=pattern, system=system)
    return compute(messages, top_keys)


def _order(row: Any) -> tuple[Any, ...]:
    """The largest first; what is alike in one order with every engine."""
    names = row.topic, row.brokerName or "", row.tag or "", row.key or ""
    return -row.bytes, -row.messages, *names, row.queueId or 0, row.bodyFrom or 0


def summary(found: Hot, top: int = 20) -> str:
    rows = sorted(found.table.collect(), key=_order)
    by_scope = {scope: [row for row in rows if row.scope == scope] for scope in SCOPES}
    topics = by_scope["topic"]
    text = [
        report.wrapped(
            f"{report.number(sum(r.messages for r in topics), 'message')}, "
            f"{report.size(sum(r.bytes for r in topics))} of records, "
            f"{report.number(len(topics), 'topic')}, "
            f"{report.number(len(by_scope['queue']), 'queue')}"
        )
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
            text.extend(["", title, report.lines(titles, lines, optional=OPTIONAL)])
        if len(part) > top:
            text.append(f"... and {len(part) - top} more")

    table("Topics (skew: busiest queue over the mean)", "topic", ["topic"], ["skew"])
    table("Queues", "queue", ["topic", "brokerName", "queueId"])
    table("Tags", "tag", ["topic", "tag"])
    table("Body sizes (from, up to twice that)", "size", ["topic", "bodyFrom"])
    table("Keys", "key", ["topic", "key"])
    return "\n".join(text)


def plot(found: Hot, path: str, note: str = "") -> None:
    """Bytes of the topics, bodies and the rest of the records."""
    from spark_ext.jobs.plot import bars

    topics = found.table.where("scope = 'topic'").collect()
    rows = sorted(topics, key=lambda row: (-row.bytes, row.topic))
    bars(
        path,
        "What fills the log",
        [row.topic for row in rows],
        {
            "bodies": [min(row.bodyBytes, row.bytes) for row in rows],
            "headers and properties": [max(row.bytes - row.bodyBytes, 0) for row in rows],
        },
        "bytes",
        note=note,
    )


@click.command("hot")
@source_options
@click.option("-t", "--topic", "topics", multiple=True, help="This topic only; may be repeated.")
@click.option("--pattern", help="Topics whose whole name matches this regular expression.")
@click.option("--system", is_flag=True, help="The broker's own topics as well.")
@click.option("--top", type=click.IntRange(1), default=20, show_default=True)
@click.option("--top-keys", type=click.IntRange(0, 100_000), default=TOP_KEYS, show_default=True)
@output_options()
@engine_options
def command(
    engine: Engine,
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
    found = hot(engine, source, topics=topics, pattern=pattern, system=system, top_keys=top_keys)
    found = Hot(engine.keep(found.table))
    click.echo(summary(found, top))
    output.write(engine, found.table)
    output.draw(lambda path, note: plot(found, path, note), source.text)


if __name__ == "__main__":
    run_alone(command)
