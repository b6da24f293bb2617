"""The names that `pyrmq` exports: one table, the same for type checkers, loaded when asked for."""

from __future__ import annotations

import ast
import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import pyrmq
from pyrmq import client, errors

PACKAGE = Path(pyrmq.__file__).parent
TREE = ast.parse(Path(pyrmq.__file__).read_text(encoding="utf-8"))
ALL: list[str] = pyrmq.__all__  # type: ignore[attr-defined]
HOME: dict[str, str] = pyrmq._HOME
MODULES: tuple[str, ...] = pyrmq._MODULES


def type_side() -> dict[str, str]:
    """What is imported under TYPE_CHECKING: the module of each name."""
    (block,) = (node for node in TREE.body if isinstance(node, ast.If))
    found = {}
    for node in block.body:
        assert isinstance(node, ast.ImportFrom)
        for name in node.names:
            assert name.name == name.asname, f"import {name.name} as {name.name}: exported so"
            assert name.name not in found
            found[name.name] = str(node.module)
    return found


def test_table_and_type_side_are_the_same() -> None:
    assert type_side() == {**HOME, **dict.fromkeys(MODULES, "pyrmq")}


def test_all_is_the_table() -> None:
    assert sorted({*HOME, *MODULES, "__version__"}) == ALL
    assert set(ALL) <= set(dir(pyrmq))


@pytest.mark.parametrize("name", ALL)
def test_each_name_resolves(name: str) -> None:
    found = getattr(pyrmq, name)
    if name in HOME:
        assert found is getattr(importlib.import_module(HOME[name]), name)
        assert found.__module__.startswith(HOME[name]), "from the module that defines it"
        assert inspect.getdoc(found), f"{name} has no docstring"
    assert vars(pyrmq)[name] is found, "asked for once, it is there"


def is_own(cls: type) -> bool:
    return cls.__module__ == errors.__name__


def test_every_error_is_exported() -> None:
    own = {
        n
        for n, v in vars(errors).items()
        if inspect.isclass(v) and issubclass(v, BaseException) and v.__module__ == "pyrmq.errors"
    }
    assert own == {n for n, module in HOME.items() if module == "pyrmq.errors"}


def test_names_that_there_are_not() -> None:
    with pytest.raises(AttributeError, match="Prodcer"):
        _ = pyrmq.Prodcer  # type: ignore[attr-defined]
    with pytest.raises(ImportError, match="Prodcer"):
        from pyrmq import Prodcer  # type: ignore[attr-defined]  # noqa: F401


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout


def test_importing_pyrmq_loads_nothing_else() -> None:
    loaded = set(run("import sys, pyrmq; print(*sys.modules)").split())
    assert {name for name in loaded if name.startswith("pyrmq")} == {"pyrmq", "pyrmq.version"}
    assert loaded.isdisjoint({"trio", "numpy", "pyarrow", "sqlalchemy", "click", "asyncio"})


def test_a_producer_needs_no_broker() -> None:
    loaded = set(run("import sys; from pyrmq import Producer; print(*sys.modules)").split())
    assert loaded.isdisjoint({"numpy", "pyarrow", "sqlalchemy", "click", "pyrmq.broker"})


def test_testing_is_an_attribute() -> None:
    assert "broker" in run("import pyrmq; print(pyrmq.testing.broker.__name__)")


def test_without_the_extra_the_rest_is_there() -> None:
    code = (
        "import sys; sys.modules['sqlalchemy'] = None\n"
        "from pyrmq import *\n"
        "assert 'Outbox' not in globals() and 'Producer' in globals()\n"
        "import pyrmq\n"
        "try:\n    pyrmq.Outbox\n"
        "except ModuleNotFoundError as e:\n    print(e)\n"
    )
    assert "pip install 'pyrmq-broker[outbox]'" in run(code)


def test_no_module_of_the_package_imports_from_here() -> None:
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.name == "__init__.py" and path.parent == PACKAGE:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [n.name for n in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [str(node.module)]
            if "pyrmq" in names:
                found.append(f"{path}:{node.lineno}")
    assert found == [], "import from the module that defines the name"


def test_the_version_is_that_of_the_project() -> None:
    import tomllib

    project = Path(__file__).resolve().parents[3] / "pyproject.toml"
    assert tomllib.loads(project.read_text())["project"]["version"] == pyrmq.__version__


def test_clients_are_loaded_when_they_are_asked_for() -> None:
    assert set(client.__all__) == set(client._HOME)
    for name in client.__all__:
        assert getattr(client, name) is getattr(pyrmq, name)
    with pytest.raises(AttributeError, match="has no attribute 'Produce'"):
        client.Produce  # noqa: B018
    program = "import sys, pyrmq.client; assert 'trio' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)
