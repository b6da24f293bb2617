"""`pyrmq admin topic …`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pyrmq.cli.admin.session import Session, session

if TYPE_CHECKING:
    from pyrmq.admin.api import Admin
    from pyrmq.cli.admin.view import View


@click.group()
def topic() -> None:
    """Topics: list, create, change, delete, where they are."""


@topic.command("list")
@session()
@click.option("--groups", is_flag=True, help="With the groups that consume each.")
def list_(session: Session, groups: bool) -> None:
    """List topics by name."""
    from pyrmq.cli.admin.view import Column, View, table

    async def work(admin: Admin) -> View:
        if groups:
            rows = [row async for row in admin.topics.with_groups()]
            return table(
                rows,
                Column("CLUSTER", "cluster"),
                Column("TOPIC", "topic"),
                Column("GROUPS", lambda r: ", ".join(r.groups)),
                empty="no topics",
            )
        names = await admin.topics.list()
        return View(names, names, (Column("TOPIC", lambda name: name),), empty="no topics")

    session.report(work)
