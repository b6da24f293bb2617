"""`pyrmq admin broker …`: looking at brokers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from pyrmq.cli.admin.broker_changes import (
    clean,
    cold_data,
    config,
    container,
    flush_offset,
    promote,
    read_ahead,
)
from pyrmq.cli.admin.broker_drain import bring_back, drain, drain_status
from pyrmq.cli.admin.lazy import Group
from pyrmq.cli.admin.session import Session, session, where

if TYPE_CHECKING:
    from pyrmq.admin.api import Admin
    from pyrmq.admin.clusters import Probe
    from pyrmq.admin.outcome import Outcomes
    from pyrmq.cli.admin.view import Column, View


@click.group(cls=Group)
def broker() -> None:
    """Brokers: state, configuration, cleaning up."""


def by_address(
    session: Session,
    ask: Callable[[Admin], Awaitable[Sequence[Any]]],
    name: str,
) -> None:
    """Shows names and values of each broker; `ask` gives OfReplicas of mappings."""
    from pyrmq.cli.admin.view import Column, View

    async def work(admin: Admin) -> View:
        found = await ask(admin)
        failed = [of.outcome.problem for of in found if of.outcome.error]
        data = {of.replica.address: of.outcome.value for of in found if not of.outcome.error}
        rows = [(a, k, v) for a, table in data.items() for k, v in (table or {}).items()]
        columns = [Column(name, lambda r: r[1]), Column("VALUE", lambda r: r[2])]
        if len(found) > 1:
            columns.insert(0, Column("BROKER", lambda r: r[0]))
        empty = "" if failed else "nothing is known"
        return View(data, rows, columns, (), empty, failed, all_failed=not data)

    session.report(work)


def outcomes(
    session: Session,
    ask: Callable[[Admin], Awaitable[Outcomes[Any]]],
    rows: Callable[[str, Any], Sequence[Any]],
    columns: Sequence[Column],
    empty: str,
) -> None:
    """Shows what brokers answered: `rows` makes the rows of one, of its address and its answer."""
    from pyrmq.cli.admin.view import View

    async def work(admin: Admin) -> View:
        found = await ask(admin)
        failed = [o.problem for o in found.failed]
        data = {o.target: o.value for o in found.done}
        shown = [row for address, value in data.items() for row in rows(address, value)]
        return View(data, shown, columns, (), "" if failed else empty, failed, all_failed=not data)

    session.report(work)


@broker.command()
@session(watch=True)
@where
def status(session: Session, broker: str | None, cluster: str | None) -> None:
    """Show the figures of brokers."""
    by_address(session, lambda a: a.brokers.runtime(broker=broker, cluster=cluster), "FIGURE")


@broker.command("consume-stats")
@session(watch=True)
@click.option("-b", "--broker", required=True, metavar="HOST:PORT", help="The broker.")
@click.option("--level", type=click.IntRange(0), default=0, show_default=True,
              help="Only queues with so many messages that are not consumed.")  # fmt: skip
@click.option("--ordered", is_flag=True, help="Topics that are ordered only.")
def consume_stats(session: Session, broker: str, level: int, ordered: bool) -> None:
    """Show how far all consumer groups of a broker are."""
    from pyrmq.cli.admin.view import Column, View, moment

    async def work(admin: Admin) -> View:
        stats = await admin.brokers.consume_stats(broker, ordered=ordered)
        rows = [q for q in stats.queues if q.progress.diff >= level]
        columns = (
            Column("TOPIC", lambda r: r.progress.queue.topic),
            Column("GROUP", "group"),
            Column("QUEUE", lambda r: r.progress.queue.queue_id, right=True),
            Column("BROKER OFFSET", lambda r: r.progress.broker_offset, right=True),
            Column("CONSUMER OFFSET", lambda r: r.progress.consumer_offset, right=True),
            Column("DIFF", lambda r: r.progress.diff, right=True),
            Column(
                "GONE",
                lambda r: r.progress.gone,
                right=True,
                style=lambda r: "red" if r.progress.gone else "",
            ),
            Column("CONSUMED UP TO", lambda r: moment(r.progress.last_timestamp)),
        )
        data = {"queues": rows, "total_diff": stats.total_diff}
        total = f"{stats.total_diff} messages are not consumed, of all groups"
        return View(data, rows, columns, (total,), "no queues")

    session.report(work)


@broker.command()
@session()
@click.option("--topic", required=True, metavar="NAME", help="A topic, such as a broker's name.")
@click.option("--count", type=click.IntRange(1, 1_000_000), default=50, show_default=True,
              help="How many messages.")  # fmt: skip
@click.option("--size", type=click.IntRange(1, 64 << 20), default=128, show_default=True,
              help="Bytes of each body.")  # fmt: skip
def probe(session: Session, topic: str, count: int, size: int) -> None:
    """Send messages one after the other, and time each."""
    from contextlib import aclosing

    from pyrmq.cli.admin.session import printing
    from pyrmq.cli.admin.view import show_each

    def text(one: Probe) -> str:
        r = one.result
        place = f"{r.queue.broker_name} {r.queue.queue_id} {r.queue_offset}"
        return f"{one.ms} ms  {r.status.name}  {place}  {r.msg_id}"

    async def work(admin: Admin) -> None:
        async with aclosing(admin.clusters.probe(topic, count=count, size=size)) as sent:
            async for one in sent:
                show_each(one, session.output, text)

    with printing():
        session.run(work, prints=True)


@broker.command()
@session(watch=True)
@where
def ha(session: Session, broker: str | None, cluster: str | None) -> None:
    """Show how replication stands."""
    from pyrmq.cli.admin.view import Column

    def rows(address: str, status: Any) -> list[Any]:
        return [
            (address, status, s) for s in (status.slaves if status.master else [None]) or [None]
        ]

    def slave(name: str) -> Callable[[Any], Any]:
        return lambda r: None if r[2] is None else getattr(r[2], name)

    columns = (
        Column("BROKER", lambda r: r[0]),
        Column("ROLE", lambda r: "master" if r[1].master else f"slave of {r[1].master_address}"),
        Column("LOG END", lambda r: r[1].max_offset, right=True),
        Column("SLAVE", slave("address")),
        Column("ACKNOWLEDGED", slave("ack_offset"), right=True),
        Column("BEHIND", slave("diff"), right=True),
        Column("SINCE", lambda r: _since(r[2]), right=True),
        Column("IN SYNC", lambda r: None if r[2] is None else "yes" if r[2].in_sync else "no"),
        Column("STATE", lambda r: f"{r[1].state} {r[1].why}".strip() or None),
    )
    outcomes(
        session,
        lambda a: a.brokers.ha(broker=broker, cluster=cluster, slaves=True),
        rows,
        columns,
        "no brokers",
    )


def _since(slave: Any) -> str | None:
    if slave is None or slave.behind_ms is None:
        return None
    return f"{slave.behind_ms / 1000:.1f} s"


@broker.command()
@session(watch=True)
@click.option("--name", metavar="BROKER", help="All replicas of this broker name.")
@click.option("-c", "--cluster", metavar="NAME", help="All brokers of this cluster.")
def epoch(session: Session, name: str | None, cluster: str | None) -> None:
    """Show under which masters the logs of brokers were written."""
    from pyrmq.cli.admin.view import Column

    if (name is None) == (cluster is None):
        raise click.UsageError("say one of --name BROKER and --cluster NAME")
    columns = (
        Column("BROKER", lambda r: r[1].broker_name),
        Column("ID", lambda r: r[1].broker_id, right=True),
        Column("ADDRESS", lambda r: r[0]),
        Column("EPOCH", lambda r: r[2].epoch, right=True),
        Column("START", lambda r: r[2].start, right=True),
        Column("END", lambda r: r[2].end, right=True),
    )
    outcomes(
        session,
        lambda a: a.clusters.epochs(broker_name=name, cluster=cluster),
        lambda address, found: [(address, found, e) for e in found.epochs],
        columns,
        "no epochs",
    )


@config.command("get")
@session()
@where
def config_get(session: Session, broker: str | None, cluster: str | None) -> None:
    """Show the configuration of brokers."""
    by_address(session, lambda a: a.brokers.config(broker=broker, cluster=cluster), "KEY")


@cold_data.command("get")
@session(watch=True)
@where
def cold_get(session: Session, broker: str | None, cluster: str | None) -> None:
    """Show the groups that read old messages."""
    by_address(session, lambda a: a.brokers.cold_data(broker=broker, cluster=cluster), "WHAT")


broker.add_command(status, "stats")
for _command in (drain, bring_back, drain_status):
    broker.add_command(_command)
for _command in (config, clean, cold_data, container, flush_offset, promote, read_ahead):
    broker.add_command(_command)
