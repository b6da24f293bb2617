"""`pyrmq admin namesrv …`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pyrmq.cli.admin.lazy import Group
from pyrmq.cli.admin.session import Session, session

if TYPE_CHECKING:
    from pyrmq.admin.api import Admin
    from pyrmq.admin.outcome import Outcomes
    from pyrmq.cli.admin.view import View


@click.group(cls=Group)
def namesrv() -> None:
    """Name servers: configuration, values by key, permissions of brokers."""


@namesrv.group()
def config() -> None:
    """The configuration of name servers."""


@config.command("get")
@session()
def config_get(session: Session) -> None:
    """Show the configuration of each name server."""
    from pyrmq.cli.admin.view import Column, View

    async def work(admin: Admin) -> View:
        outcomes = (await admin.namesrv.config()).check()
        failed = [o.problem for o in outcomes.failed]
        data = {o.target: o.value or {} for o in outcomes.done}
        rows = [(at, key, value) for at, found in data.items() for key, value in found.items()]
        columns = (
            Column("NAME SERVER", lambda r: r[0]),
            Column("KEY", lambda r: r[1]),
            Column("VALUE", lambda r: r[2]),
        )
        return View(data, rows, columns, failed=failed)

    session.report(work)


@config.command("set")
@session()
@click.argument("key")
@click.argument("value")
def config_set(session: Session, key: str, value: str) -> None:
    """Change a KEY of name servers that run."""
    outcomes = session.run(lambda admin: admin.namesrv.update_config(key, value))
    session.done(outcomes, f"{key} is {value or 'empty'} now")


@namesrv.group()
def kv() -> None:
    """Values that name servers keep by namespace and key."""


@kv.command("get")
@session()
@click.argument("namespace")
@click.argument("key", required=False)
def kv_get(session: Session, namespace: str, key: str | None) -> None:
    """Show a value, or without a KEY all of a namespace."""
    from pyrmq.cli.admin.view import fields

    async def work(admin: Admin) -> View:
        if key is None:
            return fields(await admin.namesrv.all(namespace))
        return fields({key: await admin.namesrv.get(namespace, key)})

    session.report(work)


@kv.command("put")
@session()
@click.argument("namespace")
@click.argument("key")
@click.argument("value")
def kv_put(session: Session, namespace: str, key: str, value: str) -> None:
    """Set a value on all name servers."""
    outcomes = session.run(lambda admin: admin.namesrv.put(namespace, key, value))
    session.done(outcomes, f"{key} is {value or 'empty'} now")


@kv.command("delete")
@session(destroys=True)
@click.argument("namespace")
@click.argument("key")
def kv_delete(session: Session, namespace: str, key: str) -> None:
    """Delete a value from all name servers."""
    session.confirm(f"Delete {key} of namespace {namespace}?")
    session.done(session.run(lambda admin: admin.namesrv.delete(namespace, key)), "deleted")


@namesrv.group("write-perm")
def write_perm() -> None:
    """Whether clients may write to the topics of a broker, as name servers say."""


@write_perm.command()
@session(destroys=True)
@click.argument("broker_name")
def wipe(session: Session, broker_name: str) -> None:
    """Take the permission to write from all topics of a broker, named by its brokerName."""
    session.confirm(f"Let nobody write to the topics of broker {broker_name}?")
    _done(
        session, broker_name, session.run(lambda admin: admin.namesrv.wipe_write_perm(broker_name))
    )


@write_perm.command()
@session()
@click.argument("broker_name")
def add(session: Session, broker_name: str) -> None:
    """Make all topics of a broker, named by its brokerName, readable and writable."""
    _done(
        session, broker_name, session.run(lambda admin: admin.namesrv.add_write_perm(broker_name))
    )


def _done(session: Session, broker_name: str, outcomes: Outcomes[int]) -> None:
    session.done(outcomes, "done", count="topics")
    if outcomes.done and not any(outcomes.values):
        click.echo(f"Hint: no topic of a broker named {broker_name!r} is known; "
                   "it is a name, not an address", err=True)  # fmt: skip
