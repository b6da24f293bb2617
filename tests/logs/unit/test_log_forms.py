"""docs/logs.md says what each warning and each error means."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[3]
ROW = re.compile(r"^\| ``?.+?``? \| (.+) \| (.+) \|$", re.MULTILINE)


@pytest.fixture(scope="module")
def forms() -> Iterator[ModuleType]:
    name = "log_forms_under_test"
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / "log_forms.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules[name]


def test_each_warning_and_error_is_listed(forms: ModuleType) -> None:
    assert len(list(forms.python_forms())) > 150
    assert len(list(forms.engine_forms())) > 60
    assert forms.missing() == [], "give it a row in docs/logs.md: what it means and what to do"


def test_what_nobody_logs_is_not_listed(forms: ModuleType) -> None:
    assert forms.stale() == [], "remove the row, or change it with the text of the log call"


def test_each_row_says_what_it_means_and_what_to_do(forms: ModuleType) -> None:
    text = (ROOT / "docs" / "logs.md").read_text(encoding="utf-8")
    rows = ROW.findall(text.partition("## Each warning and error\n")[2])
    assert len(rows) == len(forms.listed())
    assert all(len(meaning) >= 9 and len(advice) >= 5 for meaning, advice in rows)


def test_lines_of_the_engine_are_found_whole(forms: ModuleType) -> None:
    """Their texts are broken over lines of Rust, and name what they put in."""
    found = dict(forms.engine_forms())
    assert not [form for form in found if "{" in form or "\\" in form or "\n" in form]
    assert any(form.startswith("the disk is too full (…)") for form in found)


def test_no_line_of_the_engine_is_missed(forms: ModuleType) -> None:
    """A call whose text is no literal could not be listed."""
    calls = 0
    for folder in ("crates", "src"):
        for path in (ROOT / "native" / folder).rglob("*.rs"):
            calls += len(re.findall(r"\blog::(?:warn|error)!\(", path.read_text(encoding="utf-8")))
    assert len(list(forms.engine_forms())) == calls
