"""Folders of tests that have their files in memory are run on the disk by the long form."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_the_long_form_has_all_folders_that_are_in_memory() -> None:
    found = {
        path.parent.relative_to(ROOT / "tests").as_posix()
        for path in (ROOT / "tests").rglob("conftest.py")
        if re.search(r"import .*\bin_memory\b", path.read_text(encoding="utf-8"))
    }
    listed = re.search(
        r"^IN_MEMORY := .*tests/,(.*)\)$", (ROOT / "Makefile").read_text(), re.MULTILINE
    )
    assert listed
    assert set(listed[1].split()) == found
    assert found
