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

from check_layers import CRATES, FOLDERS, PYTHON_LAYERS
from check_layers import ROOT as BESIDE_LIB
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
    """Which crate of the workspace needs which."""
    found = [root / "Cargo.toml", *sorted((root / RUST / "crates").glob("*/Cargo.toml"))]
    read = [tomllib.loads(path.read_text(encoding="utf-8")) for path in found if path.is_file()]
    crates = {manifest["package"]["name"]: manifest for manifest in read}
    return _graph(
        (_crate(name), _crate(other))
        for name, manifest in crates.items()
        for other in manifest.get("dependencies", {})
        if other in crates
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


def layers() -> str:
    """What `check_layers.py` checks, as lines: lowest first, and what stands beside each other."""
    above = {"native": max(map(_height, CRATES)) + 1, **{name: _height(name) for name in CRATES}}
    crates = [{n for n in above if above[n] == height} for height in sorted(set(above.values()))]
    lines = [f"Python: {_order(PYTHON_LAYERS)}", f"Crates: {_order(crates)}"]
    inside = (f"{crate}: {_order(order)}" for crate, order in FOLDERS.items())
    return "\n".join([*lines, f"Inside of crates: {'; '.join(inside)}"]) + "\n"


def _height(crate: str) -> int:
    return max((_height(below) + 1 for below in CRATES[crate]), default=0)


def _order(order: list[set[str]]) -> str:
    layers = ({"its files" if n == BESIDE_LIB else n for n in layer} for layer in order)
    return " < ".join(", ".join(sorted(layer)) for layer in layers)


def with_layers(text: str) -> str:
    """ARCHITECTURE.md with those lines."""
    parts = re.split(r"(?<=\n## Layers\n)(.*?```\n).*?(?=```\n)", text, flags=re.DOTALL)
    if len(parts) != 3:
        raise ValueError(f"{MAP}: below '## Layers' a block between ``` is missing")
    return f"{parts[0]}{parts[1]}{layers()}{parts[2]}"


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
