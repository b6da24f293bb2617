"""Click groups: with suggestions, and with branches that are imported when they are used."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Mapping
from typing import Any

import click


class Group(click.Group):
    """A group that says which command may have been meant."""

    group_class = type  # groups within it are of this kind

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError:
            alike = difflib.get_close_matches(args[0], self.list_commands(ctx), 3)
            hint = f" Did you mean {' or '.join(alike)}?" if alike else ""
            raise click.UsageError(f"No such command {args[0]!r}.{hint}", ctx) from None


class Command(click.Command):
    """A command whose exit code for an invalid command line is 1, as in `pyrmq admin`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as e:
            setattr(e, "exit_code", 1)  # noqa: B010 (click says ClassVar, and reads the instance)
            raise

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.UsageError as e:
            setattr(e, "exit_code", 1)  # noqa: B010
            raise


class LazyGroup(Group):
    """`branches`: by name the module that has the branch, and its help in a line."""

    def __init__(self, *args: Any, branches: Mapping[str, tuple[str, str]], **options: Any) -> None:
        super().__init__(*args, **options)
        self._branches = branches

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *self._branches})

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in self._branches:
            return super().get_command(ctx, name)
        module = importlib.import_module(self._branches[name][0])
        command: click.Command = getattr(module, name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in sorted(self._branches.items())])

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.UsageError as e:
            setattr(e, "exit_code", 1)  # noqa: B010 (click says ClassVar, and reads the instance)
            raise

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as e:
            setattr(e, "exit_code", 1)  # noqa: B010
            raise
