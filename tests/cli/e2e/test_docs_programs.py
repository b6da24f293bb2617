"""The first programs of README.md and the commands in it and in the guide do what is said of them.
(Blocks of Python: tests/docs.)"""

from __future__ import annotations

import itertools
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import click
import pytest
import trio

import pyrmq
from pyrmq.cli import main
from pyrmq.cli.mqadmin.run import find
from pyrmq.client.consumer.offsets import BrokerOffsets
from pyrmq.client.instance import ClientInstance
from pyrmq.server import Running
from tests.support.command import environment

ROOT = Path(__file__).resolve().parents[3]
README, GUIDE = ROOT / "README.md", ROOT / "docs" / "guide.md"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
ADDRESS = "127.0.0.1:9876"


def blocks(path: Path, language: str) -> list[str]:
    return [text for kind, text in BLOCK.findall(path.read_text()) if kind == language]


def first_program(module: str) -> str:
    """As it stands in the README; for trio changed as the README says."""
    trio_too = module == "pyrmq"
    start = f"from {'pyrmq.aio' if trio_too else module} import "
    (program,) = (text for text in blocks(README, "python") if start in text)
    if trio_too:
        program = program.replace("pyrmq.aio", "pyrmq").replace("import asyncio", "import trio")
        program = program.replace("asyncio.run(main())", "trio.run(main)")
        program = program.replace("await consumer.acknowledge", "consumer.acknowledge")
    return program


@pytest.mark.parametrize("module", ["pyrmq.aio", "pyrmq.sync", "pyrmq"])
async def test_the_first_program(embedded: Running, module: str) -> None:
    """It prints what it should, and its message counts as consumed afterwards."""
    program = first_program(module)
    assert program.count(ADDRESS) == 2
    done = await trio.to_thread.run_sync(
        partial(
            subprocess.run,
            [sys.executable, "-c", program.replace(ADDRESS, embedded.namesrv)],
            capture_output=True,
            text=True,
            timeout=40,
            env=environment(),
        )
    )
    assert (done.returncode, done.stderr) == (0, "")
    first, second = done.stdout.splitlines()
    queue = int(first.split()[1])
    assert first == f"SEND_OK {queue} 0"
    assert second == "TagA ['order-1'] b'Hello'"
    async with ClientInstance(embedded.namesrv) as client:
        offsets = BrokerOffsets(client, "my-consumers")
        assert await offsets.read(pyrmq.MessageQueue("TopicTest", "broker-a", queue)) == 1


def command_lines() -> Iterator[tuple[str, list[str]]]:
    """Calls of `pyrmq` in blocks that are not Python; alternatives as lines of their own."""
    for path in (README, GUIDE):
        for language in ("", "sh", "console"):
            for line in "".join(blocks(path, language)).splitlines():
                found = re.match(r"(?:\$ )?(?:\.venv/bin/)?pyrmq (.*)", line)
                if found is None:
                    continue
                words = [
                    word.split("|") for word in shlex.split(found[1].rstrip("& "), comments=True)
                ]
                for one in itertools.product(*words):
                    yield line, list(one)


LINES = list(command_lines())


def test_there_are_command_lines() -> None:
    assert len(LINES) > 20


@pytest.mark.parametrize(("line", "words"), LINES, ids=[line for line, _ in LINES])
def test_commands_and_their_options_exist(line: str, words: list[str]) -> None:
    command: click.Command = main
    context = click.Context(main)
    words = list(words)
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        found = command.get_command(context, words.pop(0))
        assert found is not None, line
        command = found
    known = {o for p in command.params if isinstance(p, click.Option) for o in p.opts}
    if command.name == "mqadmin" and words:
        flat = find("topicList" if words[0] == "help" else words[0])
        assert flat is not None, line
        options = flat.all_options
        known = {f"-{o.short}" for o in options} | {f"--{o.long}" for o in options}
    for word in words:
        if word.startswith("-"):
            assert word.partition("=")[0] in known | {"--help", "-h"}, line
