"""The Python blocks of README.md and docs/ run as they are printed, with the imports they show.

As in a doctest, the comment behind a `print` is what it prints. Blocks run in their order against
one broker, each with names of its own: on asyncio if they import it or a client for it, else on
trio. A block that never ends is stopped when it has printed everything.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import io
import logging
import re
from collections.abc import Iterator
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, SimpleNamespace
from typing import Any

import pytest
import trio

import pyrmq

ROOT = Path(__file__).resolve().parents[3]
INDEX = ROOT / "docs" / "README.md"
"""It leads to the other pages, and has no blocks."""
PAGES = [ROOT / "README.md", *sorted({*(ROOT / "docs").glob("*.md")} - {INDEX})]
ADDRESS = "127.0.0.1:9876"
RUN = (
    "guide.md",
    "delay.md",
    "filters.md",
    "logs.md",
    "monitoring.md",
    "oms.md",
    "store.md",
    "timers.md",
)
"""Pages of which every block runs here."""
LANGUAGES = {"", "python", "java", "sql", "toml", "yaml", "ini", "json", "mermaid"}
ELSEWHERE = {
    "README.md": (
        5,
        "tests/cli/e2e/test_docs_programs.py; Spark; lines of scan.md, tables.md",
    ),
    "first-change.md": (2, "tests/docs/e2e/test_first_change.py"),
    "otel.md": (4, "tests/otel/e2e/test_docs.py"),
    "scan.md": (3, "tests/segments/unit/test_docs.py"),
    "spark.md": (11, "tests/spark/e2e: test_docs, test_sink_idempotent, test_history; a cluster"),
    "spark-jvm.md": (1, "needs the jar, and a store in /data: tests/spark/e2e/jvm"),
    "spark-cluster.md": (2, "needs a cluster of Spark: tests/spark/e2e/proof"),
    "tables.md": (5, "tests/tables/unit; needs Spark: tests/spark/e2e/test_iceberg.py"),
    "pipeline.md": (1, "needs Spark and stores in /data: tests/spark/e2e/jobs"),
    "tutorial.md": (3, "tests/docs/e2e/test_walks.py"),
}
"""How many blocks other pages have, and who runs them or why nobody does."""
LANGUAGES |= {"sh", "text"}  # tests/docs/e2e/test_walks.py


@dataclass(frozen=True)
class Block:
    path: Path
    line: int
    text: str

    @property
    def tree(self) -> ast.Module:
        return compile(self.text, "", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)

    def compiled(self, namesrv: str) -> CodeType:
        """Tracebacks name the line of the page."""
        text = "\n" * (self.line - 1) + self.text.replace(ADDRESS, namesrv)
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        return compile(text, str(self.path), "exec", flags, dont_inherit=True)

    @property
    def output(self) -> list[str]:
        return re.findall(r"^ *print\(.*\)  # (.*)$", self.text, re.MULTILINE)

    @property
    def endless(self) -> bool:
        loops = [n for n in ast.walk(self.tree) if isinstance(n, ast.AsyncFor)]
        left = any(isinstance(n, ast.Break) for loop in loops for n in ast.walk(loop))
        waits = "sleep_forever()" in self.text or "asyncio.Event().wait()" in self.text
        return waits or (bool(loops) and not left)

    @property
    def on_asyncio(self) -> bool:
        return bool(re.search(r"^(from|import) (asyncio|pyrmq\.(oms\.)?aio)\b", self.text, re.M))


def fences(path: Path) -> Iterator[tuple[str, Block]]:
    """All blocks of a page, each with its language."""
    text = path.read_text()
    for found in re.finditer(r"^ *```([^\n]*)\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL):
        line = text.count("\n", 0, found.start(2)) + 1
        yield found[1].strip(), Block(path, line, found[2])


def blocks(path: Path) -> list[Block]:
    return [block for language, block in fences(path) if language == "python"]


async def run_on_trio(code: CodeType, names: dict[str, Any], block: Block, out: Any) -> None:
    if not block.endless:
        await eval(code, names)
        return
    async with trio.open_nursery() as nursery:
        nursery.start_soon(eval, code, names)
        while len(out.getvalue().splitlines()) < len(block.output):  # noqa: ASYNC110
            await trio.sleep(0.005)
        assert nursery.child_tasks, f"{block.path.name}, line {block.line}: it has ended"
        nursery.cancel_scope.cancel()


async def run_on_asyncio(code: CodeType, names: dict[str, Any], block: Block, out: Any) -> None:
    if not block.endless:
        await eval(code, names)
        return
    task = asyncio.ensure_future(eval(code, names))
    while len(out.getvalue().splitlines()) < len(block.output):
        await asyncio.sleep(0.005)
        if task.done():
            task.result()  # raises what it has raised
            raise AssertionError(f"{block.path.name}, line {block.line}: it has ended")
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def run(block: Block, namesrv: str) -> list[str]:
    """Returns the lines that it prints."""
    code = block.compiled(namesrv)
    names: dict[str, Any] = {"__name__": "block"}
    out = io.StringIO()
    with redirect_stdout(out):
        if code.co_flags & inspect.CO_COROUTINE and block.on_asyncio:
            asyncio.run(run_on_asyncio(code, names, block, out))
        elif code.co_flags & inspect.CO_COROUTINE:
            trio.run(run_on_trio, code, names, block, out)
        else:
            exec(code, names)
        for name, found in names.items():
            if name.startswith("test_"):
                found(SimpleNamespace(namesrv=namesrv))
    if "engine" in names:
        names["engine"].dispose()
    return out.getvalue().splitlines()


@pytest.mark.parametrize("name", RUN)
def test_blocks_run(
    name: str, namesrv: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    level = logging.getLogger("pyrmq").level
    try:
        for block in blocks(ROOT / "docs" / name):
            assert run(block, namesrv) == block.output, f"{name}, line {block.line}"
    finally:
        logging.getLogger("pyrmq").setLevel(level)  # a page sets up a log


def test_every_block_is_accounted_for() -> None:
    """None is left out because nobody thought of it, or because it is called otherwise."""
    for path in PAGES:
        languages = {language for language, _ in fences(path)}
        assert languages <= LANGUAGES, path.name
        if path.name not in RUN:
            assert len(blocks(path)) == ELSEWHERE.get(path.name, (0, ""))[0], path.name
    assert len(blocks(ROOT / "docs" / "guide.md")) == 21


@pytest.mark.parametrize("name", RUN)
def test_what_is_printed_is_said(name: str) -> None:
    for block in blocks(ROOT / "docs" / name):
        calls = [n.func for n in ast.walk(block.tree) if isinstance(n, ast.Call)]
        prints = [f for f in calls if isinstance(f, ast.Name) and f.id == "print"]
        assert len(prints) == len(block.output), f"{name}, line {block.line}"


@pytest.mark.parametrize("name", ["README.md", *(f"docs/{name}" for name in RUN)])
def test_blocks_import_what_users_may(name: str) -> None:
    for block in blocks(ROOT / name):
        for node in ast.walk(block.tree):
            if isinstance(node, ast.ImportFrom) and node.module == "pyrmq":
                assert {n.name for n in node.names} <= set(pyrmq.__all__)  # type: ignore[attr-defined]
            if isinstance(node, ast.ImportFrom | ast.Import):
                modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else [
                    n.name for n in node.names
                ]  # fmt: skip
                assert not any(m.startswith(("pyrmq.client", "pyrmq.model")) for m in modules)


class TestTheTestItself:
    """It can fail."""

    def block(self, text: str) -> Block:
        return Block(ROOT / "docs" / "guide.md", 7, text)

    def test_output(self, namesrv: str) -> None:
        block = self.block("print(1 + 1)  # 3\n")
        assert (run(block, namesrv), block.output) == (["2"], ["3"])

    def test_a_name_without_an_import(self, namesrv: str) -> None:
        with pytest.raises(NameError, match="trio") as caught:
            run(self.block("\nawait trio.sleep(0)\n"), namesrv)
        assert caught.traceback[-1].lineno == 7
        assert caught.traceback[-1].path == ROOT / "docs" / "guide.md"

    @pytest.mark.parametrize("loop", ["trio", "asyncio"])
    def test_an_end_that_nobody_expects(self, namesrv: str, loop: str) -> None:
        text = f"import {loop}\n"
        text += (
            "async def none():\n    return\n    yield\nprint(1)  # 1\nasync for _ in none(): 1\n"
        )
        with pytest.raises((ExceptionGroup, AssertionError)) as caught:
            run(self.block(text), namesrv)
        found = caught.value
        errors = found.exceptions if isinstance(found, ExceptionGroup) else (found,)
        assert "line 7: it has ended" in str(errors[0])
