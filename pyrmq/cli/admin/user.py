"""`pyrmq admin user …`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from pyrmq.cli.admin.lazy import Group
from pyrmq.cli.admin.session import Session, session, where

if TYPE_CHECKING:
    from pyrmq.admin.api import Admin
    from pyrmq.admin.users import User
    from pyrmq.cli.admin.view import View


@click.group(cls=Group)
def user() -> None:
    """Users of Apache RocketMQ's brokers (authentication). pyrmq's brokers have none."""


_type = click.option("--type", "kind", type=click.Choice(["Super", "Normal"], case_sensitive=False))


@user.command()
@session()
@where
@click.argument("name")
@click.option("--password", help="Without it, it is asked for, or read from stdin.")
@_type
def create(
    session: Session, name: str, password: str | None, kind: str | None, broker: str | None,
    cluster: str | None,
) -> None:  # fmt: skip
    """Create a user."""
    from pyrmq.admin.users import User

    made = User(name, _password() if password is None else password, kind)
    outcomes = session.run(lambda admin: admin.users.create(made, broker=broker, cluster=cluster))
    session.done(outcomes, "created")


@user.command()
@session()
@where
@click.argument("name")
@click.option("--password", help="`-`: it is asked for, or read from stdin.")
@_type
@click.option("--status", type=click.Choice(["enable", "disable"], case_sensitive=False))
def update(
    session: Session, name: str, password: str | None, kind: str | None, status: str | None,
    broker: str | None, cluster: str | None,
) -> None:  # fmt: skip
    """Change a user's password, type or status, one at a time."""
    from pyrmq.admin.users import User

    if sum(one is not None for one in (password, kind, status)) != 1:
        raise click.UsageError("say one of --password, --type and --status")
    changed = User(name, _password() if password == "-" else password, kind, status)
    outcomes = session.run(
        lambda admin: admin.users.update(changed, broker=broker, cluster=cluster)
    )
    session.done(outcomes, "changed")


def _password() -> str:
    import sys

    if sys.stdin.isatty():
        text: str = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
        return text
    return sys.stdin.readline(4096).rstrip("\r\n")


@user.command()
@session(destroys=True)
@where
@click.argument("name")
def delete(session: Session, name: str, broker: str | None, cluster: str | None) -> None:
    """Delete a user."""
    session.confirm(f"Delete user {name} from {cluster or broker}?")
    outcomes = session.run(lambda admin: admin.users.delete(name, broker=broker, cluster=cluster))
    session.done(outcomes, "deleted")


@user.command()
@session()
@where
@click.argument("name")
def get(session: Session, name: str, broker: str | None, cluster: str | None) -> None:
    """Show a user as each broker has it. Passwords are not shown."""
    from pyrmq.errors import ClientError

    async def work(admin: Admin) -> View:
        outcomes = (await admin.users.get(name, broker=broker, cluster=cluster)).check()
        failed = [o.problem for o in outcomes.failed]
        found = [(o.target, o.value) for o in outcomes.done if o.value is not None]
        if not found and not failed:
            raise ClientError(f"no broker has user {name}")
        return _view(found, failed)

    session.report(work)


@user.command("list")
@session()
@where
@click.option("--filter", "text", default="", help="Names that have this in them.")
def list_(session: Session, text: str, broker: str | None, cluster: str | None) -> None:
    """List the users of each broker. Passwords are not shown."""

    async def work(admin: Admin) -> View:
        outcomes = (await admin.users.list(text, broker=broker, cluster=cluster)).check()
        failed = [o.problem for o in outcomes.failed]
        return _view([(o.target, found) for o in outcomes.done for found in o.value or []], failed)

    session.report(work)


def _view(found: list[tuple[str, User]], failed: list[str]) -> View:
    from pyrmq.cli.admin.view import Column, table

    rows: list[Any] = [
        {"broker": at, "name": u.name, "type": u.type, "status": u.status} for at, u in found
    ]
    return table(
        rows, Column("BROKER", "broker"), Column("USER", "name"), Column("TYPE", "type"),
        Column("STATUS", "status"), empty="no users",
        failed=failed,
    )  # fmt: skip


@user.command()
@session()
@click.option("--from", "source", required=True, metavar="HOST:PORT", help="Who has them.")
@click.option("--to", "target", required=True, metavar="HOST:PORT", help="Who gets them.")
@click.argument("names", nargs=-1)
def copy(session: Session, source: str, target: str, names: tuple[str, ...]) -> None:
    """Give users of a broker, all or some, to another one."""
    session.done(session.run(lambda admin: admin.users.copy(source, target, names)), "copied")
