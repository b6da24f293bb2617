"""The programs of docs/tables.md, "Query with the tail", run, and its table names what there is."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

import pyrmq
from tests.tables.tailing import Log, commit

PAGE = (Path(__file__).parents[3] / "docs" / "tables.md").read_text(encoding="utf-8")
SECTION = PAGE.split("\n## Query with the tail\n")[1].split("\n## ")[0]


def test_the_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("polars")
    log = Log(tmp_path / "b")
    log.put(50)
    commit(tmp_path / "catalog", [log.root])
    log.put(20)
    names = {"store": log.root, "catalog": tmp_path / "catalog"}
    programs = re.findall(r"```python\n(.*?)```", SECTION, re.DOTALL)
    assert len(programs) == 2
    exec(programs[0], names)
    assert capsys.readouterr().out == "70\n"
    exec(programs[1].replace("paid || shipped", "A || C"), names)
    assert re.findall(r"│ ([A-Z])\s+┆ (\d+)", capsys.readouterr().out) == [("A", "24"), ("C", "22")]
    log.close()


def test_every_argument_is_described() -> None:
    told = set(re.findall(r"`(\w+)[`=]", SECTION))
    own = set(inspect.signature(pyrmq.table).parameters) - {"name", "store", "name_server"}
    assert own <= told
