"""`pyrmq doctor`: whether a machine and its settings suit a server, and what to change."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pyrmq.cli.access import Access, access_options
from pyrmq.cli.admin.lazy import Command
from pyrmq.cli.serve import Many

if TYPE_CHECKING:
    from pyrmq.cli.admin.view import View
    from pyrmq.doctor.facts import Facts, Server
    from pyrmq.doctor.table import Row

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(cls=Command)
@click.option("-c", "--config", type=_FILE, help="The broker.conf, or with --namesrv namesrv.conf.")
@click.option("--namesrv", "of_namesrv", is_flag=True, help="For a name server, not a broker.")
@click.option(
    "-n",
    "--namesrv-addr",
    metavar="HOST:PORT;…",
    help="Name servers to ask.  [default: namesrvAddr of the configuration]",
)
@click.option(
    "--processes",
    type=Many(),
    default="1",
    metavar="N|auto",
    help="For so many brokers, as `pyrmq broker --processes` runs them.",
)
@click.option("-a", "--all", "every", is_flag=True, help="Show what is in order, too.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json", "yaml"]),
    default="text",
    show_default=True,
    help="For people, or for programs.",
)
@access_options
def doctor(
    config: Path | None,
    of_namesrv: bool,
    namesrv_addr: str | None,
    processes: str,
    every: bool,
    output: str,
    access: Callable[[], Access],
) -> None:
    """Check ports, disks, limits, the clock, the kernel, names and the cluster, before a server
    starts or beside one that runs. Changes nothing.

    Run it as the account of the server, with its file and its environment. Each finding says what
    it is, why it matters, and what to change. Exit codes: 0 fine, 3 warnings, 2 errors, 1 the
    command line or the configuration cannot be used.
    """
    import trio

    from pyrmq.cli.admin import view as views
    from pyrmq.cli.admin.session import printing
    from pyrmq.doctor.finding import Level
    from pyrmq.doctor.table import examine, verdict
    from pyrmq.errors import ConfigError

    if of_namesrv and processes != "1":
        raise click.UsageError("--processes is for brokers")
    try:
        servers = _servers(config, of_namesrv, namesrv_addr, processes)
        facts = trio.run(_facts, servers, access())
    except ConfigError as e:
        from pyrmq.escape import escape

        raise click.ClickException(escape(e)) from None
    # What is of the machine is the same for each of several brokers.
    rows = list(dict.fromkeys(row for one in facts for row in examine(one)))
    found = verdict(rows)
    with printing():
        if output == "text":
            _print(rows, every=every)
        else:
            views.show(_view(rows, found.value, servers[0]), output)
    code = {Level.ERROR: 2, Level.WARNING: 3}.get(found, 0)
    if code:
        raise click.exceptions.Exit(code)


def _servers(
    config: Path | None, of_namesrv: bool, namesrv: str | None, processes: str
) -> list[Server]:
    from pyrmq.cli.serve_many import configs
    from pyrmq.cli.settings import Settings
    from pyrmq.doctor.server import check_name_servers, of_broker, of_name_server

    settings = Settings.usable(config, of_namesrv=of_namesrv)
    built = settings.build()
    asked = check_name_servers(namesrv)
    if of_namesrv:
        return [of_name_server(built, settings.values, config, asked)]
    return [
        of_broker(settings.with_updates(one).config, settings.values, config, asked)
        for one in configs(built, processes)
    ]


async def _facts(servers: list[Server], access: Access) -> list[Facts]:
    from pyrmq.admin.api import Admin
    from pyrmq.doctor.gather import gather

    addresses = servers[0].name_servers
    if not addresses:
        return [await gather(server, None) for server in servers]
    async with Admin(";".join(addresses), credentials=access.credentials, tls=access.tls) as admin:
        return [await gather(server, admin) for server in servers]


def _view(rows: list[Row], state: str, server: Server) -> View:
    from pyrmq.cli.admin.view import View

    return View({"state": state, "server": server.kind, "findings": rows})


def _print(rows: list[Row], *, every: bool) -> None:
    """A paragraph for each finding, the errors last: there the eye is."""
    from collections import Counter

    from pyrmq.doctor.finding import Level
    from pyrmq.escape import escape

    styles = {"error": "red", "warning": "yellow", "ok": "green"}
    order = [level.value for level in Level]
    for row in sorted(rows, key=lambda r: order.index(r.level)):
        if row.level == Level.OK.value and not every:
            continue
        label = click.style(f"{row.level:<8}", fg=styles.get(row.level))
        click.echo(f"{label}{row.check}: {escape(row.what)}")
        if row.why:
            click.echo(f"        why: {escape(row.why)}")
        if row.change:
            click.echo(f"        change: {escape(row.change)}")
    count = Counter(row.level for row in rows)
    click.echo(
        f"{count['error']} errors, {count['warning']} warnings, {count['note']} notes; "
        f"{count['ok']} checks are in order"
    )
