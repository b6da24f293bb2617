"""Writes docs/modules.md: what each module does, by its docstring, and what imports what.

Run it after a module has come, gone, or changed its first sentence. It also writes the line of
layers in ARCHITECTURE.md. With `--check` it writes nothing and fails if one is not up to date.
A module without a docstring is an error both ways.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import rust_imports
from check_layers import PYTHON_LAYERS, RUST_LAYERS
from python_imports import PythonTree

ROOT = Path(__file__).resolve().parent.parent
PAGE = "docs/modules.md"
MAP = "ARCHITECTURE.md"
HEAD = """# Modules

Written by `scripts/docs_modules.py` from the docstrings: change those, not this page.
[ARCHITECTURE.md](../ARCHITECTURE.md) has the map; this is the list to look things up in.
"""
PYTHON = ("pyrmq", "spark_ext", "scripts", "build_backend")
"""Folders with Python modules."""
RUST = "native"
NO_MODULES = {"target", "fuzz", "tests", "benches", "proptest-regressions", "__pycache__"}
"""Folders with nothing to list."""
TEST = re.compile(r"(^|_)(tests|bench)$")
"""Names of Rust files with tests of the module beside them."""
OWN = {"__init__", "mod", "lib", "__main__"}
"""Modules that speak for their folder."""
SENTENCE = re.compile(r"(.*?[.?!])(?=\s|$)", re.DOTALL)


class MissingDocstringError(Exception):
    """Modules that say nothing of themselves."""


def modules(root: Path) -> Iterator[tuple[str, str, str]]:
    """(folder, module, first sentence) of all modules, sorted; the folder's own module is ''."""
    missing = []
    for path in sorted(
        _files(root), key=lambda p: (p.parent.as_posix(), p.stem not in OWN, p.name)
    ):
        name = path.relative_to(root).as_posix()
        sentence = first_sentence(path)
        if sentence:
            own = path.stem in OWN - {"__main__"}
            yield path.parent.relative_to(root).as_posix(), "" if own else path.name, sentence
        elif path.stem != "__main__":
            missing.append(name)
    if missing:
        raise MissingDocstringError(f"no docstring: {', '.join(missing)}")


def _place(path: Path) -> tuple[str, bool, str]:
    return path.parent.as_posix(), path.stem not in OWN, path.name


def _files(root: Path) -> Iterator[Path]:
    for folder in PYTHON:
        for suffix in ("*.py", "*.pyx", "*.pxi"):
            yield from _below(root, folder, suffix)
    for path in _below(root, RUST, "*.rs"):
        if not TEST.search(path.stem):
            yield path


def _below(root: Path, folder: str, pattern: str) -> Iterator[Path]:
    for path in (root / folder).rglob(pattern):
        if not NO_MODULES & set(path.relative_to(root).parts[:-1]):
            yield path


