"""`pyrmq server`, `pyrmq namesrv`, `pyrmq broker`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import click

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_LEVELS = ("debug", "info", "warning", "error")

_log_option = click.option(
    "--log-level",
    type=click.Choice(_LEVELS),
    default="info",
    show_default=True,
    help="What goes to stderr.",
)


def _configure_logging(level: str) -> None:
    import logging

    from pyrmq.cli.logs import FewerLines, LineFormatter
    from pyrmq.engine import set_log_level

    handler = logging.StreamHandler()
    handler.setFormatter(LineFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    handler.addFilter(FewerLines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    set_log_level(level)


def _run(serving: Callable[[], AbstractAsyncContextManager[tuple[str, Any]]]) -> None:
    """Serves until SIGINT or SIGTERM, then stops in order; a second signal stops at once. `serving`
    gives the ready line and an event: when that is set it is left and entered again."""
    import signal

    import trio

    from pyrmq.net.server import listen

    listen.raise_descriptor_limit()

    async def until_signal() -> None:
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async with trio.open_nursery() as nursery:
                await nursery.start(_watch, signals, nursery.cancel_scope)
                while True:
                    async with serving() as (ready, restart):
                        click.echo(ready)
                        await restart.wait()

    async def _watch(
        signals: AsyncIterator[int],
        scope: trio.CancelScope,
        *,
        task_status: trio.TaskStatus[None],
    ) -> None:
        task_status.started()
        async for _ in signals:
            scope.cancel()
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            return

    trio.run(until_signal)


def _ready(broker: Any = None, /, **facts: Any) -> str:
    """The ready line. Behind the rest it names the name servers that a broker could not register
    with, if any."""
    import os

    from pyrmq.escape import escape

    parts = " ".join(f"{k}={v}" for k, v in facts.items())
    missed = "" if broker is None else escape(";".join(broker.registration.unregistered))
    return f"ready {parts} pid={os.getpid()}" + (f" unregistered={missed}" if missed else "")


@click.command()
@click.option("-c", "--config", type=_FILE, help="A broker.conf (RocketMQ property file).")
@click.option("--store", type=click.Path(file_okay=False, path_type=Path), help="Store folder.")
@click.option("--host", help="Address to listen on.  [default: bindAddress, else 127.0.0.1]")
@click.option("--namesrv-port", type=click.IntRange(0, 65535), help="[default: 9876]")
@click.option("--broker-port", type=click.IntRange(0, 65535), help="[default: 10911]")
@click.option("--flush", type=click.Choice(["ASYNC_FLUSH", "SYNC_FLUSH"]), help="flushDiskType.")
@_log_option
def server(
    config: Path | None,
    store: Path | None,
    host: str | None,
    namesrv_port: int | None,
    broker_port: int | None,
    flush: str | None,
    log_level: str,
) -> None:
    """Run a name server and a broker in one process.

    Listens on loopback unless --host says otherwise. Port 0 takes a free one. Options go before
    variables of the environment, and these before the file. Prints one line `ready namesrv=…
    broker=… store=… pid=…` when it serves; `unregistered=…` in it names the name servers that do
    not know the broker (yet): why is in the log.
    """
    _configure_logging(log_level)
    from pyrmq.broker import BrokerConfig
    from pyrmq.cli.settings import Settings
    from pyrmq.namesrv.config import NamesrvConfig
    from pyrmq.net.address import format_address
    from pyrmq.server import serving

    settings = Settings.usable(config)
    values = settings.values
    values.setdefault("brokerName", "broker-a")
    address = host or values.get("bindAddress") or "127.0.0.1"
    values["bindAddress"] = address
    values.setdefault("namesrvAddr", "")
    settings.set_option("storePathRootDir", store, "--store")
    settings.set_option("listenPort", broker_port, "--broker-port")
    settings.set_option("flushDiskType", flush, "--flush")
    broker_config = BrokerConfig.from_properties(values)
    names = Settings.usable(None, of_namesrv=True)
    # What guards the broker guards its name server.
    names.values.setdefault("adminAddressAllowList", broker_config.admin_address_allow_list)
    names.values.setdefault("bindAddress", address)
    folder = broker_config.store_path_root_dir / "config"
    names.values.setdefault("kvConfigPath", str(folder / "kvConfig.json"))
    names.set_option("bindAddress", host, "--host")
    names.set_option("listenPort", namesrv_port, "--namesrv-port")
    namesrv_config = NamesrvConfig.from_properties(names.values)

    @asynccontextmanager
    async def serve() -> AsyncIterator[tuple[str, Any]]:
        async with serving(broker_config, namesrv_config, settings.pinned) as running:
            ready = _ready(
                running.broker,
                namesrv=running.namesrv,
                broker=format_address(running.broker_address),
                store=broker_config.store_path_root_dir,
            )
            yield ready, running.broker.restart

    _run(serve)


@click.command()
@click.option("-c", "--config", type=_FILE, help="A namesrv.conf (RocketMQ property file).")
@click.option("-p", "--print-config", is_flag=True, help="Print the configuration and exit.")
@_log_option
def namesrv(config: Path | None, print_config: bool, log_level: str) -> None:
    """Run a name server."""
    _configure_logging(log_level)
    import trio

    from pyrmq.cli.settings import Settings
    from pyrmq.namesrv import NameServer
    from pyrmq.namesrv.config import NamesrvConfig
    from pyrmq.net.address import format_address

    settings = Settings.usable(config, of_namesrv=True)
    namesrv_config = NamesrvConfig.from_properties(settings.values)
    if print_config:
        _print(namesrv_config)
        return

    @asynccontextmanager
    async def serve() -> AsyncIterator[tuple[str, Any]]:
        name_server = NameServer(namesrv_config)
        async with trio.open_nursery() as nursery:
            await nursery.start(name_server.run)
            yield _ready(namesrv=format_address(name_server.address)), trio.Event()
            nursery.cancel_scope.cancel()

    _run(serve)


@click.command()
@click.option("-c", "--config", type=_FILE, help="A broker.conf (RocketMQ property file).")
@click.option("-n", "--namesrv-addr", help="Name servers, `host:port;host:port`.")
@click.option("-p", "--print-config", is_flag=True, help="Print the configuration and exit.")
@_log_option
def broker(
    config: Path | None, namesrv_addr: str | None, print_config: bool, log_level: str
) -> None:
    """Run a broker.

    Prints one line `ready broker=… store=… pid=…` when it serves; `unregistered=…` in it names the
    name servers that do not know the broker (yet): why is in the log, and it goes on trying.
    """
    _configure_logging(log_level)
    from dataclasses import replace

    from pyrmq.broker import Broker, BrokerConfig
    from pyrmq.cli.settings import Settings
    from pyrmq.net.address import format_address

    settings = Settings.usable(config)
    settings.set_option("namesrvAddr", namesrv_addr, "--namesrv-addr")
    broker_config = BrokerConfig.from_properties(settings.values)
    if print_config:
        _print(settings.with_updates(broker_config).config)
        return
    if not broker_config.namesrv_addr:
        click.echo(
            "no name server given (-n or namesrvAddr): clients must know this broker", err=True
        )

    @asynccontextmanager
    async def serve() -> AsyncIterator[tuple[str, Any]]:
        nonlocal broker_config
        async with Broker.serving(broker_config, settings.pinned) as running:
            # Where it is served again it listens where it did.
            broker_config = replace(broker_config, listen_port=running.address[1])
            ready = _ready(
                running,
                broker=format_address(running.address),
                store=broker_config.store_path_root_dir,
            )
            yield ready, running.restart

    _run(serve)


def _print(config: Any) -> None:
    from pyrmq.config.table import values_of

    for key, value in values_of(config).items():
        click.echo(f"{key}={value}")
