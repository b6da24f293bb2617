"""The tables of the documentation are those that the programs parse and check by."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "docs_tables.py"


@pytest.fixture
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_tables_under_test", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


FILES = [
    "access.md",
    "configuration.md",
    "limits.md",
    "metrics.md",
    "requests.md",
    "spark.md",
]


@pytest.mark.parametrize("file", FILES)
def test_the_documentation_is_up_to_date(script: ModuleType, file: str) -> None:
    text = (script.DOCS / file).read_text(encoding="utf-8")
    assert text == script.written(file), "python scripts/docs_tables.py writes it"


def test_every_file_is_checked(script: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert set(script.TABLES) == set(FILES)
    assert script.main(check=True) == 0
    assert capsys.readouterr().out == ""


def test_a_difference_is_reported_and_mended(
    script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in script.TABLES:
        text = (script.DOCS / name).read_text(encoding="utf-8")
        (tmp_path / name).write_text(text, encoding="utf-8")
    changed = tmp_path / "configuration.md"
    right = changed.read_text(encoding="utf-8")
    changed.write_text(right.replace("| listenPort | 10911 |", "| listenPort | 1 |"), "utf-8")
    script.DOCS = tmp_path
    assert script.main(check=True) == 1
    assert "docs/configuration.md is not up to date" in capsys.readouterr().out
    assert script.main(check=False) == 0
    assert changed.read_text(encoding="utf-8") == right


def test_a_missing_mark_is_an_error(script: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "spark.md").write_text("no tables")
    script.DOCS = tmp_path
    with pytest.raises(ValueError, match="the marks of 'options' must be there once"):
        script.written("spark.md")
