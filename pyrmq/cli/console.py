"""`pyrmq console`: the web console, and its password file."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pyrmq.cli.access import Access, access_options
from pyrmq.cli.log_options import LogOptions, early_log, log_options_of
from pyrmq.cli.messages import namesrv_option

if TYPE_CHECKING:
    from pyrmq.cli.until_signal import Served

EXTRA = "pip install 'pyrmq-broker[console]'"
_FILE = click.Path(dir_okay=False, path_type=Path)


@click.group(invoke_without_command=True)
@namesrv_option
@click.option(
    "--bind",
    default="127.0.0.1:8090",
    show_default=True,
    metavar="HOST:PORT",
    help="Address to listen on; port 0 takes a free one.",
)
@click.option("--read-only", is_flag=True, help="Change nothing, whoever asks.")
@click.option(
    "--login",
    default="none",
    show_default=True,
    metavar="none|broker|FILE",
    help="Who may come in: everybody on this machine, the users of the brokers, or those of a "
    "password file (pyrmq console passwords set FILE NAME).",
)
@click.option("--cert", type=_FILE, help="Serve by TLS: the certificate (PEM).")
@click.option("--key", type=_FILE, help="Its key.  [default: in the file of --cert]")
@click.option(
    "--url",
    default="",
    metavar="URL",
    help="The address that browsers use, if a proxy stands before the console.",
)
@click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="A name by which browsers call the console, besides addresses and the name of this "
    "machine; may be given several times.",
)
@click.option(
    "--timeout", type=click.FloatRange(0.1, 3600), help="Seconds for a request to a server."
)
@click.option("--lifeline", is_flag=True, hidden=True)  # from a supervisor
@access_options
@log_options_of
@click.pass_context
def console(
    ctx: click.Context,
    /,
    namesrv: str,
    bind: str,
    login: str,
    access: Callable[[], Access],
    log_options: LogOptions,
    lifeline: bool,
    **options: Any,
) -> None:
    """Run the web console of a cluster: pyrmq's, or Apache RocketMQ's.

    The options of access and TLS are what the console connects to the cluster with. It prints one
    line `ready console=http://… pid=…` when it serves, also while the cluster is away.
    """
    if ctx.invoked_subcommand is not None:
        return
    if lifeline:
        from pyrmq.processes.lifeline import hold

        hold()
    logs = early_log()
    import signal

    import trio

    from pyrmq.cli.tools_file import expected
    from pyrmq.cli.until_signal import Served, ready_line, run
    from pyrmq.errors import MissingPackageError
    from pyrmq.net.address import parse_address

    try:
        from pyrmq.console.service import ConsoleService
        from pyrmq.console.settings import LoginKind, Settings
    except ModuleNotFoundError as e:
        if (e.name or "").partition(".")[0] == "pyrmq":
            raise
        raise MissingPackageError(f"the console needs {e.name}", EXTRA) from e
    kinds = {"none": LoginKind.NONE, "broker": LoginKind.BROKER}
    found = access()
    settings = Settings(
        namesrv,
        parse_address(bind, "--bind"),
        login=kinds.get(login, LoginKind.FILE),
        password_file=None if login in kinds else Path(login),
        credentials=found.credentials,
        tls=found.tls,
        expected=expected(namesrv),
        **options,
    )
    logs.open(log_options.alone())
    service = ConsoleService(settings)

    @asynccontextmanager
    async def serve() -> AsyncIterator[Served]:
        async with trio.open_nursery() as nursery:
            await nursery.start(service.run)
            logs.writer.flush()
            yield Served(ready_line(console=service.url))
            service.stop()

    run(serve, signal.SIG_IGN if lifeline else None)


@console.group()
def passwords() -> None:
    """The password file of the console: who may log in, and change something."""


@passwords.command(name="set")
@click.argument("file", type=_FILE)
@click.argument("name")
@click.option(
    "--role",
    type=click.Choice(["read-only", "admin"]),
    help="What the user may do.  [default: as before; of a new user: read-only]",
)
def set_password(file: Path, name: str, role: str | None) -> None:
    """Give the user NAME a password, and add the user if need be. FILE is made if it is missing.

    The password is asked for, or read as one line from stdin. A console that runs takes the change
    at once; sessions with the old password end.
    """
    from pyrmq.console.password_file import User, changing, check_name, hashed, read
    from pyrmq.console.settings import Role

    check_name(name)
    if file.exists():
        read(file)  # says what is wrong with it before it asks
    new = hashed(_password())
    with changing(file) as users:
        before = users.get(name)
        chosen = Role(role) if role else before.role if before else Role.READ_ONLY
        users[name] = User(name, chosen, new)
    click.echo(f"{name}: {chosen.value}")


@passwords.command()
@click.argument("file", type=_FILE)
@click.argument("name")
def remove(file: Path, name: str) -> None:
    """Remove the user NAME. Its sessions end."""
    from pyrmq.console.password_file import changing, read
    from pyrmq.errors import ConfigError
    from pyrmq.escape import escape

    read(file)  # it has to be there
    with changing(file) as users:
        if users.pop(name, None) is None:
            raise ConfigError(f"there is no user {escape(name)} in {escape(file)}")


@passwords.command(name="list")
@click.argument("file", type=_FILE)
def list_users(file: Path) -> None:
    """Print users and roles."""
    from pyrmq.console.password_file import read

    for user in read(file).values():
        click.echo(f"{user.name}\t{user.role.value}")


def _password() -> str:
    import sys

    if sys.stdin.isatty():
        return str(click.prompt("Password", hide_input=True, confirmation_prompt=True))
    return sys.stdin.readline().rstrip("\r\n")
