"""Topics as Iceberg tables: `pyrmq pipeline table NAME`. Each command is in a file of its own."""

from __future__ import annotations

import importlib
from typing import Any

import click

from spark_ext.jobs.command import run_alone

COMMANDS = {
    "lag": ("spark_ext.jobs.table_lag", "How far a table is behind its topic, by queue."),
    "compact": ("spark_ext.jobs.table_compact", "Replace many small files by few large ones."),
    "watch": ("spark_ext.jobs.table_watch", "Many topics into their tables, as a service."),
    "expire": ("spark_ext.jobs.table_expire", "Remove old snapshots and their files."),
    "write": ("spark_ext.jobs.table_write", "Add what a topic has and its table has not."),
}
"""Name of each command: its module, and what it is for."""


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module: Any = importlib.import_module(COMMANDS[name][0])
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(sorted((name, text) for name, (_, text) in COMMANDS.items()))


@click.command("table", cls=_Commands)
def command() -> None:
    """Topics as Iceberg tables: each message once, with statistics, for any engine (extra
    `tables`)."""


if __name__ == "__main__":
    run_alone(command)
