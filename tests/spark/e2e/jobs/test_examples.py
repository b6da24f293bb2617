"""The examples and the notebook run: in the Spark of all tests, and in the long form as scripts."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.conftest import need_java
from tests.spark.e2e.jobs.samples import EXAMPLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RUNNER = EXAMPLES.parents[1] / "scripts" / "run_notebook.py"
DEADLINE = 300
RUNS = {
    "batch": ([EXAMPLES / "batch.py"], ("large orders: 60", "Payments|")),
    "streaming": ([EXAMPLES / "streaming.py"], ("each message came once",)),
    "archive_and_restore": (
        [EXAMPLES / "archive_and_restore.py"],
        ("every body is there once",),
    ),
    "notebook": (
        [RUNNER, EXAMPLES / "segments.ipynb"],
        ("10 pending, 10 committed, 10 rolled back",),
    ),
}
"""The words of a command behind `python`, and what it has to print."""


LONG = pytest.mark.thorough("other tests of the jobs do the same, with less")
QUICK = ("batch", "streaming")
HERE = [pytest.param(name, marks=[] if name in QUICK else [LONG]) for name in RUNS]


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # as in a script
@pytest.mark.parametrize("name", HERE)
def test_here(
    name: str,
    spark: SparkSession,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words, wanted = RUNS[name]
    monkeypatch.setattr(sys, "argv", [str(word) for word in words])
    monkeypatch.syspath_prepend(str(EXAMPLES))  # as the folder of a script is
    monkeypatch.delitem(sys.modules, "sample", raising=False)
    monkeypatch.setattr(type(spark), "stop", lambda session: None)  # it is everybody's
    code: object = 0
    try:
        runpy.run_path(str(words[0]), run_name="__main__")
    except SystemExit as end:
        code = end.code
    text, errors = capsys.readouterr()
    assert code in (0, None), f"{text}\n{errors[-5000:]}"
    for part in wanted:
        assert part in text


@pytest.mark.slow
@pytest.mark.thorough("a JVM for each; `test_here` runs the same")
@pytest.mark.parametrize("name", RUNS)
def test_as_a_script(name: str) -> None:
    need_java()
    words, wanted = RUNS[name]
    done = subprocess.run(
        [sys.executable, *map(str, words)],
        capture_output=True,
        text=True,
        env={**os.environ, "SPARK_MASTER": "local[2]", "SPARK_LOCAL_IP": "127.0.0.1"},
        timeout=DEADLINE,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-5000:]}"
    for part in wanted:
        assert part in done.stdout


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
