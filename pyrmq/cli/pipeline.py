"""`pyrmq pipeline NAME …`: jobs on segments, in this process or by Spark. They are in the package
spark_ext, which is imported when one of them is named."""

from __future__ import annotations

import importlib
from typing import Any

import click


class _Jobs(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        from spark_ext.jobs import JOBS

        return sorted(JOBS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in self.list_commands(ctx):
            return None
        try:
            module: Any = importlib.import_module(f"spark_ext.jobs.{name}")
        except ImportError as e:
            package = (e.name or "").partition(".")[0]
            if package in ("pyrmq", "spark_ext"):
                raise
            raise click.ClickException(
                f"`pyrmq pipeline {name}` needs the package {package}: "
                "pip install 'pyrmq-broker[spark]'"
            ) from e
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from spark_ext.jobs import JOBS

        with formatter.section("Commands"):
            formatter.write_dl(sorted(JOBS.items()))


@click.command(cls=_Jobs)
def pipeline() -> None:
    """Archive, lag, trace and more: jobs on a store's segments (extras `pipeline` and `spark`)."""
