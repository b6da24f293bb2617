"""What the site makes of the pages: links, lists and tables, docstrings."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
import yaml

import pyrmq
from pyrmq.cli import main
from pyrmq.cli.mqadmin.run import COMMANDS

ROOT = Path(__file__).resolve().parents[3]
SITE = ROOT / "scripts" / "site"


def module(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module of that folder, which is no package."""
    monkeypatch.syspath_prepend(str(SITE))
    monkeypatch.delitem(sys.modules, name, raising=False)
    found = importlib.import_module(name)
    monkeypatch.delitem(sys.modules, name)
    return found


@pytest.fixture
def dialect(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return module("dialect", monkeypatch)


@pytest.fixture
def links(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return module("links", monkeypatch)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Text:\n- a\n- b\n", "Text:\n\n- a\n- b\n"),
        ("Text:\n1. a\n2. b\n", "Text:\n\n1. a\n2. b\n"),
        ("In the year\n1984. It was\n", "In the year\n1984. It was\n"),
        ("- a\n  goes on\n\n  and on\n", "- a\n    goes on\n\n    and on\n"),
        ("- a\n  - b\n    - c\n- d\n", "- a\n\n    - b\n\n        - c\n- d\n"),
        (
            "1. a\n\n   ```sh\n   ls\n   ```\n2. b\n",
            "1. a\n\n    ```sh\n    ls\n    ```\n\n2. b\n",
        ),
        ("1. a\n\n   b\n2. c\n3. d\n", "1. a\n\n    b\n\n2. c\n3. d\n"),
        ("- a\n\nText\n", "- a\n\nText\n"),
        ("Text\n| a |\n|---|\n| 1 |\n", "Text\n\n| a |\n|---|\n| 1 |\n"),
        ("```\nText\n- a\n```\n", "```\nText\n- a\n```\n"),
        ("```\na\n```\nText\n2. b\n", "```\na\n```\n\nText\n2. b\n"),
        ("```\na\n```\n5. b\n", "```\na\n```\n\n5. b\n"),
        ("Text\n\n    - code\n", "Text\n\n    - code\n"),
        ("a\n\n---\n\nb\n", "a\n\n---\n\nb\n"),
    ],
)
def test_the_dialect(dialect: ModuleType, text: str, wanted: str) -> None:
    assert dialect.for_python_markdown(text) == wanted


@pytest.mark.parametrize(
    ("uri", "text", "wanted"),
    [
        ("guide.md", "[a](delay.md#x)", "[a](delay.md#x)"),
        ("guide.md", "[a](../README.md#install)", "[a](repository/README.md#install)"),
        ("guide.md", "[a](../examples/oms.py)", "[a](repository/examples/oms.py.md)"),
        ("decisions/README.md", "[a](../limits.md)", "[a](../limits.md)"),
        ("repository/README.md", "[a](docs/guide.md)", "[a](../guide.md)"),
        ("repository/README.md", "![a](docs/images/lag.png)", "![a](../images/lag.png)"),
        ("guide.md", "[a](https://example.org/x)", "[a](https://example.org/x)"),
        ("guide.md", "`[a](../README.md)`", "`[a](../README.md)`"),
        ("guide.md", "[a](../gone.md)", "[a](../gone.md)"),
        ("guide.md", "[a](#here)", "[a](#here)"),
    ],
)
def test_links(links: ModuleType, uri: str, text: str, wanted: str) -> None:
    assert links.Links(ROOT).of_the_site(uri, text) == wanted


def test_what_pages_link_to_is_shown(links: ModuleType) -> None:
    found = links.Links(ROOT).shown([("guide.md", "[a](../examples) [b](../LICENSE) [c](x.md)")])
    assert {"examples", "LICENSE", "examples/oms.py"} <= found
    assert links.Links(ROOT).page_of("examples/oms.py")[0] == "repository/examples/oms.py.md"


def test_docstrings(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = module("docstrings", monkeypatch).listed
    text = "A class.\n\nname: what it\nmeans.\nother, more: both."
    assert listed(text) == "A class.\n\n- **name**: what it\n    means.\n- **other, more**: both."
    assert listed("Raises: nothing at all") == "- **Raises**: nothing at all"
    assert listed("Text that says: this.") == "Text that says: this."


def test_the_index_has_no_blocks() -> None:
    """So that those who run blocks may leave it out."""
    assert "```" not in (ROOT / "docs" / "README.md").read_text(encoding="utf-8")


def test_every_page_has_a_place_in_the_menu() -> None:
    """As `make site` checks it, in a moment."""
    text = re.sub(r"!ENV \[[^]]*\]|!!python\S+", "", (ROOT / "mkdocs.yml").read_text("utf-8"))
    menu = yaml.safe_dump(yaml.safe_load(text)["nav"])
    missing = [path.name for path in (ROOT / "docs").glob("*.md") if path.name not in menu]
    assert not missing, "mkdocs.yml: nav"


def test_every_command_and_every_name_has_a_place(monkeypatch: pytest.MonkeyPatch) -> None:
    commands = module("commands", monkeypatch)
    pages = commands.pages()
    for path, _ in commands._leaves(main, ("pyrmq",)):
        page = {"admin": "reference/admin.md"}.get(path[1], "reference/commands.md")
        if path[1] != "mqadmin":
            assert f"# {' '.join(path)}\n" in pages[page]
    for name in COMMANDS:
        assert f"## {name}\n" in pages["reference/mqadmin.md"]
    api = "\n".join(module("api", monkeypatch).pages().values())
    missing = {name for name in pyrmq.__all__ if not re.search(rf"^::: .*\b{name}$", api, re.M)}
    assert missing <= {"aio", "errors", "oms", "sync", "testing", "__version__"}


def test_a_sequence(monkeypatch: pytest.MonkeyPatch) -> None:
    diagrams = module("diagrams", monkeypatch)
    text = (
        "```mermaid\nsequenceDiagram\n    participant a as x/y.py\n    participant b\n    %s\n```\n"
    )
    drawn = diagrams.drawn(text % "a->>b: call() <1>\n    alt A\n    b-->>a: back\n    end")
    assert "call() &lt;1&gt;" in drawn
    assert drawn.count("marker-end") == 2
    with pytest.raises(diagrams.DiagramError, match="no participant c"):
        diagrams.drawn(text % "a->>c: call()")
    with pytest.raises(diagrams.DiagramError, match="not known: activate a"):
        diagrams.drawn(text % "activate a")
    flow = "```mermaid\nflowchart TD\n    a --> b & c\n```\n"
    assert "| `a` | `b`, `c` |" in diagrams.drawn(flow)
