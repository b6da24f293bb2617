"""`pyrmq server`, `pyrmq namesrv`, `pyrmq broker`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pyrmq.cli.console_beside import ConsoleOptions, console_options
from pyrmq.cli.log_options import LogOptions, early_log, log_options_of

if TYPE_CHECKING:
    from pyrmq.broker import Broker, BrokerConfig
    from pyrmq.cli.settings import Settings
    from pyrmq.cli.until_signal import Served
    from pyrmq.logs.setup import LogSettings

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


class Many(click.ParamType[str]):
    """A number of brokers, or `auto`."""

    name = "N|auto"

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        from pyrmq.processes.plan import AUTO, MOST

        text = str(value)
        if text != AUTO and not (text.isascii() and text.isdecimal() and 1 <= int(text) <= MOST):
            self.fail(f"{text!r}: a number from 1 to {MOST}, or {AUTO}", param, ctx)
        return text


@click.command()
@click.option("-c", "--config", type=_FILE, help="A broker.conf (RocketMQ property file).")
@click.option("--store", type=click.Path(file_okay=False, path_type=Path), help="Store folder.")
@click.option("--host", help="Address to listen on.  [default: bindAddress, else 127.0.0.1]")
@click.option("--namesrv-port", type=click.IntRange(0, 65535), help="[default: 9876]")
@click.option("--broker-port", type=click.IntRange(0, 65535), help="[default: 10911]")
@click.option("--flush", type=click.Choice(["ASYNC_FLUSH", "SYNC_FLUSH"]), help="flushDiskType.")
@click.option(
    "--brokers",
    type=Many(),
    default="1",
    help="Brokers of one cluster, each a process; auto: as many as there are cores.  [default: 1]",
)
@console_options
@log_options_of
def server(
    config: Path | None,
    store: Path | None,
    host: str | None,
    namesrv_port: int | None,
    broker_port: int | None,
    flush: str | None,
    brokers: str,
    log_options: LogOptions,
    console: ConsoleOptions,
) -> None:
    """Run a name server and a broker in one process, or several brokers beside it.

    Listens on loopback unless --host says otherwise. Port 0 takes a free one. Options go before
    variables of the environment, and these before the file. Prints one line `ready namesrv=…
    broker=… store=… pid=…` when it serves; `unregistered=…` in it names the name servers that do
    not know the broker (yet): why is in the log.

    With --brokers N there is a line for each broker, and then `ready namesrv=… brokers=… pid=…`.
    A broker that dies is started again. The exit code is 0 after SIGTERM or Ctrl-C if all stopped
    in order. With --console the ready line has `console=http://…` too.
    """
    logs = early_log()
    from pyrmq.auth.settings import AccessKeys
    from pyrmq.broker import BrokerConfig
    from pyrmq.cli.serve_many import planned, serve_beside
    from pyrmq.cli.settings import Settings
    from pyrmq.config.log_keys import LogKeys
    from pyrmq.config.table import keys_of
    from pyrmq.errors import ConfigError
    from pyrmq.metrics.settings import metrics_beside
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
    log_options.put(settings)
    broker_config = BrokerConfig.from_properties(values)
    names = Settings.usable(None, of_namesrv=True)
    for key in keys_of(LogKeys):
        if key in names.variables:
            raise ConfigError(
                f"{names.variables[key]}: name server and broker have one log here, the broker's: "
                "set the variable of the broker instead"
            )
        if key in values:
            names.values[key] = values[key]
    # What guards the broker guards its name server.
    names.values.setdefault("adminAddressAllowList", broker_config.admin_address_allow_list)
    for key in keys_of(AccessKeys):
        if key in values:
            names.values.setdefault(key, values[key])
    names.values.setdefault("bindAddress", address)
    for key, value in metrics_beside(broker_config).items():
        names.values.setdefault(key, value)
    folder = broker_config.store_path_root_dir / "config"
    names.values.setdefault("kvConfigPath", str(folder / "kvConfig.json"))
    names.set_option("bindAddress", host, "--host")
    names.set_option("listenPort", namesrv_port, "--namesrv-port")
    namesrv_config = NamesrvConfig.from_properties(names.values)
    members = planned(broker_config, brokers, "--brokers")
    logs.open(log_settings(settings, broker_config, len(members)))
    if len(members) > 1:
        common = ("bindAddress", "flushDiskType")
        kept = {str(key): values[key] for key in common if key in values}
        serve_beside(
            members, config, kept, log_options.words(), namesrv_config, broker_config, console
        )
        return

    from pyrmq.cli.until_signal import ready_line, run

    @asynccontextmanager
    async def serve() -> AsyncIterator[Served]:
        async with (
            serving(broker_config, namesrv_config, settings.pinned) as running,
            console.beside(running.namesrv, broker_config) as beside,
        ):
            ready = ready_line(
                running.broker,
                namesrv=running.namesrv,
                broker=format_address(running.broker_address),
                store=broker_config.store_path_root_dir,
                **beside,
            )
            logs.writer.flush()
            yield _served(ready, running.broker)

    run(serve)


def _served(ready: str, broker: Broker) -> Served:
    from pyrmq.cli.until_signal import Served

    return Served(
        ready,
        broker.restart,
        broker.health.live,
        broker.leave_routes,
        broker.live.now.drain_timeout_millis / 1000,
        rows=broker.rows,
    )


@click.command()
@click.option("-c", "--config", type=_FILE, help="A namesrv.conf (RocketMQ property file).")
@click.option("-p", "--print-config", is_flag=True, help="Print the configuration and exit.")
@log_options_of
def namesrv(config: Path | None, print_config: bool, log_options: LogOptions) -> None:
    """Run a name server."""
    logs = early_log()
    import trio

    from pyrmq.cli.settings import Settings
    from pyrmq.cli.until_signal import Served, ready_line, run
    from pyrmq.namesrv import NameServer
    from pyrmq.namesrv.config import NamesrvConfig
    from pyrmq.net.address import format_address

    settings = Settings.usable(config, of_namesrv=True)
    log_options.put(settings)
    namesrv_config = NamesrvConfig.from_properties(settings.values)
    if print_config:
        _print(namesrv_config)
        return
    logs.open(namesrv_config.log_settings, is_namesrv=True)

    @asynccontextmanager
    async def serve() -> AsyncIterator[Served]:
        name_server = NameServer(namesrv_config)
        async with trio.open_nursery() as nursery:
            await nursery.start(name_server.run)
            facts = {"namesrv": format_address(name_server.address)}
            if name_server.metrics_address is not None:
                facts["metrics"] = format_address(name_server.metrics_address)
            ready = ready_line(**facts)
            logs.writer.flush()
            yield Served(ready, problems=name_server.health.live, rows=name_server.rows)
            nursery.cancel_scope.cancel()

    run(serve)


@click.command()
@click.option("-c", "--config", type=_FILE, help="A broker.conf (RocketMQ property file).")
@click.option("-n", "--namesrv-addr", help="Name servers, `host:port;host:port`.")
@click.option("-p", "--print-config", is_flag=True, help="Print the configuration and exit.")
@click.option(
    "--processes",
    type=Many(),
    default="1",
    help="Brokers of one cluster, each a process; auto: as many as there are cores.  [default: 1]",
)
@click.option("--member", multiple=True, hidden=True)  # KEY=VALUE, from a supervisor
@log_options_of
def broker(
    config: Path | None,
    namesrv_addr: str | None,
    print_config: bool,
    processes: str,
    member: tuple[str, ...],
    log_options: LogOptions,
) -> None:
    """Run a broker.

    Prints one line `ready broker=… store=… pid=…` when it serves; `unregistered=…` in it names the
    name servers that do not know the broker (yet): why is in the log, and it goes on trying.

    With --processes N there is a line for each broker, and then `ready brokers=… pid=…`. A broker
    that dies is started again.
    """
    own = dict(pair.partition("=")[::2] for pair in member)
    if own:
        from pyrmq.processes import lifeline

        line = lifeline.hold()
    logs = early_log()
    import os
    import signal
    from dataclasses import replace

    from pyrmq.broker import Broker, BrokerConfig
    from pyrmq.cli.serve_many import configs, planned, serve_alone, started_by
    from pyrmq.cli.settings import Settings
    from pyrmq.cli.until_signal import ready_line, run
    from pyrmq.net.address import format_address

    settings = Settings.usable(config)
    settings.set_option("namesrvAddr", namesrv_addr, "--namesrv-addr")
    log_options.put(settings)
    for key, value in own.items():
        settings.set_option(key, value, "--brokers or --processes")
    broker_config = BrokerConfig.from_properties(settings.values)
    if own:
        broker_config = started_by(os.environ, broker_config)
        line.grace += broker_config.drain_timeout_millis / 1000
    if print_config:
        for one in configs(broker_config, processes):
            if one.broker_name != broker_config.broker_name:
                click.echo()
            _print(settings.with_updates(one).config)
        return
    members = [] if own else planned(broker_config, processes, "--processes")
    of = own.get("brokerName", "")
    logs.open(log_settings(settings, broker_config, len(members)), of)
    if not broker_config.namesrv_addr and not own:
        click.echo(
            "no name server given (-n or namesrvAddr): clients must know this broker", err=True
        )

    if len(members) > 1:
        options = {"namesrvAddr": namesrv_addr} if namesrv_addr is not None else {}
        drain = broker_config.drain_timeout_millis / 1000
        serve_alone(members, config, options, log_options.words(), drain)
        return

    @asynccontextmanager
    async def serve() -> AsyncIterator[Served]:
        nonlocal broker_config
        async with Broker.serving(broker_config, settings.pinned) as running:
            # Where it is served again it listens where it did.
            broker_config = replace(broker_config, listen_port=running.address[1])
            ready = ready_line(
                running,
                broker=format_address(running.address),
                store=broker_config.store_path_root_dir,
            )
            logs.writer.flush()
            yield _served(ready, running)

    # Whoever started it may kill it; what comes from others twice (systemd) forces nothing.
    run(serve, signal.SIG_IGN if own else None)


def log_settings(settings: Settings, config: BrokerConfig, brokers: int) -> LogSettings:
    """Those of a broker are as it was updated; a supervisor's as they are configured."""
    return (config if brokers > 1 else settings.with_updates(config).config).log_settings


def _print(config: Any) -> None:
    from pyrmq.config.table import values_of

    for key, value in values_of(config).items():
        click.echo(f"{key}={value}")
