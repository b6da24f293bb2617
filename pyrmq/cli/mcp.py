"""`pyrmq mcp`: the administration of a cluster as tools for assistants."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from pyrmq.cli.access import access_options
from pyrmq.cli.admin.session import INTERRUPTED, Seconds, namesrv_option

if TYPE_CHECKING:
    from pyrmq.cli.access import Access


EXTRA = "pip install 'pyrmq-broker[mcp]'"


@click.command()
@namesrv_option
@click.option(
    "--allow-changes",
    is_flag=True,
    help="Also tools that change something; each change is planned, confirmed and logged.",
)
@click.option(
    "--timeout",
    type=Seconds(0.1, 3600),
    metavar="SECONDS",
    help="For one request to a server.  [default: 5, more for what takes a server longer]",
)
@click.option(
    "--call-timeout",
    type=Seconds(1, 3600),
    metavar="SECONDS",
    default=60,
    show_default=True,
    help="For one call of a tool.",
)
@click.option(
    "--log-file",
    metavar="FILE",
    default="",
    help="Where the log goes, with the audit of changes.  [default: stderr]",
)
@access_options
def mcp(
    namesrv: str,
    allow_changes: bool,
    timeout: float | None,
    call_timeout: float,
    log_file: str,
    access: Callable[[], Access],
) -> None:
    """Serve an assistant over MCP on stdin and stdout.

    An assistant starts this command by itself: docs/mcp.md says how it is told. It can look into
    the cluster, and with --allow-changes change it. Only the protocol goes to stdout.
    """
    from pyrmq.cli.tools_file import expected
    from pyrmq.errors import ConfigError, MissingPackageError
    from pyrmq.logs.setup import Logs, LogSettings

    try:
        from pyrmq.mcp.service import McpSettings, run
    except ModuleNotFoundError as e:
        if (e.name or "").partition(".")[0] not in ("mcp", "mcp_types", "anyio", "pydantic"):
            raise
        raise MissingPackageError(f"pyrmq mcp needs {e.name}", EXTRA) from e

    if sys.stdin is None:
        raise ConfigError("pyrmq mcp talks with an assistant over stdin, and stdin is closed")
    given = access()
    settings = McpSettings(
        namesrv, timeout, call_timeout, allow_changes, given.credentials, given.tls,
        expected(namesrv),
    )  # fmt: skip
    logs = Logs.early()
    logs.open(LogSettings(file=log_file))
    if sys.stdin.isatty():
        click.echo("pyrmq mcp speaks MCP with an assistant, not with people: docs/mcp.md", err=True)
    try:
        ended = run(settings)
    finally:
        logs.close()
    if ended == signal.SIGINT:
        raise click.exceptions.Exit(INTERRUPTED)
