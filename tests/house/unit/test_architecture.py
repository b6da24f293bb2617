"""What ARCHITECTURE.md claims is so: layers, answers, requests, folders, and the calls of flows."""

from __future__ import annotations

import importlib
import re
import typing
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

from pyrmq.net.server import answers
from pyrmq.net.server.dispatch import Dispatcher
from pyrmq.net.server.unconfirmed import Unconfirmed

ROOT = Path(__file__).resolve().parents[3]
TEXT = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
PAGES = [ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs" / "decisions").glob("*.md"))]
PATH = re.compile(r"[\w.-]+(?:/[\w.-]+)*(?:/|\.(?:rs|py|pyx|pxi|h|md|sh)\b)")
SOURCES = ("pyrmq", "spark_ext", "spark_jvm", "native")
NO_SOURCE = {"target", "fuzz", "__pycache__", "tests", "benches"}
OUTSIDE = {"__pycache__", ".build", ".pytest_cache", ".hypothesis"}


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    return importlib.import_module


def section(title: str, text: str = TEXT) -> str:
    """What stands below a heading, up to the next one of its level."""
    found = re.search(
        rf"^(#+) {re.escape(title)}\n(.*?)(?=^\1 |\Z)", text, re.MULTILINE | re.DOTALL
    )
    assert found is not None, title
    return found[2]


def first_column(title: str, text: str = TEXT) -> list[str]:
    """The names in backquotes of the first cells of a section's tables."""
    return [
        name
        for line in section(title, text).splitlines()
        if line.startswith("| `")
        for name in re.findall(r"`([^`]+)`", line.split(" | ")[0])
    ]


def folders_with_modules(*suffixes: str) -> set[str]:
    """Folders of the package and of spark_ext that have modules, with a slash at the end."""
    return {
        f"{path.parent.relative_to(ROOT).as_posix()}/"
        for top in ("pyrmq", "spark_ext")
        for suffix in suffixes
        for path in (ROOT / top).rglob(f"*{suffix}")
        if not OUTSIDE & set(path.parts)
    }


def test_it_is_read_in_one_go() -> None:
    assert len(TEXT.splitlines()) <= 300


def test_each_folder_has_a_row(scripts: Callable[[str], ModuleType]) -> None:
    rows = first_column("Folders")
    assert len(rows) == len(set(rows))
    missing = [row for row in rows if not (ROOT / row).is_dir()]
    assert not missing
    python = {row for row in rows if not row.startswith("native/")}
    assert python == folders_with_modules(".py")
    crates = {row for row in rows if row.startswith("native/crates/")}
    order = scripts("check_layers").FOLDERS
    assert crates == {
        f"native/crates/{crate.name}/src/" + ("" if folder == "." else f"{folder}/")
        for crate in (ROOT / "native" / "crates").iterdir()
        for layer in order.get(crate.name, [{"."}])
        for folder in layer
    }


def test_layers_are_those_that_are_checked(scripts: Callable[[str], ModuleType]) -> None:
    checked = scripts("check_layers")
    block = re.findall(r"^(?:Inside of crates: )?(\w+: .+ < .+)$", section("Layers"), re.MULTILINE)
    said = [line.split(": ") for lines in block for line in lines.split("; ")]
    lines = {name: [set(layer.split(", ")) for layer in order.split(" < ")] for name, order in said}
    assert lines.pop("Python") == checked.PYTHON_LAYERS
    crates = lines.pop("Crates")
    assert set().union(*crates) == checked.CRATES.keys() | {"native"}
    for height, layer in enumerate(crates):
        for crate in layer - {"native"}:
            assert checked.CRATES[crate] <= set().union(*crates[:height]), crate
    for crate, order in checked.FOLDERS.items():
        named = [{"its files" if n == checked.ROOT else n for n in layer} for layer in order]
        assert lines.pop(crate) == named
    assert not lines


def test_answers_are_those_that_processors_return() -> None:
    rows = {re.split(r"\W", name)[0]: name for name in first_column("What processors return")}
    kinds = {kind.__name__: kind for kind in typing.get_args(answers.Answer)}
    kinds["None"] = kinds.pop("NoneType")
    assert rows.keys() == kinds.keys()
    for name, row in rows.items():
        given = re.findall(r"\w+", row)[1:]
        if given:
            assert is_dataclass(kinds[name]), row
            assert given == [field.name for field in fields(kinds[name])], row


def test_the_dispatcher_acts_on_each_answer() -> None:
    dispatcher = Dispatcher("test", {}, Unconfirmed("test", None, 1000))
    assert set(dispatcher._acts) == set(typing.get_args(answers.Answer))


def test_requests_are_those_that_the_servers_take(scripts: Callable[[str], ModuleType]) -> None:
    tables = scripts("request_tables")
    page = (ROOT / "docs" / "requests.md").read_text(encoding="utf-8")
    refused = tables.refused_requests()
    for title, processors in zip(("Broker", "Name server"), tables.servers(), strict=True):
        codes = {
            int(code) for code in re.findall(r"^\| (\d+) \|", section(title, page), re.MULTILINE)
        }
        assert codes == {code for code in processors if code not in refused}
    for _, processors in zip("bn", tables.servers(), strict=True):
        for processor in processors.values():
            name, file = tables.where(processor)
            source = ROOT / file
            assert source.is_file(), f"{name}: {file}"
            assert re.search(rf"\b{re.escape(name.split('.')[0])}\b", source.read_text("utf-8"))


def test_the_table_of_tests_has_each_folder() -> None:
    rows = first_column("Tests")
    there = {
        f"tests/{path.name}/"
        for path in (ROOT / "tests").iterdir()
        if path.is_dir() and path.name not in OUTSIDE
    }
    assert {row for row in rows if row.endswith("/")} - {"native/"} == there


# The flows.


@cache
def sources() -> list[str]:
    """All files that a box of a drawing may stand for, as paths below the root."""
    return [
        path.relative_to(ROOT).as_posix()
        for top in SOURCES
        for path in (ROOT / top).rglob("*")
        if path.suffix in (".py", ".pyx", ".pxi", ".rs", ".java")
        and not NO_SOURCE & set(path.relative_to(ROOT).parts)
    ]


@cache
def text_of(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def flows() -> dict[str, str]:
    """The drawings of flows by their headings."""
    found = re.findall(r"^### ([^\n]+)\n```mermaid\n(.*?)```", TEXT, re.MULTILINE | re.DOTALL)
    return dict(found)


def defines(path: Path, name: str) -> bool:
    """Whether a file defines a function, a method or a class."""
    text = path.read_text(encoding="utf-8")
    rust = rf"\bfn {name}\b"
    python = rf"^\s*(?:async )?(?:def|class|cdef class|cdef [\w \*]+?|cpdef [\w \*]+?) \*?{name}\b"
    java = rf"^  +(?:[\w<>\[\].]+ )+{name}\("
    patterns = {".rs": rust, ".java": java}
    return re.search(patterns.get(path.suffix, python), text, re.MULTILINE) is not None


FLOWS = [
    "A send",
    "A pull",
    "A transaction",
    "A Spark row",
    "A Spark row, in the JVM",
    "Push consumption",
]


def test_there_are_six_flows() -> None:
    assert list(flows()) == FLOWS


@pytest.mark.parametrize("title", FLOWS)
def test_boxes_are_files_and_calls_are_functions_of_theirs(title: str) -> None:
    known, boxes, calls = sources(), {}, 0
    for line in flows()[title].splitlines():
        line = line.strip()
        if found := re.fullmatch(r"participant (\w+) as (\S+)", line):
            name, suffix = found.groups()
            paths = [path for path in known if path == suffix or path.endswith("/" + suffix)]
            assert len(paths) == 1, f"{suffix} is {paths or 'no file'}"
            boxes[name] = ROOT / paths[0]
        elif found := re.fullmatch(r"(\w+)-?->>(\w+): (.+)", line):
            _, target, said = found.groups()
            assert set(found.groups()[:2]) <= boxes.keys(), line
            for name in re.findall(r"(\w+)\(\)", said):
                calls += 1
                at = [boxes[target]] if said.startswith(f"{name}()") else boxes.values()
                assert any(defines(path, name) for path in at), f"{line}: no {name} there"
        else:
            keywords = r"(sequenceDiagram|Note over|loop|alt|else|opt|end)\b.*"
            assert re.fullmatch(keywords, line), line
    assert calls >= 6


# Paths and pages.


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_paths_exist(page: Path) -> None:
    spans = re.findall(r"`([^`\n]+)`", page.read_text(encoding="utf-8"))
    paths = {span for span in spans if "/" in span and PATH.fullmatch(span)}
    if page.name == "ARCHITECTURE.md":
        assert len(paths) > 60
    missing = sorted(path for path in paths if not (ROOT / path).exists())
    assert not missing, f"name them from the folder of the repository on: {missing}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
        assert target.startswith("https:") or (page.parent / target).exists(), target


def test_features_begin_in_files_that_define_what_is_named() -> None:
    text = section("Where a new feature goes")
    for name in (
        "PersistentTable", "LiveConfig", "Rows", "Decision", "Appender::send", "Refusal", "Kind",
        "Transform", "Guard", "RuntimeInfo", "Filters",
    ):  # fmt: skip
        assert f"`{name}" in text
        word = name.split("::")[0]
        declared = re.compile(rf"^ *(?:pub )?(?:class|struct|enum) {word}\b", re.MULTILINE)
        assert any(declared.search(text_of(path)) for path in sources()), name
    for name in ("ADMIN_REQUESTS", "ABSENT_REQUESTS", "LOADS", "JOBS", "OPS"):
        assert f"`{name}`" in text
        declared = re.compile(rf"^(?:const )?{name}\b", re.MULTILINE)
        assert any(declared.search(text_of(path)) for path in sources()), name


def test_decisions_are_numbered_and_in_the_index() -> None:
    folder = ROOT / "docs" / "decisions"
    files = sorted(path.name for path in folder.glob("[0-9]*.md"))
    assert [name[:3] for name in files] == [f"{n:03}" for n in range(1, len(files) + 1)]
    titles = {}
    for name in files:
        lines = (folder / name).read_text(encoding="utf-8").splitlines()
        assert lines[0].startswith(f"# {name[:3]}. "), name
        titles[name] = lines[0].removeprefix(f"# {name[:3]}. ")
        parts = [line for line in lines if line.startswith("## ")]
        assert parts == ["## Context", "## Choice", "## Cost"], name
    index = (folder / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[(\d+)\]\(([^)]+)\) \| (.+) \|$", index, re.MULTILINE)
    assert rows == [(name[:3], name, title) for name, title in titles.items()]


def test_the_glossary_has_each_word_once_and_in_order() -> None:
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    words: list[str] = []
    for title in ("RocketMQ's words", "Our words"):
        rows = [line.split(" | ")[0].strip("| ") for line in section(title, text).splitlines()]
        own = [row for row in rows if row and row != "Word" and not row.startswith("--")]
        assert own == sorted(own, key=str.lower)
        words += [word for row in own for word in row.split(", ")]
    assert len(words) == len(set(words)) > 60


def test_a_module_without_a_docstring_is_told(
    scripts: Callable[[str], ModuleType], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = scripts("docs_modules")
    for folder in ("pyrmq", "spark_ext", "native/src", "docs"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "ARCHITECTURE.md").write_text("# Map\n\n## Layers\n```\nold\n```\n")
    (tmp_path / "native" / "src" / "lib.rs").write_text("//! The crate.\n")
    (tmp_path / "pyrmq" / "one.py").write_text('"""Does one thing. And more."""\n')
    assert script.main(tmp_path, check=True) == 1
    assert "is not up to date" in capsys.readouterr().out
    assert script.main(tmp_path, check=False) == 0
    page = (tmp_path / "docs" / "modules.md").read_text(encoding="utf-8")
    assert "| `one.py` | Does one thing |" in page
    assert "old" not in (tmp_path / "ARCHITECTURE.md").read_text(encoding="utf-8")
    assert script.main(tmp_path, check=True) == 0
    (tmp_path / "pyrmq" / "two.py").write_text("x = 1\n")
    (tmp_path / "native" / "src" / "two.rs").write_text("fn two() {}\n")
    capsys.readouterr()
    assert script.main(tmp_path, check=True) == 1
    assert capsys.readouterr().out == "no docstring: native/src/two.rs, pyrmq/two.py\n"
