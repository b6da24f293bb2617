"""ARCHITECTURE.md speaks of files and layers that exist."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
PATH = re.compile(r"[\w.-]+(?:/[\w.-]+)*(?:/|\.(?:rs|py|pyx|h|md)\b)")


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    return importlib.import_module


@pytest.fixture
def real_imports(scripts: Callable[[str], ModuleType]) -> dict[str, set[str]]:
    """Which package (or module beside the packages) imports which."""
    edges = [
        (_part(source), _part(target))
        for source, targets in scripts("python_imports")
        .PythonTree(ROOT, ["pyrmq", "spark_ext"])
        .graph()
        .items()
        for target in targets
    ]
    source = ROOT / "native" / "src"
    edges += [
        (edge.file.relative_to(source).parts[0], edge.target.relative_to(source).parts[0])
        for edge in scripts("rust_imports").edges(source)
    ]
    out: dict[str, set[str]] = {}
    for own, other in edges:
        if own != other and not {own, other} & {"__init__", "__main__"}:
            out.setdefault(own, set()).add(other)
    return out


def _part(path: str) -> str:
    """`net` of pyrmq/net/server/server.py, `spark_ext` of spark_ext/source.py."""
    top, _, inside = path.partition("/")
    return inside.split("/")[0].split(".")[0] if top == "pyrmq" else top


def named_modules() -> Iterator[tuple[str, str]]:
    """(folder, module) of the tables below the headings that are a folder."""
    folder = ""
    for line in TEXT.splitlines():
        if line.startswith("#"):
            found = re.fullmatch(r"### `([^`]+)/`", line)
            folder = found[1] if found else ""
        elif folder and line.startswith("| `"):
            for name in re.findall(r"`([^`]+)`", line.split("|")[1]):
                yield folder, name


def drawn_imports() -> dict[str, set[str]]:
    """The arrows of the drawings."""
    out: dict[str, set[str]] = {}
    for sources, targets in re.findall(r"^    ([\w &]+) --> ([\w &]+)$", TEXT, re.MULTILINE):
        for source in sources.split(" & "):
            out.setdefault(source, set()).update(targets.split(" & "))
    return out


def test_modules_of_the_tables_exist() -> None:
    missing = []
    for folder, name in named_modules():
        path = ROOT / folder / name
        if not (path.is_dir() or any(path.with_suffix(s).is_file() for s in (".rs", ".py"))):
            missing.append(path.relative_to(ROOT).as_posix())
    assert not missing


def test_every_module_is_in_its_table() -> None:
    tables: dict[str, set[str]] = {}
    for folder, name in named_modules():
        tables.setdefault(folder, set()).add(name)
    assert len(tables) > 10
    for folder, names in tables.items():
        files = {p.stem for p in (ROOT / folder).iterdir() if p.suffix in (".rs", ".py")}
        left_out = {f for f in files if re.search("^(mod|error|testing|__init__)$|tests?$", f)}
        assert files - left_out <= names, folder


def test_paths_exist() -> None:
    spans = re.findall(r"`([^`\n]+)`", TEXT)
    paths = {span for span in spans if "/" in span and PATH.fullmatch(span)}
    assert len(paths) > 60
    missing = sorted(path for path in paths if not (ROOT / path).exists())
    assert not missing, f"name them from the folder of the repository on: {missing}"
    files = {span for span in spans if re.fullmatch(r"\w+\.(rs|py|pyx)", span)}
    named = {path.rpartition("/")[2] for path in paths}
    assert files <= named, "the first time a file is named by its path"


def test_layers_are_those_that_are_checked(scripts: Callable[[str], ModuleType]) -> None:
    checked = scripts("check_layers")
    for name, order in (("Python", checked.PYTHON_LAYERS), ("Rust", checked.RUST_LAYERS)):
        line = " < ".join(", ".join(sorted(layer)) for layer in order)
        assert f"\n{name}: {line}\n" in TEXT


def test_drawings_agree_with_the_imports(real_imports: dict[str, set[str]]) -> None:
    drawn = drawn_imports()
    assert len(drawn) > 15
    implied: dict[str, set[str]] = {}

    def reached(name: str) -> set[str]:
        if name not in implied:
            implied[name] = set().union(*(reached(t) | {t} for t in drawn.get(name, ())))
        return implied[name]

    for source, targets in drawn.items():
        assert targets <= real_imports[source], f"{source} does not import all of {targets}"
    for source, targets in real_imports.items():
        assert targets <= reached(source), f"{source} imports more than is drawn"
