"""Checks that no layer imports upward and that native code has one door.

The order is that of ARCHITECTURE.md. The Spark packages stand above all: only the pipeline command
may import them. Imports are read from the syntax tree, those inside of
functions included; imports under TYPE_CHECKING count as well.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

LAYERS = [
    {"version", "escape", "errors"},
    {"model"},
    {"engine"},
    {"segments"},
    {"net"},
    {"txn"},
    {"broker", "namesrv", "client"},
    {"outbox", "admin"},
    {"server"},
    {"testing"},
    {"demo"},
    {"cli"},
]
SPARK = {"spark_ext", "pyspark", "pyspark_rocketmq", "pyspark_pyrmq"}
SPARK_DOOR = "cli/pipeline.py"
ROOT = Path(__file__).resolve().parent.parent / "pyrmq"
LEVEL = {name: i for i, names in enumerate(LAYERS) for name in names}


def imported(path: Path) -> set[str]:
    """Modules of this package and of Spark that a file imports, as dotted names."""
    out: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            out |= {a.name for a in node.names}
        elif isinstance(node, ast.ImportFrom):
            package = ["pyrmq", *path.relative_to(ROOT).parts[:-1]]
            above = package[: len(package) + 1 - node.level] if node.level else []
            module = ".".join([*above, *([node.module] if node.module else [])])
            out |= {f"{module}.{a.name}" for a in node.names}
    return {n for n in out if n.startswith("pyrmq.") or n.split(".")[0] in SPARK}


def part_of(path: Path) -> str:
    return path.relative_to(ROOT).with_suffix("").parts[0]


def faults() -> list[str]:
    found = []
    for path in sorted(ROOT.rglob("*.py")):
        own = part_of(path)
        if own in ("__init__", "__main__"):
            continue
        if own not in LEVEL:
            found.append(f"{path}: {own} is in no layer of {Path(__file__).name}")
            continue
        door = str(path.relative_to(ROOT)) == SPARK_DOOR
        for name in sorted(imported(path)):
            if name.split(".")[0] in SPARK:
                if not door:
                    found.append(f"{path}: imports {name}; only {SPARK_DOOR} may")
                continue
            other = name.split(".")[1]
            if other == "_native":
                found.append(f"{path}: imports {name}; only pyrmq/engine.pyx may")
            elif other in LEVEL and other != own and LEVEL[other] >= LEVEL[own]:
                found.append(f"{path}: {own} imports {name}, which stands above or beside it")
    return found


if __name__ == "__main__":
    problems = faults()
    print("\n".join(problems) or "layers: no import goes upward")
    sys.exit(bool(problems))
