"""`pyrmq admin topic …`: what changes topics, then what asks about them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from pyrmq.cli.admin.lazy import Group
from pyrmq.cli.admin.session import Session, session, where

if TYPE_CHECKING:
    from pyrmq.admin.api import Admin
    from pyrmq.admin.shrinking import Hidden
    from pyrmq.cli.admin.view import View

_QUEUES = click.IntRange(0, 65_536)
_PERM = click.IntRange(0, 7)
_FORCE = click.option("--force", is_flag=True,
                      help="Also if messages that are not consumed are read no more.")  # fmt: skip
MOST_SHOWN = 20
"""Groups that are shown one by one, of those that have not consumed something."""


@click.command()
@session()
@where
@click.argument("name")
@click.option("--queues", type=_QUEUES, help="To read and to write.  [new topics: 8]")
@click.option("--read-queues", "read_queue_nums", type=_QUEUES)
@click.option("--write-queues", "write_queue_nums", type=_QUEUES)
@click.option("--perm", type=_PERM, help="2 write, 4 read, 6 both.  [new topics: 6]")
@click.option("--order/--no-order", default=None,
              help="Whether it is ordered: see also `topic order put`.")  # fmt: skip
@click.option("--sys-flag", "topic_sys_flag", type=click.IntRange(0, 3),
              help="1 a unit topic, 2 subscribed by units.")  # fmt: skip
@click.option("--attributes", default="", metavar="+A=B,-C")
@_FORCE
def create(
    session: Session, name: str, broker: str | None, cluster: str | None, queues: int | None,
    attributes: str, force: bool, **given: Any,
) -> None:  # fmt: skip
    """Create a topic; where it is there already, change what is named, and nothing else.

    With fewer queues to read than it has, messages in the others are read no more: which groups
    have not consumed what is shown, and it asks.
    """
    if queues is not None:
        for key in ("read_queue_nums", "write_queue_nums"):
            if given[key] is not None:
                raise click.UsageError("--queues says both --read-queues and --write-queues")
            given[key] = queues
    fields = {key: value for key, value in given.items() if value is not None}
    at: dict[str, Any] = {"broker": broker, "cluster": cluster}
    reads = fields.get("read_queue_nums")
    if reads is not None and not force:
        force = _agreed(session, session.run(lambda a: a.topics.hidden(name, reads, **at)).values)
    outcomes = session.run(
        lambda a: a.topics.change(name, **at, attributes=attributes, force=force, **fields)
    )
    session.done(outcomes, "created or changed")


def _agreed(session: Session, hidden: list[list[Hidden]]) -> bool:
    """Shows what would be read no more, and asks; False if that is nothing. Without a terminal it
    ends with exit code 1."""
    from pyrmq.escape import escape

    found = [h for part in hidden for h in part]
    for one in found[:MOST_SHOWN]:
        click.echo(f"not consumed: {escape(one.text)}, in {one.queues} queues", err=True)
    if len(found) > MOST_SHOWN:
        click.echo(f"not consumed: {len(found) - MOST_SHOWN} more", err=True)
    if found:
        total = sum(h.messages for h in found)
        session.confirm(
            f"{total} messages that groups have not consumed would be read no more. "
            "Take the queues away all the same?",
            option="--force",
        )
    return bool(found)


@click.command("create-batch")
@session()
@where
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@_FORCE
def create_batch(
    session: Session, file: str, broker: str | None, cluster: str | None, force: bool
) -> None:
    """Create or replace the topics of a FILE with a JSON array of configurations.

    Nothing is changed if a topic would have fewer queues to read and messages in the others are
    not consumed, unless --force is given.
    """
    from pyrmq.admin.topic_file import read_topics

    async def work(admin: Admin) -> Any:
        changes = await read_topics(file)
        if not changes:
            raise click.UsageError(f"{file} has no topics")
        return await admin.topics.update_many(changes, broker=broker, cluster=cluster, force=force)

    session.done(session.run(work), "created or changed")


@click.command()
@session(destroys=True)
@click.argument("name")
@click.option("-c", "--cluster", required=True, metavar="NAME", help="The cluster that has it.")
def delete(session: Session, name: str, cluster: str) -> None:
    """Delete a topic and its messages, from all masters of a cluster and from name servers."""
    at = session.run(lambda admin: admin.topics.deletion(name, cluster))
    has = ", ".join(r.broker_name for r in at.has)
    what = f"the topic and its messages are on {has}" if has else "no master says that it has it"
    session.confirm(f"Delete topic {name} from cluster {cluster} ({what})?")
    session.done(session.run(lambda admin: admin.topics.delete(name, cluster)), "deleted")


@click.command("set-perm")
@session()
@where
@click.argument("name")
@click.argument("perm", type=_PERM)
def set_perm(
    session: Session, name: str, perm: int, broker: str | None, cluster: str | None
) -> None:
    """Say whether a topic can be read (4), written (2), both (6) or neither (0)."""
    outcomes = session.run(
        lambda admin: admin.topics.set_perm(name, perm, broker=broker, cluster=cluster)
    )
    session.done(outcomes, f"the permission is {perm} now")


@click.group(cls=Group)
def order() -> None:
    """Order configurations: which queues of which brokers an ordered topic has."""


@order.command("get")
@session()
@click.argument("name")
def order_get(session: Session, name: str) -> None:
    """Show the order configuration of a topic."""
    from pyrmq.admin.namesrv import parse_order
    from pyrmq.cli.admin.view import Column, View
    from pyrmq.errors import ClientError

    found = session.run(lambda admin: admin.topics.order_conf(name))
    if found is None:
        session.fail(ClientError(f"topic {name} has no order configuration"))
    queues = parse_order(found)
    columns = (
        Column("BROKER", lambda r: r[0]),
        Column("QUEUES", lambda r: r[1], right=True),
    )
    data = {"topic": name, "order_conf": found, "queues": queues}
    session.show(View(data, list(queues.items()), columns))


@order.command("put")
@session()
@click.argument("name")
@click.argument("value", metavar="BROKER:QUEUES;…")
def order_put(session: Session, name: str, value: str) -> None:
    """Replace the order configuration of a topic, on all name servers."""
    outcomes = session.run(lambda admin: admin.topics.put_order_conf(name, value))
    session.done(outcomes, f"the order configuration is {value} now")


@order.command("delete")
@session(destroys=True)
@click.argument("name")
def order_delete(session: Session, name: str) -> None:
    """Delete the order configuration of a topic: it is sent to as its route says."""
    session.confirm(f"Delete the order configuration of topic {name}?")
    outcomes = session.run(lambda admin: admin.topics.delete_order_conf(name))
    session.done(outcomes, "deleted")


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
