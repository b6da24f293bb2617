"""Commands of `pyrmq` that documents show exist, with the options that they are shown with.

What the commands of some pages do, tests/docs/e2e/test_walks.py tries.
"""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from pyrmq.cli import main
from pyrmq.cli.mqadmin.run import find

ROOT = Path(__file__).resolve().parents[3]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
FENCE = re.compile(r"^ *```([^\n]*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"^ {4,}(?=pyrmq )(.*)$", re.MULTILINE)
INLINE = re.compile(r"`(pyrmq [^`]+)`")
CALL = re.compile(r"(?:\$ |sudo |[\w/.]*/bin/|[A-Z_]+=\S+ )*pyrmq (?=\S)(.*)")
PLACEHOLDER = re.compile(r"…|\.\.\.|[A-Z][A-Z_]*$|\[|<")


def calls(page: Path) -> Iterator[str]:
    """What follows `pyrmq` in the lines of its code."""
    text = page.read_text(encoding="utf-8")
    shown = blocks(page)
    rest = FENCE.sub("", text)
    shown += INDENTED.findall(rest) + [" ".join(span.split()) for span in INLINE.findall(rest)]
    for line in shown:
        if call := call_of(line):
            yield call


def call_of(line: str) -> str | None:
    """What follows `pyrmq` in a line of a block."""
    found = CALL.match(line.strip())
    return found[1] if found else None


def blocks(page: Path) -> list[str]:
    """The lines of its blocks of commands."""
    found = FENCE.findall(page.read_text(encoding="utf-8"))
    text = "\n".join(block for language, block in found if language.strip() in ("", "sh"))
    return text.replace("\\\n", " ").splitlines()


def words(line: str) -> Iterator[list[str]]:
    """The words of a call; alternatives (`commit|rollback`) as calls of their own."""
    command = re.split(r" (?:&&|\|\||[|>;&])(?: |$)|\s#", f"{line} ")[0]
    split = [word.split("|") for word in shlex.split(command)]
    yield from ([*one] for one in itertools.product(*split))


def fault(call: list[str]) -> str | None:
    """What a call names that is not there."""
    command: click.Command = main
    context = click.Context(main)
    rest = list(call)
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        name = rest.pop(0)
        if PLACEHOLDER.match(name):
            return None
        found = command.get_command(context, name)
        if found is None:
            return f"no command {name}"
        command = found
    options = [param for param in command.params if isinstance(param, click.Option)]
    known = {name for option in options for name in (*option.opts, *option.secondary_opts)}
    known |= {"--help", "-h", "--version"}
    if command.name == "mqadmin" and rest and not PLACEHOLDER.match(rest[0]):
        flat = find("topicList" if rest[0] in ("help", "-h") else rest[0])
        if flat is None:
            return f"no command {rest[0]}"
        known |= {f"-{option.short}" for option in flat.all_options}
        known |= {f"--{option.long}" for option in flat.all_options}
    if command.name == "sweep":  # another load with its options stands behind it
        load = next((i for i, word in enumerate(rest) if word == "send"), len(rest))
        rest = rest[:load]
    for word in rest:
        if re.match(r"--?[a-zA-Z]", word) and word.rstrip("…").partition("=")[0] not in known:
            return f"no option {word}"
    return None


CALLS = [(page, line) for page in PAGES for line in calls(page)]


def test_there_are_commands() -> None:
    assert len(CALLS) > 300
    assert len({page for page, _ in CALLS}) > 30


def test_commands_and_their_options_exist() -> None:
    faults = [
        f"{page.relative_to(ROOT)}: pyrmq {line}: {found}"
        for page, line in CALLS
        for call in words(line)
        if (found := fault(call))
    ]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("server --brokers N", None),
        ("servers", "no command servers"),
        ("admin txn commit|rolback ID", "no command rolback"),
        ("admin group list --nothing", "no option --nothing"),
        ("mqadmin topicLists", "no command topicLists"),
        ("mqadmin topicList -q", "no option -q"),
        ("pipeline …", None),
    ],
)
def test_what_is_not_there_is_found(line: str, found: str | None) -> None:
    assert next((f for call in words(line) if (f := fault(call))), None) == found
