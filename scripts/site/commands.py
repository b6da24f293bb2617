"""The pages of the commands, from the commands themselves."""

from __future__ import annotations

import html
import inspect
import re
from collections import Counter
from collections.abc import Iterator

import click

from pyrmq.cli import main
from pyrmq.cli.mqadmin.options import usage
from pyrmq.cli.mqadmin.run import COMMANDS, find

HEAD = """# Commands

All commands of `pyrmq` with their options, from `pyrmq COMMAND --help`. The commands of
[`pyrmq admin`](admin.md) and [`pyrmq mqadmin`](mqadmin.md) have pages of their own.
[Administration](../admin.md) says how to use them.
"""
ADMIN = """# pyrmq admin

All commands of `pyrmq admin`. How to use it: [Administration](../admin.md#pyrmq-admin).
"""
MQADMIN = """# pyrmq mqadmin

Commands, options and columns are those of RocketMQ's mqadmin. Where the two differ:
[mqadmin beside the original](../mqadmin-table.md). `-n` names the name servers in all commands.
"""
OWN_PAGES = ("admin", "mqadmin")
COMMON = 0.8
"""Options that so many commands of a branch have stand once, above them."""
Row = tuple[str, str]


def pages() -> dict[str, str]:
    """Their texts, by place on the site."""
    found = dict(_below(main))
    admin = found["admin"]
    assert isinstance(admin, click.Group)
    rest = [name for name in found if name not in OWN_PAGES]
    own = (line for name in rest for line in _tree(found[name], ("pyrmq", name), 2))
    return {
        "reference/commands.md": "\n".join([HEAD, *own]) + "\n",
        "reference/admin.md": "\n".join([ADMIN, *_branch(admin, ("pyrmq", "admin"), 2)]) + "\n",
        "reference/mqadmin.md": "\n".join([MQADMIN, *_mqadmin()]) + "\n",
    }


def _branch(group: click.Group, path: tuple[str, ...], level: int) -> Iterator[str]:
    """The commands of a group, and once the options that most of them have."""
    leaves = list(_leaves(group, path))
    counted = Counter(row for words, command in leaves for row in _options(command, words))
    common = {row for row, count in counted.items() if count >= COMMON * len(leaves) > 3}
    if common:
        yield f"{'#' * level} Options of {'most' if len(path) < 3 else 'these'} commands"
        first = next(c for w, c in leaves if common <= set(_options(c, w)))
        yield from _table([row for row in _options(first, path) if row in common])
    for name, command in _below(group):
        yield from _tree(command, (*path, name), level, common)


def _below(group: click.Group) -> Iterator[tuple[str, click.Command]]:
    """The commands of a group by name; some are loaded only when they are asked for."""
    context = click.Context(group)
    for name in sorted(group.list_commands(context)):
        command = group.get_command(context, name)
        assert command is not None
        yield name, command


def _leaves(
    command: click.Command, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    if isinstance(command, click.Group):
        for name, below in _below(command):
            yield from _leaves(below, (*path, name))
    else:
        yield path, command


def _tree(
    command: click.Command, path: tuple[str, ...], level: int, common: set[Row] | None = None
) -> Iterator[str]:
    """A command and those below it."""
    if command.hidden:
        return
    yield f"{'#' * min(level, 4)} {' '.join(path)}"
    yield _said(command)
    if isinstance(command, click.Group):
        yield from _table([r for r in _options(command, path) if not r[0].startswith("`-h")])
        for name, below in _below(command):
            yield from _tree(below, (*path, name), level + 1, common)
        return
    with _context(command, path) as context:
        words = " ".join(command.collect_usage_pieces(context))
    yield f"```text\n{' '.join(path)} {words}\n```\n"
    rows = [row for row in _options(command, path) if row not in (common or set())]
    yield from _table([row for row in rows if not row[0].startswith("`-h")])


def _context(command: click.Command, path: tuple[str, ...]) -> click.Context:
    return click.Context(command, info_name=path[-1])


def _said(command: click.Command) -> str:
    """Its help. What click prints as it stands (behind \\b) is a block."""
    text = inspect.cleandoc(command.help or command.short_help or "")
    parts = []
    for part in text.partition("\f")[0].split("\n\n"):
        if part.startswith("\b"):
            block = part.removeprefix("\b").strip("\n")
            parts.append(f"```text\n{block}\n```")
        else:
            parts.append(_escaped(part))
    return "\n\n".join(parts) + "\n"


def _options(command: click.Command, path: tuple[str, ...]) -> list[Row]:
    with _context(command, path) as context:
        options = [p for p in command.get_params(context) if isinstance(p, click.Option)]
        found = [option.get_help_record(context) for option in options]
    return [(f"`{row[0]}`", row[1]) for row in found if row is not None]


def _table(rows: list[Row]) -> Iterator[str]:
    if not rows:
        return
    yield "| Option | Meaning |"
    yield "|---|---|"
    for names, meaning in rows:
        yield f"| {_cell(names)} | {_cell(_escaped(meaning))} |"
    yield ""


def _escaped(text: str) -> str:
    """Text that is no Markdown, but for code between backquotes."""
    parts = text.split("`")
    for i in range(0, len(parts), 2):
        parts[i] = re.sub(r"([*_\[\]])", r"\\\1", html.escape(parts[i], quote=False))
    return "`".join(parts)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _mqadmin() -> Iterator[str]:
    for name, (_, line) in COMMANDS.items():
        command = find(name)
        assert command is not None
        yield f"## {name}"
        yield f"{line}\n"
        yield "```text"
        yield from usage(command)
        yield "```\n"
