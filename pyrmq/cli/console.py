"""`pyrmq console`: the web console."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import click

from pyrmq.cli.access import Access, access_options

if TYPE_CHECKING:
    from pyrmq.cli.until_signal import Served

EXTRA = "pip install 'pyrmq-broker[console]'"


@click.command()
@click.option("-n", "--namesrv", required=True, help="Name servers, `host:port;host:port`.")
@click.option("--bind", default="127.0.0.1:8090", show_default=True, help="Address to listen on.")
@click.option("--read-only", is_flag=True, help="Change nothing.")
@click.option("--timeout", type=click.FloatRange(0.1, 3600), help="Seconds for a request.")
@access_options
def console(
    namesrv: str, bind: str, read_only: bool, timeout: float | None, access: Callable[[], Access]
) -> None:
    """Run the web console of a cluster.

    Prints one line `ready console=http://… pid=…` when it serves.
    """
    from pyrmq.logs.setup import Logs, heed_signals

    heed_signals()
    logs = Logs.early()
    click.get_current_context().call_on_close(logs.writer.flush)
    import trio

    from pyrmq.cli.until_signal import Served, ready_line, run
    from pyrmq.errors import MissingPackageError
    from pyrmq.net.address import parse_address

    try:
        from pyrmq.console.service import ConsoleService
        from pyrmq.console.settings import Settings
    except ModuleNotFoundError as e:
        raise MissingPackageError(f"the console needs {e.name}", EXTRA) from e
    found = access()
    settings = Settings(
        namesrv,
        parse_address(bind, "--bind"),
        read_only,
        credentials=found.credentials,
        tls=found.tls,
        timeout=timeout,
    )
    service = ConsoleService(settings)

    @asynccontextmanager
    async def serve() -> AsyncIterator[Served]:
        async with trio.open_nursery() as nursery:
            await nursery.start(service.run)
            yield Served(ready_line(console=service.url))
            nursery.cancel_scope.cancel()

    run(serve)
