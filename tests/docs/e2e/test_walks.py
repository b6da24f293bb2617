"""The tutorial and the operator's pages, followed as a reader does."""

from __future__ import annotations

import os
import sys
import tarfile
from pathlib import Path

import pytest

from tests.docs.walk import Block, Walk, WalkError, steps

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"
STORE = ROOT / "tests" / "store" / "data" / "store-5.3.3.tar.gz"
WALKS = ("tutorial.md", "handbook.md", "failures.md", "migration.md")
CANNOT = {
    "pyrmq doctor": "depends on the machine: tests/doctor",
    "bin/mq": "needs Apache RocketMQ: tests/system/interop/test_store_exchange.py",
    "JAVA-NAMESRV": "needs Apache RocketMQ: tests/system/interop/test_cluster_files.py",
    "pip install": "needs a wheel: scripts/wheel_try.py with --tutorial",
}
"""Blocks that do not run here, by a word in them, and why."""


def reason(block: Block) -> str | None:
    return next((why for word, why in CANNOT.items() if word in block.text), None)


@pytest.mark.parametrize("name", WALKS)
def test_a_page_is_followed(name: str, tmp_path: Path) -> None:
    page = DOCS / name
    with Walk(page, tmp_path, Path(sys.executable).parent, here=name != "tutorial.md") as walk:
        if name == "migration.md":
            _store_of_apache(walk)
        for block, output in steps(page):
            if reason(block) is None:
                walk.follow(block, output)


def _store_of_apache(walk: Walk) -> None:
    """The page moves a store that Apache RocketMQ 5.3.3 wrote, with small files."""
    with tarfile.open(STORE) as tar:
        members = [member for member in tar if member.name.startswith("store")]
        tar.extractall(walk.folder / "data", members, filter="data")
    for path in (walk.folder / "data").rglob("*"):
        os.utime(path)  # its messages have not expired
    sizes = {"COMMIT_LOG": "65536", "CONSUME_QUEUE": "2000", "TIMER_LOG": "102400"}
    walk.env |= {f"PYRMQ_BROKER_CONF_MAPPED_FILE_SIZE_{k}": v for k, v in sizes.items()}
    walk.env |= {
        "PYRMQ_BROKER_CONF_MAX_HASH_SLOT_NUM": "500",
        "PYRMQ_BROKER_CONF_MAX_INDEX_NUM": "1000",
    }


def test_what_is_not_run_is_there() -> None:
    """CANNOT has no word that no page has any more."""
    texts = "".join(block.text for name in WALKS for block, _ in steps(DOCS / name))
    assert [word for word in CANNOT if word not in texts] == []


class TestTheWalkItself:
    """It can fail."""

    def walk(self, tmp_path: Path) -> Walk:
        return Walk(tmp_path / "page.md", tmp_path, Path(sys.executable).parent)

    def step(self, text: str, output: str | None = None) -> tuple[Block, Block | None]:
        return Block(7, "sh", text, ""), output and Block(9, "text", output, "")  # type: ignore[return-value]

    def test_output(self, tmp_path: Path) -> None:
        self.walk(tmp_path).follow(*self.step("echo a; echo b; echo c-1", "a\n…\nc-…\n"))
        with pytest.raises(WalkError, match=r"page\.md, line 7: .*\na\n\nand one sees\nb"):
            self.walk(tmp_path).follow(*self.step("echo b", "a\n"))

    def test_more_output_than_is_said(self, tmp_path: Path) -> None:
        with pytest.raises(WalkError):
            self.walk(tmp_path).follow(*self.step("echo a; echo b", "a\n"))

    def test_a_program_without_a_name(self, tmp_path: Path) -> None:
        with pytest.raises(WalkError, match="no name of a file"):
            self.walk(tmp_path).follow(Block(7, "python", "print(1)\n", "Run this:"), None)

    def test_exit_codes(self, tmp_path: Path) -> None:
        self.walk(tmp_path).follow(*self.step("exit 3 # exit code 3\n"))
        with pytest.raises(WalkError, match="exit code 4"):
            self.walk(tmp_path).follow(*self.step("false || exit 4"))
