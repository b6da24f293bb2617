"""What the Python files of some packages import, read from their syntax trees.

Imports inside of functions and under TYPE_CHECKING count. A package's `__init__` counts as imported
where a name is taken from it that is no submodule. A module with a `__getattr__` of its own exports
names lazily: what it imports for that (inside of `__getattr__`, under TYPE_CHECKING) is no import
of that module; who takes such a name from it imports the module that defines the name.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Module:
    path: Path
    # Dotted names as the source states them; for `from m import a` this is `m.a`.
    imports: set[str] = field(default_factory=set)
    # Names that are exported lazily, and what they stand for.
    lazy: dict[str, str] = field(default_factory=dict)


class PythonTree:
    """The modules of the packages (folders) `packages` below `root`."""

    def __init__(self, root: Path, packages: Iterable[str]) -> None:
        self.modules: dict[str, Module] = {}
        for package in packages:
            for path in sorted((root / package).rglob("*.py")):
                self.modules[_module_name(path, root)] = _read(path, root)
            for path in sorted((root / package).rglob("*.pyx")):
                # Cython: what it imports is native.
                self.modules.setdefault(_module_name(path, root), Module(path))
        self.root = root

    def origin(self, name: str) -> str:
        """A dotted name; one that a package exports lazily becomes what it stands for."""
        seen = set()
        while name not in self.modules and name not in seen:
            seen.add(name)
            module, _, last = name.rpartition(".")
            if module not in self.modules:
                break
            name = self.modules[module].lazy.get(last, name)
        return name

    def graph(self) -> dict[str, set[str]]:
        """File to imported files, all as paths below the root."""
        return {
            self._file(name): {
                self._file(target)
                for imported in module.imports
                for target in self._modules_of(imported)
                if target != name
            }
            for name, module in self.modules.items()
        }

    def _modules_of(self, name: str) -> Iterator[str]:
        """The modules that are run when `name` (`module` or `module.attribute`) is imported."""
        for dotted in {name, self.origin(name)}:
            if dotted in self.modules:
                yield dotted
            elif (module := dotted.rpartition(".")[0]) in self.modules:
                yield module

    def _file(self, module: str) -> str:
        return self.modules[module].path.relative_to(self.root).as_posix()


def _module_name(path: Path, root: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _read(path: Path, root: Path) -> Module:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    package = path.relative_to(root).parts[:-1]
    module = Module(path)
    lazy_nodes: set[ast.AST] = set()
    getter = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "__getattr__"]
    if getter:
        blocks = [n for n in tree.body if isinstance(n, ast.If) and _is_type_checking(n.test)]
        lazy_nodes = {node for top in (*getter, *blocks) for node in ast.walk(top)}
    for node in ast.walk(tree):
        for name, alias in _names(node, package):
            if node in lazy_nodes:
                module.lazy[alias] = name
            else:
                module.imports.add(name)
    return module


def _is_type_checking(test: ast.expr) -> bool:
    return (test.attr if isinstance(test, ast.Attribute) else getattr(test, "id", "")) == (
        "TYPE_CHECKING"
    )


def _names(node: ast.AST, package: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Full names that an import statement takes, each with what the file calls it."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield alias.name, alias.asname or alias.name.split(".")[0]
    elif isinstance(node, ast.ImportFrom):
        above = package[: len(package) + 1 - node.level] if node.level else ()
        module = ".".join([*above, *([node.module] if node.module else [])])
        for alias in node.names:
            yield f"{module}.{alias.name}", alias.asname or alias.name
