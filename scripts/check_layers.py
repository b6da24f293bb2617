"""Checks that no file imports upward, that no files import each other in a circle, and that native
code and Spark have one door each.

The order is that of ARCHITECTURE.md. The Spark packages stand above all of Python: only the
pipeline command may import them. Which crates a crate of the engine may use is the table here, and
the compiler refuses the rest; inside of a crate folders have an order. What counts as an import:
see `python_imports.py` and `rust_imports.py`.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import rust_imports
from import_graph import Graph, circles, shortest
from python_imports import PythonTree

PYTHON_LAYERS = [
    {"version", "escape", "installation"},
    {"errors"},
    {"engine"},
    {"logs"},
    {"model"},
    {"config"},
    {"segments"},
    {"tables"},
    {"net"},
    {"http"},
    {"metrics"},
    {"auth"},
    {"txn"},
    {"broker", "namesrv", "client"},
    {"admin", "otel", "outbox", "portal"},
    {"aio", "sync"},
    {"oms", "processes", "server"},
    {"console", "deploy", "doctor", "mcp", "testing"},
    {"demo", "demo_ha", "pytest_plugin"},
    {"bench"},
    {"cli"},
]
# The crates in native/crates and the border to a JVM, and which of the crates each may depend on.
CRATES: dict[str, set[str]] = {
    "format": set(),
    "store": {"format"},
    "sign": set(),
    "tls": set(),
    "broker": {"format", "store", "sign"},
    "server": {"format", "store", "broker", "tls"},
    "capi": {"format", "store", "broker", "server", "tls"},
    "arrow": {"format"},
    "scan": {"format", "store", "arrow", "offline"},
    "offline": {"format"},
    "bench": {"format", "sign", "tls"},
    "jvm": {"format", "arrow", "scan"},
}
# The folders of a crate's src in their order; ROOT stands for the files beside lib.rs.
ROOT = "."
FOLDERS: dict[str, list[set[str]]] = {
    "bench": [{ROOT}, {"floor"}],
    "format": [{ROOT}, {"filter"}],
    "store": [{ROOT}, {"ha"}],
    "broker": [{"txn"}, {"delay"}, {"timer"}, {"pop"}, {ROOT}, {"wire"}],
    "scan": [{ROOT}, {"options"}],
    "native": [{ROOT}, {"python"}],
    "jvm": [{ROOT}, {"ops"}, {"border"}],
}
# Crates that know another language's runtime, and the border that may have them.
BORDERS = {"pyo3": "native", "pyo3-ffi": "native", "jni": "jvm", "jni-sys": "jvm"}
SPARK = {"spark_ext", "pyspark", "pyspark_rocketmq", "pyspark_pyrmq"}
SPARK_DOOR = "pyrmq/cli/pipeline.py"


def faults(root: Path) -> list[str]:
    """What is wrong in the packages and the crates below a folder, one line each."""
    python = PythonTree(root, ["pyrmq", "spark_ext"])
    found = _python_layers(python, root)
    found += _circles(python.graph())
    for crate, source in _crates(root):
        found += _crate_dependencies(crate, source.parent, root)
        rust = rust_imports.edges(source)
        found += _rust_layers(crate, rust, source, root)
        graph: dict[str, set[str]] = {}
        for edge in rust:
            if not edge.reexport:
                file = edge.file.relative_to(root).as_posix()
                graph.setdefault(file, set()).add(edge.target.relative_to(root).as_posix())
        found += _circles(graph)
    return found


def _crates(root: Path) -> Iterator[tuple[str, Path]]:
    """The crates of the engine: name and folder of the sources. `native` is the border to Python,
    `jvm` that to a JVM."""
    native = root / "native"
    for source in [native / "src", native / "jvm/src", *sorted((native / "crates").glob("*/src"))]:
        if source.is_dir():
            yield source.parent.name, source


def _levels(layers: list[set[str]]) -> dict[str, int]:
    return {name: i for i, names in enumerate(layers) for name in names}


def _python_layers(tree: PythonTree, root: Path) -> list[str]:
    found = []
    level = _levels(PYTHON_LAYERS)
    for module in tree.modules.values():
        path = module.path.relative_to(root).as_posix()
        package, _, inside = path.partition("/")
        own = inside.split("/")[0].split(".")[0]
        if package != "pyrmq" or own in ("__init__", "__main__"):
            continue
        if own not in level:
            found.append(f"{path}: {own} is in no layer of {Path(__file__).name}")
            continue
        for name in sorted({tree.origin(n) for n in module.imports}):
            top, _, rest = name.partition(".")
            other = rest.split(".")[0]
            if top in SPARK and path != SPARK_DOOR:
                found.append(f"{path}: imports {name}; only {SPARK_DOOR} may")
            elif top == "pyrmq" and other == "_native":
                found.append(f"{path}: imports {name}; only pyrmq/engine.pyx may")
            elif top == "pyrmq" and other != own and level.get(other, -1) >= level[own]:
                found.append(f"{path}: {own} imports {name}, which stands above or beside it")
    return found


def _crate_dependencies(crate: str, folder: Path, root: Path) -> list[str]:
    """Crates that the manifest names and the table does not allow."""
    if crate == "native":
        return []
    manifest = folder / "Cargo.toml"
    where = manifest.relative_to(root).as_posix()
    if crate not in CRATES:
        return [f"{where}: {crate} is no crate of {Path(__file__).name}"]
    stated = tomllib.loads(manifest.read_text(encoding="utf-8")) if manifest.is_file() else {}
    names = {n for key in ("dependencies", "dev-dependencies") for n in stated.get(key, {})}
    own = {name.removeprefix("pyrmq-") for name in names if name.startswith("pyrmq-")}
    found = [f"{where}: {crate} may not depend on {name}" for name in own - CRATES[crate]]
    others = {name for name in names & BORDERS.keys() if BORDERS[name] != crate}
    found += [f"{where}: {name} is for the border only" for name in others]
    return sorted(found)


def _rust_layers(crate: str, edges: set[rust_imports.Edge], source: Path, root: Path) -> list[str]:
    found = []
    level = _levels(FOLDERS.get(crate, [{ROOT}]))
    for folder in sorted({_folder(path, source) for path in source.rglob("*.rs")} - level.keys()):
        where = (source / folder).relative_to(root).as_posix()
        found.append(f"{where}: is in no layer of {Path(__file__).name}")
    for edge in edges:
        own, other = _folder(edge.file, source), _folder(edge.target, source)
        if own != other and {own, other} <= level.keys() and level[other] >= level[own]:
            file, target = (path.relative_to(root).as_posix() for path in (edge.file, edge.target))
            found.append(f"{file}: imports {target}, which stands above or beside it")
    return sorted(found)


def _folder(path: Path, source: Path) -> str:
    """The folder of a crate's sources that a file belongs to."""
    inside = path.relative_to(source)
    return inside.parts[0] if len(inside.parts) > 1 else ROOT


def _circles(graph: Graph) -> list[str]:
    found = []
    for circle in circles(graph):
        way = " -> ".join(shortest(graph, circle))
        found.append(f"a circle of {len(circle)} files: {', '.join(circle)}; for example {way}")
    return found


if __name__ == "__main__":
    problems = faults(Path(__file__).resolve().parent.parent)
    print("\n".join(problems) or "layers: no import goes upward, no circle")
    sys.exit(bool(problems))
