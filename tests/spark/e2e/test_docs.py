"""docs/spark.md names the columns that there are, and its three programs run as they are printed.

Its tables of options and of the sink's columns are checked by tests/house/unit/test_docs_tables.py.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyrmq.net.address import format_address
from spark_ext.schema import COLUMNS, DEFAULT
from spark_ext.setup import ARROW, LOCAL_SETTINGS, SETTINGS
from tests.docs.e2e.test_blocks import blocks
from tests.spark.conftest import need_java
from tests.support.server import ServerProcess

DOCS = Path(__file__).resolve().parents[3] / "docs" / "spark.md"
WRITE, READ, FOLLOW = 0, 1, 2
"""The order of the programs on the page."""
TABLE = "|paid|       2|             29.5|"
"""What the second program prints."""


def table_under(heading: str) -> list[str]:
    section = DOCS.read_text(encoding="utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return [line for line in section.splitlines() if line.startswith("|")]


def test_the_table_of_columns() -> None:
    rows = [line.split("|")[1:-1] for line in table_under("Columns")[2:]]
    found = [
        (name.strip(), kind.strip("` "), is_default.strip() == "yes")
        for names, kind, _, is_default in rows
        for name in names.replace("`", "").split(",")
    ]
    assert found == [(name, kind, name in DEFAULT) for name, kind in COLUMNS.items()]


def test_the_settings_of_a_session() -> None:
    text = "\n".join(table_under("The session"))
    assert all(f"`{name}={value}`" in text for name, value in (SETTINGS | ARROW).items())
    assert all(f"`{name}`" in text for name in LOCAL_SETTINGS)


@dataclass
class Place:
    """The programs of the page, on a server and folders of the test's own."""

    folder: Path
    namesrv: str

    def program(self, number: int) -> str:
        text = blocks(DOCS)[number].text
        for printed, here in (
            ("/data/rocketmq/store", str(self.folder / "store")),
            ("/data/", f"{self.folder}/"),
            ("127.0.0.1:9876", self.namesrv),
        ):
            text = text.replace(printed, here)
        return text


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with ServerProcess(tmp_path / "store") as server:
        yield Place(tmp_path, format_address(server.namesrv))


@pytest.mark.spark_versions
def test_the_three_programs(
    spark: SparkSession, place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in (WRITE, READ, FOLLOW):
        exec(place.program(number), {"__name__": "__main__"})
    assert TABLE in capsys.readouterr().out
    stored = spark.read.parquet(str(place.folder / "orders"))
    assert sorted(row["keys"] for row in stored.collect()) == ["1", "2"]


HOW = {
    "python": ([sys.executable], {}),
    "spark-submit": (
        [str(Path(sys.executable).with_name("spark-submit"))],
        {"PYSPARK_PYTHON": sys.executable},
    ),
    "connect": ([sys.executable], {"SPARK_REMOTE": "local[2]"}),
}
"""Commands in front of a program, and variables."""


@pytest.mark.slow
@pytest.mark.thorough("two JVMs for each; the programs run above")
@pytest.mark.parametrize("how", HOW)
def test_from_an_environment_that_is_not_activated(place: Place, how: str) -> None:
    need_java()
    if how == "connect":
        pytest.importorskip("grpc_status")
    command, variables = HOW[how]
    left_out = ("PYSPARK_PYTHON", "VIRTUAL_ENV", "SPARK_REMOTE", "PYTHONPATH")
    clean = {key: value for key, value in os.environ.items() if key not in left_out}
    for number in (WRITE, READ):
        file = place.folder / f"program{number}.py"
        file.write_text(place.program(number))
        done = subprocess.run(
            [*command, str(file)],
            capture_output=True,
            text=True,
            env={**clean, "PATH": "/usr/local/bin:/usr/bin:/bin", **variables},
            cwd=place.folder,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-5000:]}"
    assert TABLE in done.stdout
