"""docs/spark.md says what the code does: its table of options is the table of options."""

from __future__ import annotations

from pathlib import Path

from spark_ext.option import Option, Query
from spark_ext.option_table import OPTIONS
from spark_ext.schema import COLUMNS, DEFAULT

DOCS = Path(__file__).resolve().parents[2] / "docs" / "spark.md"
KINDS = {
    "files": (Query.BATCH, Query.STREAM),
    "broker": (Query.BROKER_BATCH, Query.BROKER_STREAM),
    "write": (Query.WRITE, Query.WRITE_STREAM),
}


def places(option: Option) -> str:
    words = []
    for name, (batch, stream) in KINDS.items():
        if {batch, stream} <= option.where:
            words.append(name)
        elif batch in option.where:
            words.append(f"{name}, batch")
        elif stream in option.where:
            words.append(f"{name}, stream")
    return "; ".join(words)


def default(option: Option) -> str:
    if option.default is None:
        return ""
    if option.stream_default is None:
        return f"`{option.default}`"
    return f"`{option.default}`, stream `{option.stream_default}`"


def expected() -> list[str]:
    rows = ["| Option | Default | For | Meaning |", "|---|---|---|---|"]
    for option in OPTIONS:
        doc = option.doc.replace("||", "\\|\\|")
        rows.append(f"| `{option.name}` | {default(option)} | {places(option)} | {doc} |")
    return rows


def table_under(heading: str) -> list[str]:
    section = DOCS.read_text(encoding="utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return [line for line in section.splitlines() if line.startswith("|")]


def test_the_table_of_options() -> None:
    assert table_under("Options") == expected(), "docs/spark.md must have:\n" + "\n".join(
        expected()
    )


def test_the_table_of_columns() -> None:
    rows = [line.split("|")[1:-1] for line in table_under("Columns")[2:]]
    found = [
        (name.strip(), kind.strip("` "), is_default.strip() == "yes")
        for names, kind, _, is_default in rows
        for name in names.replace("`", "").split(",")
    ]
    assert found == [(name, kind, name in DEFAULT) for name, kind in COLUMNS.items()]
