"""The programs in README.md and in the guide are Python, and they do what is said of them."""

from __future__ import annotations

import ast
import inspect
import itertools
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import CodeType, SimpleNamespace
from typing import Any

import click
import pytest
import trio
from sqlalchemy import Engine, create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

import pyrmq
from pyrmq.cli import main
from pyrmq.client.instance import ClientInstance
from pyrmq.client.offsets import BrokerOffsets
from pyrmq.server import Running
from tests.e2e.command import environment

ROOT = Path(__file__).resolve().parents[2]
README, GUIDE = ROOT / "README.md", ROOT / "docs" / "guide.md"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
ADDRESS = "127.0.0.1:9876"


def blocks(path: Path, language: str) -> list[str]:
    return [text for kind, text in BLOCK.findall(path.read_text()) if kind == language]


def compiled(text: str) -> CodeType:
    return compile(text, "block", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


@pytest.mark.parametrize(
    ("path", "number"),
    [(path, n) for path in (README, GUIDE) for n in range(len(blocks(path, "python")))],
    ids=lambda value: value.name if isinstance(value, Path) else str(value),
)
def test_blocks_are_python(path: Path, number: int) -> None:
    text = blocks(path, "python")[number]
    compiled(text)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module == "pyrmq":
            assert {name.name for name in node.names} <= set(pyrmq.__all__)  # type: ignore[attr-defined]
        if isinstance(node, ast.ImportFrom | ast.Import):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [
                name.name for name in node.names
            ]  # fmt: skip
            assert not any(n.startswith(("pyrmq.client", "pyrmq.model")) for n in names)


async def test_the_first_program(embedded: Running) -> None:
    """Runs as it stands in the README, and its message counts as consumed afterwards."""
    (program,) = (text for text in blocks(README, "python") if "trio.run(main)" in text)
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


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)


class Database:
    """What the guide calls `database`."""

    def __init__(self) -> None:
        self.ids: list[str] = []

    def begin(self) -> Database:
        return self

    async def __aenter__(self) -> SimpleNamespace:
        async def insert(order: object, transaction_id: str) -> None:
            self.ids.append(transaction_id)

        return SimpleNamespace(insert=insert)

    async def __aexit__(self, *error: object) -> None:
        pass

    async def has(self, key: str) -> bool:
        return key in self.ids


async def test_the_guide(
    embedded: Running, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All blocks, one after the other, against one broker."""
    engine = create_engine(f"sqlite:///{tmp_path / 'orders.db'}")
    Base.metadata.create_all(engine)
    handled: list[pyrmq.ReceivedMessage] = []
    leave = trio.CancelScope()

    async def handle(message: pyrmq.ReceivedMessage) -> None:
        handled.append(message)
        leave.cancel()

    def of_guide(url: str) -> Engine:
        assert url.startswith("postgresql")
        return engine

    names: dict[str, Any] = {
        "Order": Order,
        "arg": None,
        "create_engine": of_guide,
        "database": Database(),
        "handle": handle,
        "order": object(),
        "trio": trio,
    }
    for text in blocks(GUIDE, "python"):
        before = len(handled)
        leave = trio.CancelScope()
        with leave:
            result = eval(compiled(text.replace(ADDRESS, embedded.namesrv)), names)
            if inspect.iscoroutine(result):
                await result
        assert leave.cancelled_caught == ("handle(" in text)
        assert len(handled) > before or "handle(" not in text
    assert capsys.readouterr().out == "COMMIT None\n"
    assert len(names["database"].ids) == 1
    with engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT id FROM orders").scalars().all() == [42]
    assert {message.topic for message in handled} == {"T"}
    engine.dispose()


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
    for word in words:
        if word.startswith("-"):
            assert word.partition("=")[0] in known | {"--help", "-h"}, line
