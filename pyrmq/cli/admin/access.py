"""`pyrmq admin auth …`: users and access lists of a broker, in a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pyrmq.cli.admin.lazy import Group
from pyrmq.cli.admin.session import Session, session

if TYPE_CHECKING:
    from pyrmq.admin.api import Admin

_broker = click.option("-b", "--broker", required=True, metavar="HOST:PORT", help="The broker.")


@click.group(cls=Group)
def auth() -> None:
    """Users and access lists of a broker, whole: to a file, and from it to another broker.

    The brokers may be pyrmq's or Apache RocketMQ's.
    """


@auth.command("export")
@session()
@_broker
@click.option(
    "-f",
    "--file",
    "path",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="The file that is written; only its owner may read it.",
)
@click.option(
    "--with-passwords", is_flag=True, help="Needed to make users anew. Delete the file after use."
)  # fmt: skip
def export_access(session: Session, broker: str, path: Path, with_passwords: bool) -> None:
    """Write users and access lists of a broker to a file, without passwords by default."""
    import trio

    from pyrmq.auth import secret_file
    from pyrmq.cli.admin.view import fields

    async def work(admin: Admin) -> dict[str, int]:
        found = await admin.access.export(broker, with_passwords=with_passwords)
        await trio.to_thread.run_sync(secret_file.save, path, found)
        return {name: len(rows) for name, rows in found.items()}

    session.show(fields({"file": str(path), **session.run(work)}))


@auth.command("import")
@session()
@_broker
@click.option(
    "-f", "--file", "path", required=True,
    type=click.Path(path_type=Path, dir_okay=False, exists=True), help="What export wrote.",
)  # fmt: skip
def import_access(session: Session, broker: str, path: Path) -> None:
    """Make or change users and access lists of a broker as a file says; others stay."""
    import trio

    from pyrmq.auth import secret_file

    async def work(admin: Admin) -> Any:
        do = "give the file that `pyrmq admin auth export` wrote"
        exported = await trio.to_thread.run_sync(secret_file.load, path, do)
        return await admin.access.load(broker, exported or {})

    session.done(session.run(work), "imported")
