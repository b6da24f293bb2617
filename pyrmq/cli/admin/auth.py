"""`pyrmq admin user …` and `pyrmq admin acl …`, for brokers and pyrmq's name servers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from pyrmq.cli.admin.lazy import Group
from pyrmq.cli.admin.session import Session, session, where

if TYPE_CHECKING:
    from pyrmq.admin.api import Admin
    from pyrmq.admin.auth import Acl, User
    from pyrmq.cli.admin.view import View


@click.group(cls=Group)
def user() -> None:
    """Users (authentication). --broker takes the address of pyrmq's name server as well."""


_type = click.option("--type", "kind", type=click.Choice(["Super", "Normal"], case_sensitive=False))


@user.command("create")
@session()
@where
@click.argument("name")
@click.option(
    "--password",
    help="Others see it in the list of processes. Without it, it is asked for, or read from stdin.",
)
@_type
def create_user(
    session: Session, name: str, password: str | None, kind: str | None, broker: str | None,
    cluster: str | None,
) -> None:  # fmt: skip
    """Create a user."""
    from pyrmq.admin.auth import User

    made = User(name, _password() if password is None else password, kind)
    outcomes = session.run(lambda admin: admin.users.create(made, broker=broker, cluster=cluster))
    session.done(outcomes, "created")


@user.command("update")
@session()
@where
@click.argument("name")
@click.option("--password", help="`-`: it is asked for, or read from stdin.")
@_type
@click.option("--status", type=click.Choice(["enable", "disable"], case_sensitive=False))
def update_user(
    session: Session, name: str, password: str | None, kind: str | None, status: str | None,
    broker: str | None, cluster: str | None,
) -> None:  # fmt: skip
    """Change a user's password, type or status, one at a time."""
    from pyrmq.admin.auth import User

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


@user.command("delete")
@session(destroys=True)
@where
@click.argument("name")
def delete_user(session: Session, name: str, broker: str | None, cluster: str | None) -> None:
    """Delete a user."""
    session.confirm(f"Delete user {name} from {cluster or broker}?")
    outcomes = session.run(lambda admin: admin.users.delete(name, broker=broker, cluster=cluster))
    session.done(outcomes, "deleted")


@user.command("get")
@session()
@where
@click.argument("name")
def get_user(session: Session, name: str, broker: str | None, cluster: str | None) -> None:
    """Show a user as each broker has it. Passwords are not shown."""
    from pyrmq.errors import ClientError

    async def work(admin: Admin) -> View:
        outcomes = (await admin.users.get(name, broker=broker, cluster=cluster)).check()
        failed = [o.problem for o in outcomes.failed]
        found = [(o.target, o.value) for o in outcomes.done if o.value is not None]
        if not found and not failed:
            raise ClientError(f"no broker has user {name}")
        return _view_user(found, failed)

    session.report(work)


@user.command("list")
@session()
@where
@click.option("--filter", "text", default="", help="Names that have this in them.")
def list_user(session: Session, text: str, broker: str | None, cluster: str | None) -> None:
    """List the users of each broker. Passwords are not shown."""

    async def work(admin: Admin) -> View:
        outcomes = (await admin.users.list(text, broker=broker, cluster=cluster)).check()
        failed = [o.problem for o in outcomes.failed]
        return _view_user(
            [(o.target, found) for o in outcomes.done for found in o.value or []], failed
        )

    session.report(work)


def _view_user(found: list[tuple[str, User]], failed: list[str]) -> View:
    from pyrmq.cli.admin.view import Column, table

    rows: list[Any] = [
        {"broker": at, "name": u.name, "type": u.type, "status": u.status} for at, u in found
    ]
    return table(
        rows, Column("BROKER", "broker"), Column("USER", "name"), Column("TYPE", "type"),
        Column("STATUS", "status"), empty="no users",
        failed=failed,
    )  # fmt: skip


@user.command("copy")
@session()
@click.option("--from", "source", required=True, metavar="HOST:PORT", help="Who has them.")
@click.option("--to", "target", required=True, metavar="HOST:PORT", help="Who gets them.")
@click.argument("names", nargs=-1)
def copy_user(session: Session, source: str, target: str, names: tuple[str, ...]) -> None:
    """Give users of a broker, all or some, to another one."""
    session.done(session.run(lambda admin: admin.users.copy(source, target, names)), "copied")


@click.group(cls=Group)
def acl() -> None:
    """Access lists (authorization). --broker takes the address of pyrmq's name server as well."""


