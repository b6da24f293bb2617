"""docs/spark.md names the columns that there are.

Its tables of options and of the sink's columns are checked by tests/unit/test_docs_tables.py.
"""

from __future__ import annotations

from pathlib import Path

from spark_ext.schema import COLUMNS, DEFAULT

DOCS = Path(__file__).resolve().parents[2] / "docs" / "spark.md"


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
