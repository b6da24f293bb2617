"""docs/differences.md: one table, whose rows name files that there are."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "differences.md"


def rows() -> list[list[str]]:
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def test_each_row_names_what_it_is_about_and_where_it_is() -> None:
    found = [row for row in rows() if not row[0].startswith("**")]
    assert len(found) > 40
    for row in found:
        assert len(row) == 4, row
        assert all(row), row
        files = re.findall(r"`([^`]+)`", row[3])
        assert files, row
        for file in files:
            assert (ROOT / file).is_file(), f"{row[0]}: {file}"


def test_it_is_the_only_table_of_them() -> None:
    assert "docs/differences.md" in (ROOT / "README.md").read_text()
    for page in (ROOT / "docs").glob("*.md"):
        if page != PAGE:
            assert not re.search(r"^\| RocketMQ \|", page.read_text(), re.MULTILINE), page.name
