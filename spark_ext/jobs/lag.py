"""Backlog of consumer groups: the queues' heads in the log against consumerOffset.json.

The store's files are all that is asked: the broker may be stopped, or elsewhere. A message is in
the backlog when its queue offset is not below the group's; how long the group is behind is the age
of the first such message.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from pyrmq.errors import ProtocolError
from pyrmq.escape import escape
from pyrmq.model.names import SYSTEM_GROUP_PREFIX
from pyrmq.net import fastjson
from spark_ext.jobs import report
from spark_ext.jobs.command import Output, engine_options, output_options, run_alone, source_options
from spark_ext.jobs.early import before, near
from spark_ext.jobs.engine import Engine, Table, Where, engine_of
from spark_ext.jobs.errors import JobError
from spark_ext.jobs.local_read import local_path
from spark_ext.jobs.source import Source, exactly

FILES = ("consumerOffset.json", "consumerOffset.json.bak", "lmqConsumerOffset.json")
"""In `config` of a store root, the first that can be read; the last is used with enableLmq."""
MAX_SIZE = 256 << 20

Row = tuple[str, str, str, int, int]
"""brokerName, group, topic, queueId, next offset to consume"""
OFFSETS_SCHEMA = "brokerName string, group string, topic string, queueId int, consumerOffset bigint"


def _read(path: Path) -> dict[object, object] | None:
    try:
        if path.stat().st_size > MAX_SIZE:
            raise JobError(f"{path} has more than {MAX_SIZE} bytes: it cannot be what it should be")
        return fastjson.loads_object(path.read_bytes(), MAX_SIZE)
    except FileNotFoundError:
        return None


def read_offsets(root: Path, broker: str) -> list[Row]:
    """What a store root's configuration says. The broker writes it every 5 seconds: progress that
    is younger is not in it. JobError if there is no file that can be read."""
    damaged = []
    for name in FILES:
        path = root / "config" / name
        try:
            value = _read(path)
        except ProtocolError as e:
            damaged.append(f"{path}: {e}")
            continue
        except OSError as e:
            raise JobError(f"{path} cannot be read: {e.strerror or e}") from e
        if value is not None:
            return list(_rows(value, broker))
    if damaged:
        raise JobError("; ".join(damaged))
    raise JobError(
        f"{root} has no config/{FILES[0]}: lag needs a store root as the broker left it, "
        "or --offsets with the file's place; a broker without consumers has none"
    )


def _rows(value: dict[object, object], broker: str) -> Iterator[Row]:
    table = value.get("offsetTable")
    for key, queues in (table if isinstance(table, dict) else {}).items():
        # A topic holds no `@`; the keys of queues may be numbers or text.
        topic, found, group = str(key).partition("@")
        if not found or not isinstance(queues, dict):
            continue
        for queue, offset in queues.items():
            try:
                row = broker, group, topic, int(queue), int(offset)
            except (TypeError, ValueError):
                continue
            if 0 <= row[3] < 1 << 31 and abs(row[4]) < 1 << 63:
                yield row


COLUMNS = ("topic", "brokerName", "queueId", "queueOffset", "storeTimestamp")
SCHEMA = (
    "measuredAt timestamp, group string, topic string, brokerName string, queueId int, "
    "consumerOffset bigint, firstOffset bigint, headOffset bigint, backlog bigint, gone bigint, "
    "oldestTimestamp timestamp, behindMs bigint"
)
"""Columns of the result, one row per group and queue."""


_LAG = """
WITH heads AS (
    SELECT /*+ BROADCAST(o) */ `group`, brokerName, topic, queueId,
        min(queueOffset) AS firstOffset,
        max(queueOffset) + 1 AS headOffset,
        min(CASE WHEN queueOffset >= consumerOffset THEN storeTimestamp END) AS oldestTimestamp
    FROM {messages} JOIN {offsets} o USING (brokerName, topic, queueId)
    GROUP BY `group`, brokerName, topic, queueId
)
SELECT timestamp_millis(NOW) AS measuredAt, `group`, topic, brokerName, queueId, consumerOffset,
    firstOffset, headOffset,
    CASE WHEN headOffset IS NULL THEN CAST(0 AS bigint)
        ELSE greatest(headOffset - greatest(consumerOffset, CAST(0 AS bigint)), CAST(0 AS bigint))
        END AS backlog,
    CASE WHEN firstOffset IS NULL THEN CAST(0 AS bigint)
        ELSE greatest(firstOffset - greatest(consumerOffset, CAST(0 AS bigint)), CAST(0 AS bigint))
        END AS gone,
    oldestTimestamp,
    greatest(NOW - unix_millis(oldestTimestamp), CAST(0 AS bigint)) AS behindMs
