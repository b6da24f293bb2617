"""`pyrmq mqadmin …`: hands the command line to `pyrmq.cli.mqadmin` as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class _Flat(click.Command):
    """Completes words by the table of flat commands."""

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        from pyrmq.cli.mqadmin.run import completions

        return completions(list(ctx.params.get("arguments") or ()), incomplete)


def _words(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return ctx.command.shell_complete(ctx, incomplete)


@click.command(
    cls=_Flat,
    context_settings={"ignore_unknown_options": True, "help_option_names": []},
    add_help_option=False,
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, shell_complete=_words)
def mqadmin(arguments: tuple[str, ...]) -> None:
    """RocketMQ's mqadmin: its commands, options and columns. `mqadmin help` lists them."""
    from pyrmq.cli.mqadmin.run import main

    raise click.exceptions.Exit(main(arguments))
