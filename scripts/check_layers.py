"""Checks that no file imports upward, that no files import each other in a circle, and that native
code and Spark have one door each.

The order is that of ARCHITECTURE.md. The Spark packages stand above all of Python: only the
pipeline command may import them. What counts as an import: see `python_imports.py` and
`rust_imports.py`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import rust_imports
from import_graph import Graph, circles, shortest
from python_imports import PythonTree

PYTHON_LAYERS = [
    {"version", "escape", "errors", "face_docs"},
    {"engine"},
    {"model"},
    {"config"},
    {"segments"},
    {"net"},
    {"txn"},
    {"broker", "namesrv", "client", "background"},
    {"admin", "background_stream"},
    {"aio_face", "sync_face"},
    {"aio_admin", "sync_admin", "outbox"},
    {"aio_outbox", "sync_outbox"},
    {"aio", "sync"},
    {"oms", "server"},
    {"testing"},
    {"demo", "demo_ha", "pytest_plugin"},
    {"cli"},
]
RUST_LAYERS = [
    {"format"},
    {"filter"},
    {"store"},
    {"ha"},
    {"txn"},
    {"delay"},
    {"broker"},
    {"wire", "arrow"},
    {"offline"},
    {"python"},
]
SPARK = {"spark_ext", "pyspark", "pyspark_rocketmq", "pyspark_pyrmq"}
SPARK_DOOR = "pyrmq/cli/pipeline.py"


def faults(root: Path) -> list[str]:
    """What is wrong in the packages and the crate below a folder, one line each."""
    python = PythonTree(root, ["pyrmq", "spark_ext"])
    found = _python_layers(python, root)
    found += _circles(python.graph())
    source = root / "native" / "src"
    if source.is_dir():
        rust = rust_imports.edges(source)
        found += _rust_layers(rust, source)
        graph: dict[str, set[str]] = {}
        for edge in rust:
            if not edge.reexport:
                file = edge.file.relative_to(root).as_posix()
                graph.setdefault(file, set()).add(edge.target.relative_to(root).as_posix())
        found += _circles(graph)
    return found


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


def _rust_layers(edges: set[rust_imports.Edge], source: Path) -> list[str]:
    found = []
    level = _levels(RUST_LAYERS)
    for folder in sorted({p.relative_to(source).parts[0] for p in source.rglob("*.rs")}):
        if folder != "lib.rs" and folder not in level:
            found.append(f"native/src/{folder}: is in no layer of {Path(__file__).name}")
    for edge in edges:
        own, other = (p.relative_to(source).parts[0] for p in (edge.file, edge.target))
        if own != other and {own, other} <= level.keys() and level[other] >= level[own]:
            file, target = (p.relative_to(source) for p in (edge.file, edge.target))
            found.append(
                f"native/src/{file}: {own} imports {target}, which stands above or beside it"
            )
        elif other == "lib.rs":
            found.append(f"{edge.file.relative_to(source)}: imports lib.rs, which stands above all")
    return sorted(found)


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
