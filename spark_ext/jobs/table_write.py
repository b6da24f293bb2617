"""`pyrmq pipeline table write`: what a topic has and its Iceberg table has not.

The snapshot says how far the table goes, so there is no checkpoint beside it, and a run that was
killed leaves nothing behind but files that the next run deletes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from pyrmq.errors import InvalidParameterError
from pyrmq.escape import escape
from pyrmq.model.names import check_consumer_group
from pyrmq.tables import schema
from pyrmq.tables.bodies.plan import BodyPlan
from pyrmq.tables.bodies.spec import BodySpec
from pyrmq.tables.bodies.staging import SUSPEND, Staging
from pyrmq.tables.commit import Waiting
from pyrmq.tables.ends import Ends, ends_of
from pyrmq.tables.parquet import CODECS
from pyrmq.tables.runs import Added
from pyrmq.tables.source import StoreSource
from pyrmq.tables.write import Run, check_asked, create_table
from spark_ext.jobs import report
from spark_ext.jobs.command import plain_engine_options, run_alone, source_options
from spark_ext.jobs.errors import JobError
from spark_ext.jobs.table_bodies import body_options
from spark_ext.jobs.table_choice import chosen
from spark_ext.jobs.table_service import (
    Duration,
    Stopping,
    all_messages,
    catalog_options,
    opened,
    repeat,
    storage_options,
)
from spark_ext.jobs.table_summary import left_out, tell
from spark_ext.option_names import option_names

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pyrmq.tables.catalog import Catalog
    from pyrmq.tables.source import Source as TableSource
    from spark_ext.jobs.source import Source
    from spark_ext.jobs.table_group import Committing

PARTITION, CODEC = ("day",), "zstd"
"""Of a new table, unless it is said."""
FOLLOW = 60.0
"""Seconds between two commits of --follow."""
_OPTIONS = frozenset(("verifycrc", "oncorruption", "storageoptions"))
"""Options of the source (-o) that a table takes when it reads files."""
FORMS = ("iceberg", "delta")


def table_source(
    source: Source, topic: str, columns: tuple[str, ...], *, fail: bool, add_broker: bool
) -> TableSource:
    """What reads the topic: the segments of stores, or brokers. JobError for options that would
    leave messages out, or that it does not take."""
    source.need_all("a table")
    if source.name_server:
        from spark_ext.jobs.table_brokers import BrokerSource

        return BrokerSource(source, topic, columns, fail=fail, add_broker=add_broker)
    wrong = [name for name in source.options if name.lower() not in _OPTIONS]
    if wrong:
        raise JobError(
            f"a table does not take -o {', -o '.join(wrong)}: leave it out; it takes verifyCrc, "
            "onCorruption and storageOptions"
        )
    given = {name.lower(): text for name, text in source.options.items()}
    return StoreSource(
        source.paths,
        topic,
        columns,
        broker_names=source.broker_names,
        storage_options=storage_options(given),
        fail_on_data_loss=fail,
        add_broker=add_broker,
        verify_crc=given.get("verifycrc", "tail"),
        on_corruption=given.get("oncorruption", "fail"),
    )


def write(
    catalog: Catalog,
    name: str,
    source: TableSource,
    *,
    partition: tuple[str, ...] | None = None,
    codec: str | None = None,
    body: BodyPlan | None = None,
    on_error: str = SUSPEND,
    every: float | None = None,
    stopping: Stopping | None = None,
    waiting: Waiting | None = None,
    said: Any = None,
    group: Committing | None = None,
    spark: Callable[[Ends | None], SparkSession | None] = lambda ends: None,
) -> Added:
    """Adds to the table what it has not, once, or every so many seconds until a stop is asked for.
    `said(text)` is told of each commit of a service; `group` tells brokers what the table has.
    `spark(ends)`: the session for a table with these ends, None: this process writes the rows."""
    stopping = stopping or Stopping()
    waiting = waiting or Waiting(sleep=stopping.wait)
    body = body or BodyPlan(BodySpec())
    there = catalog.find(name)
    if there is None:
        source.start(None)  # a topic that does not exist makes no table
    else:
        schema.check_topic(there, source.topic)
        schema.check_alive(there, schema.DEAD_WISH)
        check_asked(there, partition, codec)
        for changed in body.evolve(catalog, name)[1]:
            if said is not None:
                said(f"{escape(name)}: {changed}")
    columns = body.columns(source.schema)
    create_table(
        catalog,
        name,
        source.topic,
        columns,
        partition=PARTITION if partition is None else partition,
        codec=codec or CODEC,
        properties=body.properties(),
    )
    if every is None:
        source.pin()
    stage = None
    if body.decodes:
        stage = Staging(body, catalog, name, source.topic, source.schema, on_error)
    run = _run(
        spark(None if there is None else ends_of(there)),
        catalog, name, source, columns, stage=stage, waiting=waiting, stop=stopping.is_asked,
    )  # fmt: skip
    seen = Added()

    def commit_offsets() -> None:
        if group is not None:
            group.commit(lambda: ends_of(catalog.load(name)))

    def once() -> None:
        nonlocal seen
        if group is not None:
            group.begin()
        if not seen.commits:
            commit_offsets()  # a run that was killed may not have come to it
        run.catch_up()
        commit_offsets()
        now = run.added
        if stage is not None:
            now.dead, now.skipped, now.left = stage.dead.rows, stage.skipped, stage.left
        if every is not None and said is not None and now.commits > seen.commits:
            said(_since(name, now, seen))
        seen = replace(now)

    repeat(once, every, stopping)
    if group is not None:
        group.check()
    return run.added


def _since(name: str, now: Added, seen: Added) -> str:
    """What a service says of its commits since `seen`."""
    rows = now.rows - now.left - seen.rows + seen.left
    parts = [
        f"{report.number(rows, 'message')}, {report.size(now.bytes - seen.bytes)} in "
        f"{report.number(now.files - seen.files, 'file')}",
        *left_out(name, now.dead - seen.dead, now.skipped - seen.skipped),
    ]
    return "; ".join(parts)


def _run(spark: SparkSession | None, *args: Any, **named: Any) -> Run:
    if spark is None:
        return Run(*args, **named)
    from spark_ext.jobs.table_spark import SparkRun

    return SparkRun(spark, *args, **named)


def _committing(group: str | None, name_server: str | None, source: Source, topic: str) -> Any:
    """For --commit-group and --commit-namesrv; None without the first."""
    if group is None:
        if name_server:
            raise JobError("--commit-namesrv is for --commit-group: give that as well")
        return None
    try:
        check_consumer_group(group)
    except InvalidParameterError as error:
        raise JobError(f"--commit-group: {error}") from None
    if source.name_server and name_server:
        raise JobError("--commit-namesrv is for stores: the brokers of -n are told anyway")
    where = source.name_server or name_server
    if not where:
        raise JobError("--commit-group needs the brokers: give --commit-namesrv HOST:PORT")
    from spark_ext.jobs.source import Source as Brokers
    from spark_ext.jobs.table_group import Committing, TableGroup

    brokers = Brokers(name_server=where, options=source.connection())
    return Committing(TableGroup(group, brokers, topic), lambda text: click.echo(text, err=True))


@all_messages
@click.command("write")
@source_options
@click.option("-t", "--topic", required=True, help="The topic; a table has one.")
@click.option("--table", "name", required=True, help="The table, such as mq.orders.")
@catalog_options
@click.option(
    "--partition",
    help="Of a new table: none, or some of day, hour, queue, broker, with commas  "
    f"[default: {','.join(PARTITION)}].",
)
@click.option("--columns", help="Columns of a new table, with commas; `all` for all.")
@click.option("--codec", type=click.Choice(CODECS), help=f"Of a new table  [default: {CODEC}].")
@body_options
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMS),
    default=FORMS[0],
    show_default=True,
    help="delta: a Delta table in a folder of --catalog, which is a folder or a URI then.",
)
@plain_engine_options
@click.option("--every", type=Duration(), help="Continue, with a commit every 10m, 1h, …")
@click.option("--follow", is_flag=True, help=f"The same as --every {FOLLOW:.0f}s.")
@click.option(
    "--on-data-loss",
    type=click.Choice(("fail", "continue")),
    default="fail",
    show_default=True,
    help="If retention deleted messages that the table has not.",
)
@click.option(
    "--commit-group",
    metavar="NAME",
    help="Tell brokers what the table has, as the offsets of this group (their reclaimGroup).",
)
@click.option(
    "--commit-namesrv", metavar="HOST:PORT", help="With --commit-group and stores: their brokers."
)
@click.option(
    "--add-broker", is_flag=True, help="The stores are of brokers that the table has not yet."
)
@option_names()
def command(
    source: Source,
    topic: str,
    name: str,
    catalog: str,
    catalog_property: tuple[tuple[str, str], ...],
    wait: float,
    partition: str | None,
    columns: str | None,
    codec: str | None,
    body: BodyPlan,
    on_error: str,
    form: str,
    every: float | None,
    follow: bool,
    on_data_loss: str,
    add_broker: bool,
    commit_group: str | None,
    commit_namesrv: str | None,
    wanted: str,
    master: str | None,
    conf: tuple[tuple[str, str], ...],
) -> None:
    """Add to an Iceberg table what STORE, or the brokers of -n, have of a topic and it has not.

    The table is created if it does not exist. Run it again for what has come since: each message is
    in the table once, whatever is killed when."""
    if every is not None and follow:
        raise JobError("--every and --follow: give one of them")
    words = None if partition is None else schema.parse_partition(partition)
    reading = table_source(
        source,
        topic,
        _columns(columns, body.decodes),
        fail=on_data_loss == "fail",
        add_broker=add_broker,
    )
    group = _committing(commit_group, commit_namesrv, source, topic)

    def spark(ends: Ends | None) -> SparkSession | None:
        return chosen(
            wanted, reading, ends, decodes=body.decodes, master=master, settings=dict(conf)
        )

    with Stopping() as stopping:
        waiting = Waiting(wait, stopping.wait)
        if form == "delta":
            _check_delta(body, commit_group, wanted, master, conf)
            from spark_ext.jobs.table_delta import write_delta

            tell(
                name,
                *write_delta(
                    catalog,
                    dict(catalog_property),
                    name,
                    reading,
                    partition=words,
                    codec=codec or CODEC,
                    every=FOLLOW if follow else every,
                    stopping=stopping,
                    waiting=waiting,
                    said=click.echo,
                ),
            )
            return
        there = opened(catalog, dict(catalog_property), waiting, create=True)
        added = write(
            there,
            name,
            reading,
            partition=words,
            codec=codec,
            body=body,
            on_error=on_error,
            every=FOLLOW if follow else every,
            stopping=stopping,
            waiting=waiting,
            said=click.echo,
            group=group,
            spark=spark,
        )
        tell(name, added, ends_of(there.load(name)))


def _check_delta(
    body: BodyPlan,
    group: str | None,
    wanted: str,
    master: str | None,
    conf: tuple[tuple[str, str], ...],
) -> None:
    """JobError for options that are for Iceberg tables only."""
    if body.decodes:
        raise JobError("--format delta writes bodies as they are: leave out --body")
    if group is not None:
        raise JobError("--format delta tells no broker what it has: leave out --commit-group")
    if wanted == "spark" or master or conf:
        raise JobError("--format delta is written in this process: leave out Spark's options")


def _columns(text: str | None, body: bool) -> tuple[str, ...]:
    """Those that are read; with `body` also the bytes that are decoded."""
    found = _named(text)
    return (*found, "body") if body and "body" not in found else found


def _named(text: str | None) -> tuple[str, ...]:
    if text == "all":
        from pyrmq.engine import scan_columns

        return schema.columns_of([name for name, _ in scan_columns() if name != "propertiesRaw"])
    return schema.columns_of([name.strip() for name in text.split(",")] if text else ())


if __name__ == "__main__":
    run_alone(command)
