"""`pyrmq admin account …`: accounts of brokers with ACL 1.0."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from pyrmq.cli.admin.lazy import Group
from pyrmq.cli.admin.session import Session, session, where

if TYPE_CHECKING:
    from pyrmq.admin.api import Admin
    from pyrmq.cli.admin.view import View


@click.group(cls=Group)
def account() -> None:
    """Accounts of ACL 1.0, in plain_acl.yml of brokers with aclEnable=true."""


@account.command("set")
@session()
@where
@click.argument("account", metavar="ACCESS_KEY")
@click.option("--secret", is_flag=True, help="Set the secret key: asked for, or read from stdin.")
@click.option("--admin", is_flag=True, help="An administrator. Without it: none.")
@click.option("--white", metavar="PATTERN", help="Addresses that need no signature; '': none.")
@click.option("--default-topic", metavar="PERM", help="PUB, SUB, PUB|SUB or DENY.")
@click.option("--default-group", metavar="PERM", help="SUB or DENY.")
@click.option("--topic", "topics", multiple=True, metavar="NAME=PERM", help="All that are listed.")
@click.option("--group", "groups", multiple=True, metavar="NAME=PERM", help="All that are listed.")
def set_account(
    session: Session, account: str, secret: bool, admin: bool, white: str | None,
    default_topic: str | None, default_group: str | None, topics: tuple[str, ...],
    groups: tuple[str, ...], broker: str | None, cluster: str | None,
) -> None:  # fmt: skip
    """Create an account, or change it: what is not said stays as it is, but for --admin.

    A new account needs --secret.
    """
    from pyrmq.admin.accounts import PlainAccount

    made = PlainAccount(
        account,
        _secret() if secret else None,
        white,
        admin,
        default_topic,
        default_group,
        topics or None,
        groups or None,
    )
    session.done(
        session.run(lambda api: api.accounts.set(made, broker=broker, cluster=cluster)), "set"
    )


def _secret() -> str:
    import sys

    if sys.stdin.isatty():
        text: str = click.prompt("Secret key", hide_input=True, confirmation_prompt=True, err=True)
        return text
    return sys.stdin.readline(4096).rstrip("\r\n")


@account.command("delete")
@session(destroys=True)
@where
@click.argument("account", metavar="ACCESS_KEY")
def delete_account(session: Session, account: str, broker: str | None, cluster: str | None) -> None:
    """Delete an account."""
    session.confirm(f"Delete account {account} from {cluster or broker}?")
    outcomes = session.run(lambda api: api.accounts.delete(account, broker=broker, cluster=cluster))
    session.done(outcomes, "deleted")


@account.command("list")
@session()
@where
def list_accounts(session: Session, broker: str | None, cluster: str | None) -> None:
    """List the accounts of each broker. Secret keys are not shown."""

    async def work(api: Admin) -> View:
        from pyrmq.cli.admin.view import Column, table

        outcomes = (await api.accounts.list(broker=broker, cluster=cluster)).check()
        rows: list[Any] = [
            {
                "broker": outcome.target,
                "access_key": one.access_key,
                "admin": one.admin,
                "white": one.white_remote_address,
                "default_topic": one.default_topic_perm,
                "default_group": one.default_group_perm,
                "topics": list(one.topic_perms or ()),
                "groups": list(one.group_perms or ()),
            }
            for outcome in outcomes.done
            if outcome.value is not None
            for one in outcome.value.accounts
        ]
        white = [
            f"{o.target}: no account is needed from {', '.join(o.value.global_white_addresses)}"
            for o in outcomes.done
            if o.value is not None and o.value.global_white_addresses
        ]
        return table(
            rows, Column("BROKER", "broker"), Column("ACCESS KEY", "access_key"),
            Column("ADMIN", lambda r: "yes" if r["admin"] else ""),
            Column("TOPICS", lambda r: _permissions(r, "topic")),
            Column("GROUPS", lambda r: _permissions(r, "group")),
            Column("FROM", "white"), notes=white, empty="no accounts",
            failed=[o.problem for o in outcomes.failed],
        )  # fmt: skip

    session.report(work)


def _permissions(row: dict[str, Any], kind: str) -> str:
    return ", ".join([*row[f"{kind}s"], f"*={row[f'default_{kind}']}"])


@account.command("versions")
@session()
@where
def versions(session: Session, broker: str | None, cluster: str | None) -> None:
    """Show when requests changed the access files of each broker."""

    async def work(api: Admin) -> View:
        from pyrmq.cli.admin.view import Column, table
        from pyrmq.cli.mqadmin.text import seconds_text

        outcomes = (await api.accounts.versions(broker=broker, cluster=cluster)).check()
        rows: list[Any] = [
            {
                "broker": o.target,
                "file": path,
                "changes": version.counter,
                "changed": version.timestamp,
            }
            for o in outcomes.done
            if o.value is not None
            for path, version in o.value.files.items()
        ]
        return table(
            rows, Column("BROKER", "broker"), Column("FILE", "file"),
            Column("CHANGES", "changes", right=True),
            Column("LAST", lambda r: seconds_text(r["changed"]) if r["changed"] else ""),
            empty="no access files", failed=[o.problem for o in outcomes.failed],
        )  # fmt: skip

    session.report(work)


@account.command("white")
@session()
@where
@click.argument("patterns", nargs=-1, required=True)
@click.option("--file", default="", help="Path of an access file at the broker.")
def white(
    session: Session, patterns: tuple[str, ...], file: str, broker: str | None, cluster: str | None
) -> None:
    """Replace the global white list: from addresses of PATTERNS no account is needed."""
    outcomes = session.run(
        lambda api: api.accounts.set_white_addresses(
            patterns, file=file, broker=broker, cluster=cluster
        )
    )
    session.done(outcomes, "set")
