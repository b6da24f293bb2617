"""`pyrmq mqadmin …`: hands the command line to `pyrmq.cli.mqadmin` as it is."""

from __future__ import annotations

import click


@click.command(
    context_settings={"ignore_unknown_options": True, "help_option_names": []},
    add_help_option=False,
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def mqadmin(arguments: tuple[str, ...]) -> None:
    """RocketMQ's mqadmin: its commands, options and columns. `mqadmin help` lists them."""
    from pyrmq.cli.mqadmin.run import main

    raise click.exceptions.Exit(main(arguments))
