"""The commands of `pyrmq admin topic` that make, change and delete topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from pyrmq.cli.admin.lazy import Group
from pyrmq.cli.admin.session import Session, session, where

if TYPE_CHECKING:
    from pyrmq.admin.api import Admin
    from pyrmq.admin.shrinking import Hidden

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
    from pyrmq.admin.order_conf import parse_order
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