FROM {offsets} LEFT JOIN heads USING (`group`, brokerName, topic, queueId)
"""
"""Offsets are few: joined by broadcast and summed where they are read, messages go nowhere."""


def compute(messages: Table, offsets: Table, as_of: datetime) -> Any:
    """Backlog per group and queue. `messages` has COLUMNS, `offsets` those of
    `OFFSETS_SCHEMA`; `as_of` is the time that it is measured at.

    headOffset: the next offset that the queue will give; firstOffset: the oldest in the log; both
    null for a queue without messages in the log. backlog = head - consumerOffset, at least 0;
    gone: how many of them are no longer in the log; behindMs: age of the first one that is, 0 if
    none is."""
    now = f"CAST({round(as_of.astimezone(UTC).timestamp() * 1000)} AS bigint)"
    text = _LAG.replace("NOW", now)
    return engine_of(messages).sql(text, messages=messages, offsets=offsets)


def lag(
    where: Where,
    source: Source,
    *,
    groups: Sequence[str] = (),
    system: bool = False,
    offset_files: Sequence[str] = (),
    as_of: datetime | None = None,
) -> Any:
    """Backlog of the groups (all, or those named) in the stores of a source. `offset_files`: one
    store root per store of the source, where config/ is not beside the log; `system`: with the
    broker's own groups."""
    _check(source)
    stores = source.roots
    roots = [Path(local_path(p)) for p in offset_files or stores]
    names = _broker_names(source, len(stores), len(roots))
    # Offsets first: a head that is read later is never below them.
    every = [
        row for root, name in zip(roots, names, strict=True) for row in read_offsets(root, name)
    ]
    known = {row[1] for row in every}
    for group in groups:
        if group not in known:
            raise JobError(
                f"no offsets of {escape(group)}, not a group of these brokers: {near(group, known)}"
            )
    rows = [
        row
        for row in every
        if (row[1] in groups if groups else system or not row[1].startswith(SYSTEM_GROUP_PREFIX))
    ]
    offsets = engine_of(where).values(rows, OFFSETS_SCHEMA)
    pattern = exactly(sorted({row[2] for row in rows})) or "-"
    messages = source.load(where, COLUMNS, pattern=pattern, system=True)
    return compute(messages, offsets, as_of or datetime.now(UTC))


def _check(source: Source, **_: Any) -> None:
    """JobError for a source that lag cannot be told from."""
    if not source.paths:
        raise JobError("lag reads consumerOffset.json: name store folders, not a name server")
    source.need_all("lag")


def _broker_names(source: Source, stores: int, offset_files: int) -> list[str]:
    if offset_files != stores:
        raise JobError(f"{offset_files} offset files for {stores} stores: one for each")
    if source.broker_names:
        if len(source.broker_names) != stores:
            raise JobError(f"{len(source.broker_names)} broker names for {stores} stores")
        return list(source.broker_names)
    from pyrmq.segments.store import open_stores

    return [store.name for store in open_stores(list(source.paths))]


def by_group(measured: Table) -> Any:
    """Sums over queues, the longest backlog first."""
    return engine_of(measured).sql(
        """SELECT `group`, topic, count(*) AS queues, CAST(sum(backlog) AS bigint) AS backlog,
            max(backlog) AS longest, CAST(sum(gone) AS bigint) AS gone, max(behindMs) AS behindMs
        FROM {measured} GROUP BY `group`, topic ORDER BY backlog DESC, `group`, topic""",
        measured=measured,
    )