def first_sentence(path: Path) -> str:
    """What a module says it does: '' if it says nothing."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        said = ast.get_docstring(ast.parse(text)) or ""
    elif path.suffix == ".rs":
        said = _leading(text, "//!")
    elif path.suffix == ".pyx":
        found = re.search(r'^"""(.*?)"""', text, re.DOTALL | re.MULTILINE)
        said = found[1] if found else ""
    else:
        said = _leading(text, "#")
    paragraph = " ".join(said.strip().split("\n\n")[0].split())
    found = SENTENCE.match(paragraph)
    return found[1].removesuffix(".").removesuffix(":") if found else paragraph


def _leading(text: str, mark: str) -> str:
    """The comment at the head of a file, its marks taken away."""
    lines = []
    for line in text.splitlines():
        if not line.startswith(mark):
            break
        lines.append(line.removeprefix(mark).strip())
    return "\n".join(lines)


def python_graph(root: Path) -> dict[str, set[str]]:
    """Which package of pyrmq (or module beside the packages) imports which."""
    edges = (
        (_part(source), _part(target))
        for source, targets in PythonTree(root, ["pyrmq", "spark_ext"]).graph().items()
        for target in targets
    )
    return _graph(edges)


def rust_graph(root: Path) -> dict[str, set[str]]:
    """Which crate of the workspace needs which; of a single crate, which of its modules."""
    manifests = {
        tomllib.loads(path.read_text("utf-8"))["package"]["name"]: path
        for path in sorted((root / RUST / "crates").glob("*/Cargo.toml"))
    }
    if manifests:
        own = root / "Cargo.toml"
        manifests[tomllib.loads(own.read_text("utf-8"))["package"]["name"]] = own
        return _graph(
            (_crate(name), _crate(other))
            for name, path in manifests.items()
            for other in tomllib.loads(path.read_text("utf-8")).get("dependencies", {})
            if other in manifests
        )
    source = root / RUST / "src"
    return _graph(
        (edge.file.relative_to(source).parts[0], edge.target.relative_to(source).parts[0])
        for edge in rust_imports.edges(source)
    )


def _crate(name: str) -> str:
    return name.removeprefix("pyrmq-")


def _graph(edges: Iterator[tuple[str, str]]) -> dict[str, set[str]]:
    out: dict[str, set[str]] = {}
    for own, other in edges:
        if own != other and not {own, other} & OWN:
            out.setdefault(own, set()).add(other)
    return out


def _part(path: str) -> str:
    """`net` of pyrmq/net/server/server.py, `spark_ext` of spark_ext/source.py."""
    top, _, inside = path.partition("/")
    return inside.split("/")[0].split(".")[0] if top == "pyrmq" else top


def drawing(graph: dict[str, set[str]]) -> str:
    """The graph as a drawing, without arrows that others imply."""
    reached: dict[str, set[str]] = {}

    def below(name: str) -> set[str]:
        if name not in reached:
            reached[name] = set()
            reached[name] = set().union(*(below(t) | {t} for t in graph.get(name, ())))
        return reached[name]

    lines = []
    for source in sorted(graph):
        implied = set().union(*map(below, graph[source]))
        targets = " & ".join(sorted(graph[source] - implied))
        lines.append(f"    {source} --> {targets}")
    return "\n".join(["```mermaid", "flowchart TD", *lines, "```"]) + "\n"


def written(root: Path) -> str:
    """The page as it should be."""
    parts = [HEAD, "## What imports what", "An arrow that others imply is left out.", ""]
    parts += ["Python:", "", drawing(python_graph(root))]
    parts += ["Rust:", "", drawing(rust_graph(root))]
    for folder, of_folder in groupby(modules(root), key=lambda module: module[0]):
        parts += [f"## `{folder}/`"]
        rows = list(of_folder)
        parts += [f"{sentence}." for _, name, sentence in rows if not name]
        named = [(name, sentence.replace("|", "\\|")) for _, name, sentence in rows if name]
        if named:
            parts += ["", "| Module | What it does |", "|---|---|"]
            parts += [f"| `{name}` | {sentence} |" for name, sentence in named]
        parts += [""]
    return "\n".join(parts)


def with_layers(text: str) -> str:
    """ARCHITECTURE.md with the layers that `check_layers.py` checks."""
    for name, order in (("Python", PYTHON_LAYERS), ("Rust", RUST_LAYERS)):
        line = " < ".join(", ".join(sorted(layer)) for layer in order)
        text, count = re.subn(rf"(?m)^{name}: .+ < .+$", f"{name}: {line}", text)
        if count != 1:
            raise ValueError(f"{MAP}: one line has to begin with '{name}: '")
    return text


def main(root: Path, check: bool) -> int:
    """Writes both pages (`check`: only compares them); the exit code."""
    try:
        pages = {PAGE: written(root), MAP: with_layers((root / MAP).read_text(encoding="utf-8"))}
    except MissingDocstringError as e:
        print(e)
        return 1
    stale = False
    for name, text in pages.items():
        page = root / name
        if page.is_file() and page.read_text(encoding="utf-8") == text:
            continue
        if check:
            stale = True
            print(f"{name} is not up to date: python scripts/docs_modules.py writes it")
        else:
            page.write_text(text, encoding="utf-8")
            print(f"{name} is written")
    return int(stale)


if __name__ == "__main__":
    words = sys.argv[1:]
    if words not in ([], ["--check"]):
        sys.exit("python scripts/docs_modules.py [--check]: writes docs/modules.md, or compares it")
    sys.exit(main(ROOT, bool(words)))
