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
@click.argument("file", type=_FILE)
@_namesrv
def check(file: Path, namesrv: bool) -> None:
    """Check a broker.conf: every key that is wrong is named. Exits with 1 if one is.

    Keys that have no effect here are named as well, but are no fault.
    """
    import logging

    from pyrmq.errors import ConfigError
    from pyrmq.escape import escape
    from pyrmq.net.properties_file import load_file

    logging.basicConfig(format="%(message)s", level="WARNING", stream=sys.stdout)
    settings = _settings(namesrv)
    values = load_file(file)
    faults = 0
    for name, value in values.items():
        try:
            settings.from_properties({name: value})
        except ConfigError as e:
            faults += 1
            click.echo(escape(e))
    if faults:
        raise click.ClickException(f"{faults} of {len(values)} keys of {file} cannot be used")
    settings.from_properties(values)
    click.echo(f"{file} can be used: {len(values)} keys")


@config.command("print")
@click.argument("file", type=_FILE, required=False)
@_namesrv
def print_(file: Path | None, namesrv: bool) -> None:
    """Print every key with its value, as FILE has it or by default."""
    from pyrmq.net.config_table import values_of
    from pyrmq.net.properties_file import load_file

    instance = _settings(namesrv).from_properties(load_file(file) if file else {})
    for name, value in values_of(instance).items():
        click.echo(f"{name}={value}")


@config.command()
@_namesrv
def defaults(namesrv: bool) -> None:
    """Print a broker.conf with every key, its default and what it means, all commented out."""
    from pyrmq.net.config_table import keys_of, values_of

    settings = _settings(namesrv)
    values = values_of(settings())
    for name, (_, row) in keys_of(settings).items():
        if row.section:
            click.echo(f"\n## {row.section.partition(' ([')[0]}")
        click.echo(f"# {row.doc}")
        click.echo(f"#{name}={values[name]}")