def _entries(command: Callable[..., None]) -> Callable[..., None]:
    for option in (
        click.option("--source-ip", multiple=True, help="From this address or network only."),
        click.option("--deny", is_flag=True, help="Forbid it, in the place of allowing it."),
        click.option("--action", multiple=True, required=True, help="Such as Pub or Sub."),
        click.option("--resource", multiple=True, required=True, help="Such as Topic:orders."),
        click.argument("subject"),
    ):
        command = option(command)
    return command


def _acl(
    subject: str, resource: tuple[str, ...], action: tuple[str, ...], deny: bool,
    source_ip: tuple[str, ...],
) -> Acl:  # fmt: skip
    from pyrmq.admin.auth import Acl, Entry

    decision = "Deny" if deny else "Allow"
    return Acl(subject, tuple(Entry(r, action, source_ip, decision) for r in resource))


@acl.command("create")
@session()
@where
@_entries
def create_acl(session: Session, broker: str | None, cluster: str | None, **given: Any) -> None:
    """Say what a SUBJECT, such as User:alice, may do."""
    made = _acl(**given)
    outcomes = session.run(lambda admin: admin.acls.create(made, broker=broker, cluster=cluster))
    session.done(outcomes, "created")


@acl.command("update")
@session()
@where
@_entries
def update_acl(session: Session, broker: str | None, cluster: str | None, **given: Any) -> None:
    """Add entries of a SUBJECT, or change those of the same resources."""
    made = _acl(**given)
    outcomes = session.run(lambda admin: admin.acls.update(made, broker=broker, cluster=cluster))
    session.done(outcomes, "changed")


@acl.command("delete")
@session(destroys=True)
@where
@click.argument("subject")
@click.option("--resource", help="Only the entries of this resource.")
def delete_acl(
    session: Session, subject: str, resource: str | None, broker: str | None, cluster: str | None
) -> None:
    """Delete the entries of a SUBJECT."""
    what = f" for {resource}" if resource else ""
    session.confirm(f"Delete the entries of {subject}{what} from {cluster or broker}?")
    outcomes = session.run(
        lambda admin: admin.acls.delete(subject, resource, broker=broker, cluster=cluster)
    )
    session.done(outcomes, "deleted")


@acl.command("get")
@session()
@where
@click.argument("subject")
def get_acl(session: Session, subject: str, broker: str | None, cluster: str | None) -> None:
    """Show the entries of a SUBJECT as each broker has them."""
    from pyrmq.errors import ClientError

    async def work(admin: Admin) -> View:
        outcomes = (await admin.acls.get(subject, broker=broker, cluster=cluster)).check()
        failed = [o.problem for o in outcomes.failed]
        found = [(o.target, o.value) for o in outcomes.done if o.value is not None]
        if not found and not failed:
            raise ClientError(f"no broker has entries of {subject}")
        return _view_acl(found, failed)

    session.report(work)


@acl.command("list")
@session()
@where
@click.option("--subject", default="", help="Subjects that have this in them.")
@click.option("--resource", default="", help="Resources that have this in them.")
def list_acl(
    session: Session, subject: str, resource: str, broker: str | None, cluster: str | None
) -> None:
    """List what each broker has."""

    async def work(admin: Admin) -> View:
        outcomes = await admin.acls.list(subject, resource, broker=broker, cluster=cluster)
        failed = [o.problem for o in outcomes.check().failed]
        return _view_acl(
            [(o.target, found) for o in outcomes.done for found in o.value or []], failed
        )

    session.report(work)


def _view_acl(found: list[tuple[str, Acl]], failed: list[str]) -> View:
    from pyrmq.cli.admin.view import Column, table

    rows: list[Any] = [
        {
            "broker": at,
            "subject": acl.subject,
            "policy": entry.policy or None,
            "resource": entry.resource,
            "actions": list(entry.actions),
            "source_ips": list(entry.source_ips),
            "decision": entry.decision,
        }
        for at, acl in found
        for entry in acl.entries
    ]
    return table(
        rows, Column("BROKER", "broker"), Column("SUBJECT", "subject"),
        Column("RESOURCE", "resource"), Column("ACTIONS", lambda r: ", ".join(r["actions"])),
        Column("FROM", lambda r: ", ".join(r["source_ips"])), Column("DECISION", "decision"),
        Column("POLICY", "policy"), empty="no entries",
        failed=failed,
    )  # fmt: skip


@acl.command("copy")
@session()
@click.option("--from", "source", required=True, metavar="HOST:PORT", help="Who has them.")
@click.option("--to", "target", required=True, metavar="HOST:PORT", help="Who gets them.")
@click.argument("subjects", nargs=-1)
def copy_acl(session: Session, source: str, target: str, subjects: tuple[str, ...]) -> None:
    """Give the entries of SUBJECTS of a broker, of all or some, to another one."""
    session.done(session.run(lambda admin: admin.acls.copy(source, target, subjects)), "copied")
