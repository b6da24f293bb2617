"""`pyrmq admin producer …`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pyrmq.cli.admin.lazy import Group
from pyrmq.cli.admin.session import Session, session

if TYPE_CHECKING:
    from pyrmq.admin.api import Admin
    from pyrmq.cli.admin.view import View


@click.group(cls=Group)
def producer() -> None:
    """Producers that are connected."""


@producer.command("list")
@session(watch=True)
@click.option(
    "-b", "--broker", required=True, metavar="HOST:PORT", help="The broker that is asked."
)
def list_(session: Session, broker: str) -> None:
    """List all producers that a broker knows."""
    from pyrmq.cli.admin.view import Column, View, moment

    async def work(admin: Admin) -> View:
        found = await admin.producers.all(broker)
        rows = [(group, p) for group, instances in found.items() for p in instances]
        columns = (
            Column("GROUP", lambda r: r[0]),
            Column("CLIENT", lambda r: r[1].client_id),
            Column("ADDRESS", lambda r: r[1].remote_ip),
            Column("LANGUAGE", lambda r: r[1].language),
            Column("VERSION", lambda r: r[1].version_name),
            Column("HEARD OF", lambda r: moment(r[1].last_update)),
        )
        return View(found, rows, columns, empty="no producers")

    session.report(work)


@producer.command()
@session(watch=True)
@click.argument("group")
@click.argument("topic")
def connections(session: Session, group: str, topic: str) -> None:
    """Show the producers of a GROUP that sends to a TOPIC."""
    from pyrmq.cli.admin.view import Column, table

    async def work(admin: Admin) -> View:
        return table(
            await admin.producers.connections(group, topic),
            Column("CLIENT", "client_id"),
            Column("ADDRESS", "address"),
            Column("LANGUAGE", "language"),
            Column("VERSION", "version_name"),
            empty="no producers",
        )

    session.report(work)