def summary(measured: Table, top: int = 20) -> str:
    rows = by_group(measured).collect()
    total = sum(row.backlog for row in rows)
    pairs = report.number(len(rows), "group and topic pair")
    text = [f"{pairs}, {report.number(total, 'message')} behind"]
    table = [
        [r.group, r.topic, r.queues, r.backlog, r.longest, r.gone, report.duration(r.behindMs)]
        for r in rows[:top]
    ]
    if table:
        titles = ("group", "topic", "queues", "backlog", "longest queue", "gone", "behind by")
        text += ["", report.lines(titles, table)]
    if len(rows) > top:
        text.append(f"... and {len(rows) - top} more")
    return "\n".join(text)


def plot(measured: Table, path: str, note: str = "") -> None:
    """Backlog by group, with the age of the oldest message that waits and what is deleted: bars for
    one measurement, curves for several."""
    from spark_ext.jobs.plot import bars, curves

    rows = (
        engine_of(measured)
        .sql(
            """SELECT measuredAt, `group`, CAST(sum(backlog) AS bigint) AS backlog,
                CAST(sum(gone) AS bigint) AS gone, max(behindMs) AS behindMs
            FROM {measured} GROUP BY measuredAt, `group` ORDER BY measuredAt, backlog DESC""",
            measured=measured,
        )
        .collect()
    )
    if len({row.measuredAt for row in rows}) < 2:
        names = [row.group for row in rows]
        split = {
            "backlog": [r.backlog - r.gone for r in rows],
            "deleted unread": [r.gone for r in rows],
        }
        ages = [_age(row.behindMs) for row in rows]
        bars(path, "Backlog by group", names, split, "messages", note=note, said=ages)
        return
    series: dict[str, tuple[list[datetime], list[float]]] = {}
    last: dict[str, str] = {}
    for row in rows:
        times, values = series.setdefault(row.group, ([], []))
        times.append(row.measuredAt)
        values.append(row.backlog)
        last[row.group] = _age(row.behindMs)
    longest = sorted(series.items(), key=lambda item: -max(item[1][1]))
    curves(path, "Backlog by group", dict(longest), "messages", note=note, said=last)


def _age(behind_ms: int | None) -> str:
    return f"oldest {report.duration(behind_ms)}" if behind_ms else ""


@click.command("lag")
@source_options
@click.option("-g", "--group", "groups", multiple=True, help="This group only; may be repeated.")
@click.option("--system", is_flag=True, help="The broker's own groups as well.")
@click.option("--offsets", multiple=True, help="A store root whose config/ has the offsets.")
@click.option("--top", type=click.IntRange(1), default=20, show_default=True)
@click.option("--times", type=click.IntRange(1), default=1, help="Measure so many times ...")
@click.option("--every", type=click.FloatRange(0), default=60.0, help="... so many seconds apart.")
@before(_check)
@output_options(mode="append")
@engine_options
def command(
    engine: Engine,
    source: Source,
    output: Output,
    groups: tuple[str, ...],
    system: bool,
    offsets: tuple[str, ...],
    top: int,
    times: int,
    every: float,
) -> None:
    """Backlog of consumer groups in STORE, by group and queue: what is in the log against
    config/consumerOffset.json. With --out each measurement is appended to one table, and the plot
    shows all of them."""

    for number in range(times):
        if number:
            time.sleep(every)
        found = lag(engine, source, groups=groups, system=system, offset_files=offsets)
        measured = engine.keep(found)
        click.echo(summary(measured, top))
        output.write(engine, measured)
    if output.path and output.mode == "append":
        measured = engine.read(output.path, output.kind, SCHEMA)
    output.draw(lambda path, note: plot(measured, path, note), source.text)


if __name__ == "__main__":
    run_alone(command)
