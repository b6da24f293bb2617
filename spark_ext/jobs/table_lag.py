"""`pyrmq pipeline table lag`: how far an Iceberg table is behind its topic, by queue."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from pyrmq.escape import escape
from pyrmq.segments.store import open_stores
from pyrmq.tables import behind, history
from pyrmq.tables.behind import QueueLag
from pyrmq.tables.commit import Waiting
from pyrmq.tables.history import Pinned
from spark_ext.jobs import report
from spark_ext.jobs.command import run_alone, source_options
from spark_ext.jobs.errors import JobError
from spark_ext.jobs.table_service import (
    Duration,
    all_messages,
    catalog_options,
    opened,
    storage_options,
)
from spark_ext.option_names import option_names

if TYPE_CHECKING:
    from spark_ext.jobs.source import Source

LATE = 3
"""Exit code of a table that is further behind than --max-age, or that lost messages."""


def lag(pinned: Pinned, source: Source) -> list[QueueLag]:
    """What the table lacks of each queue in the stores, or the brokers, of a source."""
    source.need_all("table lag")
    if source.name_server:
        return _of_brokers(pinned, source)
    wrong = [name for name in source.options if name.lower() != "storageoptions"]
    if wrong:
        raise JobError(f"table lag does not take -o {', -o '.join(wrong)}: leave it out")
    stores = open_stores(source.paths, source.broker_names, storage_options(source.options))
    return behind.of_stores(pinned, stores)


def _of_brokers(pinned: Pinned, source: Source) -> list[QueueLag]:
    try:
        from spark_ext.history_brokers import BrokerTail
    except ImportError as error:
        raise JobError(
            f"reads through brokers are those of Spark's source, and PySpark is not installed "
            f"({error}): pip install 'pyrmq-broker[spark]', or name stores"
        ) from None

    assert source.name_server is not None
    tail = BrokerTail(pinned, {**source.options, "nameServer": source.name_server})
    ranges = tail.ranges()
    starts = {q: max(begin, least) for q, (begin, least, _) in ranges.items()}
    times = tail.oldest({q: n for q, n in starts.items() if n < ranges[q][2]})
    found = []
    for queue, (begin, least, most) in ranges.items():
        known = pinned.ends is not None and pinned.ends.queue(queue.broker_name, queue.queue_id)
        found.append(
            QueueLag(
                queue.broker_name,
                queue.queue_id,
                begin if known else 0,
                most,
                most - starts[queue],
                None,
                max(0, least - begin) if known else 0,
                times.get((queue.broker_name, queue.queue_id)),
            )
        )
    return found


def shown(pinned: Pinned, found: list[QueueLag], now: int) -> dict[str, Any]:
    """As JSON: of the table, and by queue."""
    committed = pinned.iceberg.current_snapshot()
    return {
        "table": pinned.name,
        "topic": pinned.topic,
        "snapshotId": pinned.snapshot,
        "committedAt": None if committed is None else committed.timestamp_ms,
        "measuredAt": now,
        "messages": sum(one.messages for one in found),
        "bytes": _total(found),
        "gone": sum(one.gone for one in found),
        "behindMs": max((one.behind(now) for one in found), default=0),
        "queues": [{**asdict(one), "behindMs": one.behind(now)} for one in found],
    }


def _total(found: list[QueueLag]) -> int | None:
    sizes = [one.bytes for one in found]
    return None if None in sizes else sum(size or 0 for size in sizes)


def summary(said: dict[str, Any], top: int = 20) -> str:
    size = "" if said["bytes"] is None else f", {report.size(said['bytes'])} of log"
    text = [
        f"{escape(said['table'])} of topic {escape(said['topic'])}: "
        f"{report.number(said['messages'], 'message')} behind{size}, the oldest is "
        f"{report.duration(said['behindMs'])} old"
        if said["messages"]
        else f"{escape(said['table'])} of topic {escape(said['topic'])} has all messages"
    ]
    if said["gone"]:
        text.append(
            f"{report.number(said['gone'], 'message')} that the table does not have are deleted: "
            "they are lost"
        )
    rows = sorted(said["queues"], key=lambda row: (-row["behindMs"], -row["messages"]))
    table = [
        [
            row["brokerName"],
            row["queueId"],
            row["tableEnd"],
            row["logEnd"],
            row["messages"],
            report.size(row["bytes"]),
            row["gone"],
            report.duration(row["behindMs"]),
        ]
        for row in rows[:top]
    ]
    if table:
        titles = ("broker", "queue", "table", "log", "messages", "bytes", "gone", "behind by")
        text += ["", report.lines(titles, table, optional=("bytes", "gone"))]
    if len(rows) > top:
        text.append(f"... and {len(rows) - top} more")
    return "\n".join(text)


@all_messages
@click.command("lag")
@source_options
@click.option("--table", "name", required=True, help="The table, such as mq.orders.")
@catalog_options
@click.option(
    "--max-age",
    type=Duration(),
    help=f"Exit code {LATE} if the oldest message that the table lacks is older: 10m, 1h, …",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with all queues.")
@click.option("--top", type=click.IntRange(1), default=20, show_default=True)
@click.pass_context
@option_names()
def command(
    ctx: click.Context,
    source: Source,
    name: str,
    catalog: str,
    catalog_property: tuple[tuple[str, str], ...],
    wait: float,
    max_age: float | None,
    as_json: bool,
    top: int,
) -> None:
    """How far an Iceberg table is behind STORE, or the brokers of -n: messages, bytes, and the age
    of the oldest message that it lacks, by queue."""
    there = opened(catalog, dict(catalog_property), Waiting(wait))
    pinned = history.pin(there, name)
    found = lag(pinned, source)
    now = round(datetime.now(UTC).timestamp() * 1000)
    said = shown(pinned, found, now)
    click.echo(json.dumps(said) if as_json else summary(said, top))
    if max_age is not None and (said["gone"] or said["behindMs"] > max_age * 1000):
        ctx.exit(LATE)


if __name__ == "__main__":
    run_alone(command)
