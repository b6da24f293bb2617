"""`pyrmq admin controller …`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pyrmq.cli.admin.lazy import Group
from pyrmq.cli.admin.session import Session, session

if TYPE_CHECKING:
    from pyrmq.admin.api import Admin
    from pyrmq.cli.admin.view import View


@click.group(cls=Group)
def controller() -> None:
    """Controllers of Apache RocketMQ: who is master, and which replicas have all of it."""


_one = click.option("-a", "--controller", "address", required=True, metavar="HOST:PORT",
                    help="Any controller of the group.")  # fmt: skip
_each = click.option("-a", "--controller", "addresses", required=True, multiple=True,
                     metavar="HOST:PORT", help="A controller; may be given again.")  # fmt: skip


@controller.command()
@session(watch=True)
@_one
def metadata(session: Session, address: str) -> None:
    """Show the group of a controller, and its leader."""
    from pyrmq.cli.admin.view import fields, plain

    async def work(admin: Admin) -> View:
        return fields(plain(await admin.controllers.metadata(address)))

    session.report(work)


@controller.command("sync-state")
@session(watch=True)
@_one
@click.option("-c", "--cluster", metavar="NAME", help="All brokers of this cluster.")
@click.option("--broker-name", help="This broker only.")
def sync_state(
    session: Session, address: str, cluster: str | None, broker_name: str | None
) -> None:
    """Show which replicas have what their master has."""
    from pyrmq.cli.admin.view import Column, View

    if (cluster is None) == (broker_name is None):
        raise click.UsageError("say one of --cluster and --broker-name")

    async def work(admin: Admin) -> View:
        found = await admin.controllers.sync_states(
            address, broker_name=broker_name, cluster=cluster
        )
        rows = [
            (state, replica, in_sync)
            for state in found
            for in_sync, replicas in ((True, state.in_sync), (False, state.not_in_sync))
            for replica in replicas
        ]
        columns = (
            Column("BROKER", lambda r: r[0].broker_name),
            Column("ID", lambda r: r[1].broker_id, right=True),
            Column("ADDRESS", lambda r: r[1].address),
            Column("ALIVE", lambda r: "" if r[1].alive is None else "yes" if r[1].alive else "no"),
            Column("MASTER", lambda r: "yes" if r[1].broker_id == r[0].master_id else ""),
            Column("IN SYNC", lambda r: "yes" if r[2] else "no"),
            Column("EPOCH", lambda r: r[0].master_epoch, right=True),
        )
        return View(found, rows, columns, empty="no replicas")

    session.report(work)


@controller.group()
def config() -> None:
    """The configuration of controllers."""


@config.command("get")
@session()
@_each
def config_get(session: Session, addresses: tuple[str, ...]) -> None:
    """Show the configuration of controllers."""
    from pyrmq.cli.admin.view import Column, View

    async def work(admin: Admin) -> View:
        outcomes = (await admin.controllers.config(addresses)).check()
        failed = [o.problem for o in outcomes.failed]
        data = {o.target: o.value or {} for o in outcomes.done}
        rows = [(at, key, value) for at, found in data.items() for key, value in found.items()]
        columns = (
            Column("CONTROLLER", lambda r: r[0]),
            Column("KEY", lambda r: r[1]),
            Column("VALUE", lambda r: r[2]),
        )
        return View(data, rows, columns, failed=failed)

    session.report(work)


@config.command("set")
@session()
@_each
@click.argument("key")
@click.argument("value")
def config_set(session: Session, addresses: tuple[str, ...], key: str, value: str) -> None:
    """Change a KEY of controllers that run."""
    outcomes = session.run(lambda admin: admin.controllers.update_config(addresses, key, value))
    session.done(outcomes, f"{key} is {value} now")


@controller.command()
@session(destroys=True)
@_one
@click.option("-c", "--cluster", required=True, metavar="NAME")
@click.option("--broker-name", required=True)
@click.argument("broker_id", type=click.IntRange(0))
def elect(session: Session, address: str, cluster: str, broker_name: str, broker_id: int) -> None:
    """Make the replica with an id the master of its broker name."""
    from pyrmq.cli.admin.view import fields, plain

    session.confirm(f"Make {broker_id} the master of {broker_name}?")

    async def work(admin: Admin) -> View:
        found = await admin.controllers.elect(address, cluster, broker_name, broker_id)
        return fields(plain(found))

    session.report(work)


@controller.command()
@session(destroys=True)
@_one
@click.option("-c", "--cluster", metavar="NAME")
@click.option("--id", "broker_ids", type=click.IntRange(0), multiple=True, help="Only this one.")
@click.option("--living", is_flag=True, help="Also brokers that are alive.")
@click.argument("broker_name")
def clean(
    session: Session, address: str, cluster: str | None, broker_ids: tuple[int, ...],
    living: bool, broker_name: str,
) -> None:  # fmt: skip
    """Have controllers forget a broker, or some of its replicas."""
    session.confirm(f"Have controllers forget broker {broker_name}?")

    async def work(admin: Admin) -> None:
        await admin.controllers.clean(
            address, broker_name, cluster=cluster, broker_ids=broker_ids, living=living
        )

    session.run(work)
    click.echo("done", err=True)
