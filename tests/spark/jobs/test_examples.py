"""The examples and the notebook run, as scripts, in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.conftest import need_java
from tests.spark.jobs.samples import EXAMPLES

RUNNER = EXAMPLES.parents[1] / "scripts" / "run_notebook.py"
DEADLINE = 300


def run(*command: object) -> str:
    need_java()
    environment = {**os.environ, "SPARK_MASTER": "local[2]", "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=DEADLINE,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-5000:]}"
    return done.stdout


@pytest.mark.slow
def test_batch() -> None:
    text = run(EXAMPLES / "batch.py")
    assert "large orders: 60" in text
    assert "Payments|" in text


@pytest.mark.slow
def test_streaming() -> None:
    assert "each message came once" in run(EXAMPLES / "streaming.py")


@pytest.mark.slow
def test_archive_and_restore() -> None:
    assert "every body is there once" in run(EXAMPLES / "archive_and_restore.py")


@pytest.mark.slow
def test_notebook() -> None:
    text = run(RUNNER, EXAMPLES / "segments.ipynb")
    assert "10 pending, 10 committed, 10 rolled back" in text


def notebook(path: Path, *sources: str) -> Path:
    cells = ",".join(f'{{"cell_type":"code","source":["{source}"]}}' for source in ("", *sources))
    path.write_text(f'{{"nbformat":4,"cells":[{{"cell_type":"markdown","source":"x"}},{cells}]}}')
    return path


@pytest.mark.parametrize("source", ["1/0", "%pip install x", "import nothing_like_this"])
def test_a_failing_cell_fails(tmp_path: Path, source: str) -> None:
    path = notebook(tmp_path / "n.ipynb", "n = 5", "print(n)", source)
    done = subprocess.run(
        [sys.executable, RUNNER, path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "\n5\n" in done.stdout
    assert "cell 4" in done.stderr


def test_no_notebook(tmp_path: Path) -> None:
    path = tmp_path / "n.ipynb"
    path.write_text("[]")
    done = subprocess.run(
        [sys.executable, RUNNER, path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "no notebook of format 4" in done.stderr
