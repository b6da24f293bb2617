"""The walk of docs/first-change.md works as it is printed, and names what exists."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
TEXT = (ROOT / "docs" / "first-change.md").read_text(encoding="utf-8")
NEW = re.compile(r"New file\s+`([^`]+)`:\n```python\n(.*?)```", re.DOTALL)
BELOW = re.compile(r"In\s+`([^`]+)`,\s+below\s+`([^`]+)`:\n```\n(.*?)```", re.DOTALL)
NAMED = re.compile(r"`(?:(\w+)(?:\.|::))?(\w+)`\s+in\s+`([\w/.]+)`")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the package and of its tests with the change."""
    for folder in ("pyrmq", "tests", "scripts", "docs", "spark_ext"):
        ignored = shutil.ignore_patterns("__pycache__", ".build", "data", "interop", "spark")
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for path, block in NEW.findall(TEXT):
        assert not (tmp_path / path).exists()
        (tmp_path / path).write_text(block, encoding="utf-8")
    for path, line, block in BELOW.findall(TEXT):
        text = (tmp_path / path).read_text(encoding="utf-8")
        before, found, after = text.partition(f"{line}\n")
        assert found, f"{path} has no line {line}"
        (tmp_path / path).write_text(before + found + block + after, encoding="utf-8")
    return tmp_path


def test_the_change_passes_the_tests_that_it_names(copy: Path) -> None:
    assert len(NEW.findall(TEXT)) == 2
    assert len(BELOW.findall(TEXT)) == 7
    commands = re.findall(r"^\.venv/bin/(pytest .+)$", TEXT, re.MULTILINE)
    assert len(commands) == 2
    for command in commands:
        words = [sys.executable, "-m", *shlex.split(command), "-p", "no:cacheprovider"]
        ran = subprocess.run(words, cwd=copy, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        assert " passed" in ran.stdout
    assert "every_request" in commands[-1]


def test_what_the_walk_names_is_there() -> None:
    named = NAMED.findall(TEXT)
    assert len(named) > 12
    for owner, name, path in named:
        text = (ROOT / path).read_text(encoding="utf-8")
        for word in filter(None, (owner, name)):
            kind = r"(?:class|def|fn|struct|impl(?:<[^>]*>)?)"
            assert re.search(rf"\b{kind} {word}\b", text), f"{path}: {word}"
    for path in re.findall(r"`((?:pyrmq|native|tests|scripts)/[\w/.]+)`", TEXT):
        new = path in {file for file, _ in NEW.findall(TEXT)}
        assert new or (ROOT / path).exists(), path
