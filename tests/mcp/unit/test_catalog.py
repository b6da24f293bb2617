"""All tools have clear names, schemas that say what their check does, and hints."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from pyrmq.mcp.arguments import Argument, ArgumentError, read_all, schema_of
from pyrmq.mcp.catalog import CHANGES, READS
from pyrmq.mcp.confirming import CONFIRM
from pyrmq.mcp.resources import FIXED, TEMPLATES, find
from pyrmq.mcp.server import described

ALL = (*READS, *CHANGES)
ROOT = Path(__file__).resolve().parents[3]


def test_names_are_clear_and_used_once() -> None:
    names = [tool.name for tool in ALL]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)+", name) for name in names)
    assert all(tool.about.endswith(".") and len(tool.about) < 400 for tool in ALL)


@pytest.mark.parametrize("tool", ALL, ids=lambda tool: tool.name)
def test_the_schema_is_valid(tool: Any) -> None:
    shown = described(tool)
    jsonschema.Draft202012Validator.check_schema(shown.input_schema)
    hints = shown.annotations
    assert hints is not None
    changes = tool in CHANGES
    assert hints.read_only_hint is not changes
    assert (CONFIRM.name in shown.input_schema["properties"]) is changes
    for argument in tool.arguments:
        if argument.default is not None:
            assert argument.read(argument.default) == argument.default


TABLE = (
    Argument("text", "A text.", required=True, longest=5),
    Argument("whole", "A number.", "whole", low=1, high=9, default=3),
    Argument("truth", "A truth.", "truth"),
    Argument("texts", "Texts.", "texts", longest=5),
    Argument("chosen", "One.", choices=("a", "b")),
)


@pytest.mark.parametrize(
    "given",
    [{}, {"text": 1}, {"text": "123456"}, {"text": "\ud800"}, {"text": "a", "whole": 0},
     {"text": "a", "whole": 10}, {"text": "a", "whole": True}, {"text": "a", "whole": "3"},
     {"text": "a", "truth": 1}, {"text": "a", "texts": "a"}, {"text": "a", "texts": ["123456"]},
     {"text": "a", "texts": [1]}, {"text": "a", "texts": ["a"] * 101}, {"text": "a", "chosen": "c"},
     {"text": "a", "other": 1}],
)  # fmt: skip
def test_what_the_schema_refuses_the_check_refuses(given: dict[str, Any]) -> None:
    if given.get("text") != "\ud800":
        assert not jsonschema.Draft202012Validator(schema_of(TABLE)).is_valid(given)
    with pytest.raises(ArgumentError):
        read_all(TABLE, given)


def test_what_is_not_given_has_its_default() -> None:
    found = read_all(TABLE, {"text": "a", "truth": None})
    assert found == {"text": "a", "whole": 3, "truth": None, "texts": None, "chosen": None}


def test_resources_are_read_by_tools() -> None:
    for one in FIXED:
        found = find(one.uri)
        assert found is not None
        read_all(found[0].arguments, found[1])
    for template in TEMPLATES:
        found = find(template.beginning + "A%25B")
        assert found is not None
        assert read_all(found[0].arguments, found[1])[template.argument] == "A%B"
        assert find(template.beginning) is None
        assert find(template.beginning + "a/b") is None
    assert find("file:///etc/passwd") is None


def test_the_page_names_each_tool() -> None:
    page = (ROOT / "docs" / "mcp.md").read_text(encoding="utf-8")
    table = page.partition("## Tools")[2].partition("## Changes")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ") and "`" in line]
    changes = [row for row in rows if row.startswith("| changes")]
    named = {name for row in rows for name in re.findall(r"`([a-z_]+)`", row.split(" | ")[1])}
    assert named == {tool.name for tool in ALL}
    assert set(re.findall(r"`([a-z_]+)`", changes[0].split(" | ")[1])) == {t.name for t in CHANGES}
