"""`pyrmq config`: checking and showing configuration files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)

_namesrv = click.option("--namesrv", is_flag=True, help="A name server's, not a broker's.")


def _settings(namesrv: bool) -> Any:
    from pyrmq.broker import BrokerConfig
    from pyrmq.namesrv.config import NamesrvConfig

    return NamesrvConfig if namesrv else BrokerConfig


@click.group()
def config() -> None:
    """Check and show configuration files."""


@config.command()
@click.argument("file", type=_FILE, required=False)
@_namesrv
@click.option(
    "--hardening",
    is_flag=True,
    help="Say what to change for a server that others can reach; 1 if something is serious.",
)
@click.option(
    "-o", "--output", type=click.Choice(["text", "json"]), help="With --hardening; default: text."
)
def check(file: Path | None, namesrv: bool, hardening: bool, output: str | None) -> None:
    """Check a broker.conf and the environment: every key that is wrong is named. Exits with 1 if
    one is.

    Keys that have no effect here are named as well, but are no fault. Without FILE only the
    environment is checked. The files of TLS are read.
    """
    if hardening:
        _harden(file, namesrv, output or "text")
        return
    if output is not None:
        raise click.UsageError("--output needs --hardening")
    import logging

    from pyrmq.cli.settings import Settings
    from pyrmq.config.table import check_value, report_unused
    from pyrmq.errors import ConfigError
    from pyrmq.escape import escape
    from pyrmq.net.server.tls import ServerTls

    logging.basicConfig(format="%(message)s", level="WARNING", stream=sys.stdout, force=True)
    settings = Settings.read(file, of_namesrv=namesrv)
    faults: list[ConfigError] = list(settings.errors)
    for name, value in settings.of_file.items():
        try:
            check_value(settings.cls, name, value, settings.others)
        except ConfigError as e:
            faults.append(e)
    report_unused(settings.values, settings.others)
    for fault in faults:
        click.echo(escape(fault))
    variables = len(settings.variables) + len(settings.errors)
    if faults:
        places = ([str(file)] if file else []) + (["the environment"] if variables else [])
        count, where = len(settings.of_file) + variables, " and ".join(places)
        raise click.ClickException(f"{len(faults)} of {count} keys of {where} cannot be used")
    ServerTls("configuration", settings.build().tls_settings())
    if file:
        click.echo(f"{file} can be used: {len(settings.of_file)} keys")
    if variables or not file:
        click.echo(f"the environment can be used: {variables} variables")


def _harden(file: Path | None, namesrv: bool, output: str) -> None:
    from pyrmq.cli.hardening import Severity
    from pyrmq.cli.hardening import check as look
    from pyrmq.cli.settings import Settings
    from pyrmq.config.table import values_of
    from pyrmq.escape import escape, json_line
    from pyrmq.net.server.tls import ServerTls

    settings = Settings.usable(file, of_namesrv=namesrv)
    built = settings.build()
    ServerTls("configuration", built.tls_settings())
    values = values_of(built)
    found = look(values, settings.values, file, namesrv=namesrv)
    serious = sum(one.severity is Severity.SERIOUS for one in found)
    if output == "json":
        click.echo(json_line([one.to_json() for one in found]))
    for one in found if output == "text" else ():
        click.echo(f"{one.severity.value:<8} {escape(one.key)}={escape(one.now)}")
        click.echo(f"         set: {escape(one.set)}")
        click.echo(f"         why: {escape(one.why)}")
    if output == "text":
        click.echo(f"{serious} serious, {len(found) - serious} advice")
    if serious:
        raise click.exceptions.Exit(1)


@config.command("print")
@click.argument("file", type=_FILE, required=False)
@_namesrv
def print_(file: Path | None, namesrv: bool) -> None:
    """Print every key with its value, as a server with FILE would have it here.

    A comment in front of a key says what sets it: FILE, a variable of the environment, or an update
    that the broker took while it ran. Other keys have their default.
    """
    from pyrmq.cli.settings import Settings
    from pyrmq.config.table import values_of
    from pyrmq.escape import escape

    settings = Settings.usable(file, of_namesrv=namesrv)
    instance = settings.build()
    sources = dict(settings.sources)
    if not namesrv:
        updated = settings.with_updates(instance)
        instance = updated.config
        sources |= dict.fromkeys(updated.updates, f"update: {settings.update_file(instance)}")
    click.echo("# A key without a comment in front of it has its default.")
    for name, value in values_of(instance).items():
        if name in sources:
            click.echo(f"# {escape(sources[name])}")
        click.echo(f"{name}={escape(value)}")


@config.command()
@_namesrv
def defaults(namesrv: bool) -> None:
    """Print a broker.conf with every key, its default and what it means, all commented out."""
    from pyrmq.config.table import keys_of, values_of

    settings = _settings(namesrv)
    values = values_of(settings())
    for name, (_, row) in keys_of(settings).items():
        if row.section:
            click.echo(f"\n## {row.section.partition(' ([')[0]}")
        click.echo(f"# {row.doc}")
        click.echo(f"#{name}={values[name]}")
