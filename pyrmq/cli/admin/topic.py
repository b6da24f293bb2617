"""`pyrmq admin topic …`: what asks. `topic_changes.py` has what changes something."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pyrmq.cli.admin.lazy import Group
from pyrmq.cli.admin.session import Session, session
from pyrmq.cli.admin.topic_changes import create, create_batch, delete, order, set_perm

if TYPE_CHECKING:
    from pyrmq.admin.api import Admin
    from pyrmq.cli.admin.view import View


@click.group(cls=Group)
def topic() -> None:
    """Topics: list, create, change, delete, where they are."""


@topic.command("list")
@session()
@click.option("--groups", is_flag=True, help="With the groups that consume each.")
@click.option("--user", is_flag=True, help="Without those of the system, of retries and of dead "
              "letters.")  # fmt: skip
def list_(session: Session, groups: bool, user: bool) -> None:
    """List topics by name."""
    from pyrmq.cli.admin.view import Column, View, table
    from pyrmq.model.names import DLQ_PREFIX, RETRY_PREFIX

    async def hidden(admin: Admin) -> set[str]:
        return await admin.topics.system() if user else set()

    def shown(topic: str, system: set[str]) -> bool:
        return not (user and (topic in system or topic.startswith((RETRY_PREFIX, DLQ_PREFIX))))

    async def work(admin: Admin) -> View:
        if groups:
            system = await hidden(admin)
            rows = [r async for r in admin.topics.with_groups() if shown(r.topic, system)]
            problems = [f"topic {r.topic}: {error}" for r in rows for error in r.failed]
            return table(
                rows,
                Column("CLUSTER", "cluster"),
                Column("TOPIC", "topic"),
                Column("GROUPS", lambda r: ", ".join(r.groups)),
                empty="no topics",
                failed=problems,
            )
        system = await hidden(admin)
        names = [name for name in await admin.topics.list() if shown(name, system)]
        return View(names, names, (Column("TOPIC", lambda name: name),), empty="no topics")

    session.report(work)


@topic.command()
@session()
@click.argument("name")
def route(session: Session, name: str) -> None:
    """Show the brokers of a topic, and its queues there."""
    from pyrmq.cli.admin.view import Column, View
    from pyrmq.cli.mqadmin.text import perm_text

    async def work(admin: Admin) -> View:
        found = await admin.topics.route(name)
        queues = {q.broker_name: q for q in found.queues}
        rows = [
            (broker, broker_id, address, queues.get(broker.broker_name))
            for broker in sorted(found.brokers, key=lambda b: (b.cluster, b.broker_name))
            for broker_id, address in sorted(broker.broker_addrs.items())
        ]
        columns = (
            Column("CLUSTER", lambda r: r[0].cluster),
            Column("BROKER", lambda r: r[0].broker_name),
            Column("ID", lambda r: r[1], right=True),
            Column("ADDRESS", lambda r: r[2]),
            Column("READ QUEUES", lambda r: r[3].read_queue_nums if r[3] else None, right=True),
            Column("WRITE QUEUES", lambda r: r[3].write_queue_nums if r[3] else None, right=True),
            Column("PERM", lambda r: perm_text(r[3].perm) if r[3] else None),
        )
        conf = found.order_conf
        notes = [f"order configuration {conf}"] if conf else []
        return View(found.to_json(), rows, columns, notes, "no broker")

    session.report(work)


@topic.command()
@session(watch=True)
@click.argument("name")
@click.option("--route-of", metavar="TOPIC",
              help="Look where this topic is: the parent of an LMQ topic.")  # fmt: skip
def status(session: Session, name: str, route_of: str | None) -> None:
    """Show how far the queues of a topic are."""
    from pyrmq.cli.admin.view import Column, View, moment

    async def work(admin: Admin) -> View:
        found = await admin.topics.status(route_of or name)
        data = {
            "topic": name,
            "put_tps": found.put_tps,
            "queues": [
                {
                    "broker": s.queue.broker_name,
                    "queue_id": s.queue.queue_id,
                    "min": s.first,
                    "max": s.end,
                    "last_updated": s.updated or None,
                }
                for s in found.queues
            ],
        }
        columns = (
            Column("BROKER", "broker"),
            Column("QUEUE", "queue_id", right=True),
            Column("MIN OFFSET", "min", right=True),
            Column("MAX OFFSET", "max", right=True),
            Column("MESSAGES", lambda r: r["max"] - r["min"], right=True),
            Column("LAST UPDATED", lambda r: moment(r["last_updated"] or 0)),
        )
        rows = data["queues"]
        assert isinstance(rows, list)
        total = sum(r["max"] - r["min"] for r in rows)
        notes = (f"{total} messages, {found.put_tps:.2f} a second come",)
        failed = [o.problem for o in found.failed]
        return View(data, rows, columns, notes, "no queues", failed)

    session.report(work)


@topic.command()
@session()
@click.argument("name")
def clusters(session: Session, name: str) -> None:
    """List the clusters that have a topic."""
    from pyrmq.cli.admin.view import Column, View

    async def work(admin: Admin) -> View:
        names = await admin.topics.clusters(name)
        return View(names, names, (Column("CLUSTER", lambda cluster: cluster),), empty="none")

    session.report(work)


@topic.command()
@session()
@click.argument("name")
@click.argument("consumers", nargs=-1, required=True)
def allocate(session: Session, name: str, consumers: tuple[str, ...]) -> None:
    """Show how CONSUMERS would share the queues of a topic."""
    from pyrmq.cli.admin.view import Column, View

    async def work(admin: Admin) -> View:
        shares = await admin.topics.allocation(name, consumers)
        data = {one: [q.to_json() for q in queues] for one, queues in shares.items()}
        rows = [(one, q) for one, queues in shares.items() for q in queues or (None,)]
        columns = (
            Column("CONSUMER", lambda r: r[0]),
            Column("BROKER", lambda r: r[1].broker_name if r[1] else None),
            Column("QUEUE", lambda r: r[1].queue_id if r[1] else None, right=True),
        )
        return View(data, rows, columns)

    session.report(work)


@topic.command()
@session(watch=True)
@click.argument("name", required=False)
@click.option("--active", is_flag=True, help="Only topics with messages today.")
def stats(session: Session, name: str | None, active: bool) -> None:
    """Show how busy a topic and its groups are, or all topics."""
    from pyrmq.cli.admin.view import Column, table

    async def work(admin: Admin) -> View:
        failed: list[str] = []
        rows = []
        answered = False
        async for row in admin.topics.flows(name):
            failed.extend(f"topic {row.topic}: {error}" for error in row.failed)
            answered |= row.answered
            if row.active or not active:
                rows.append(row)
        return table(
            rows,
            Column("TOPIC", "topic"),
            Column("GROUP", "group"),
            Column("ACCUMULATION", lambda r: None if r.group is None else r.accumulation,
                   right=True),
            Column("IN/S", lambda r: f"{r.put.tps:.2f}", right=True),
            Column("OUT/S", lambda r: "" if r.group is None else f"{r.got.tps:.2f}", right=True),
            Column("IN A DAY", lambda r: r.put.day, right=True),
            Column("OUT A DAY", lambda r: None if r.group is None else r.got.day, right=True),
            empty="no topics",
            failed=failed,
            all_failed=not answered,
        )  # fmt: skip

    session.report(work)


for _command in (create, create_batch, delete, set_perm, order):
    topic.add_command(_command)
