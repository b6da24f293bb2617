"""PyRMQ, which has an import package `pyrmq` as well, is noticed and told."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import pyrmq
from pyrmq import installation

PACKAGE = Path(pyrmq.__file__).parent
PYRMQ_S_OWN = "class Publisher: pass\n"


def site(folder: Path, init: str | None, version: str | None = "4.0.0") -> Path:
    """A site-packages with this package, another `__init__.py` (None: none), and PyRMQ."""
    (folder / "pyrmq").mkdir(parents=True)
    for file in PACKAGE.iterdir():
        if file.name != "__pycache__":
            (folder / "pyrmq" / file.name).symlink_to(file)
    if init != "ours":
        (folder / "pyrmq/__init__.py").unlink()
    if init not in ("ours", None):
        (folder / "pyrmq/__init__.py").write_text(init)
    if version:
        (folder / f"PyRMQ-{version}.dist-info").mkdir()
    return folder


def run(folder: Path, *words: str) -> tuple[int, str, str]:
    """A Python that has this folder, and of this environment only the packages we need: no path
    file, as an installation for development has one."""
    paths = [str(folder), *(path for path in sys.path if path.endswith("site-packages"))]
    done = subprocess.run(
        [sys.executable, "-S", *words],
        cwd=folder,
        env={"PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("pyrmq-4.0.0.dist-info", "4.0.0"),
        ("PyRMQ-3.4.5.dist-info", "3.4.5"),
        ("pyrmq-4.1.0rc1.dist-info", "4.1.0rc1"),
        ("PyRMQ-1.0.0-py3.11.egg-info", "1.0.0"),
        ("pyrmq_broker-0.1.0.dist-info", None),
        ("pyrmq-broker-0.1.0.dist-info", None),
        ("pyrmq", None),
        ("pyrmq-4.0.0.dist-info.bak", None),
    ],
)
def test_which_folders_are_those_of_pyrmq(tmp_path: Path, name: str, version: str | None) -> None:
    (tmp_path / "trio-0.30.0.dist-info").mkdir()
    (tmp_path / name).mkdir()
    archive = tmp_path / "python311.zip"
    archive.touch()
    assert installation.other_version([str(archive), "/not/there", str(tmp_path)]) == version


def test_here_nothing_is_wrong() -> None:
    """Neither in this environment, nor with `sys.path` and `sys.modules` as they are."""
    assert installation.problem() is None
    assert installation.problem([], pyrmq) is None


def test_what_is_said() -> None:
    theirs = ModuleType("pyrmq")
    theirs.__file__ = "/site/pyrmq/__init__.py"
    assert (found := installation.problem([], theirs)) is not None
    assert found.startswith("/site/pyrmq/__init__.py is not pyrmq-broker's: PyRMQ,")
    assert (found := installation.problem([], ModuleType("pyrmq"))) is not None
    assert found.startswith(f"{PACKAGE}/__init__.py is missing")


def test_a_text_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "_told", set())
    assert installation.untold("both") == f"both. {installation.MEND}"
    assert installation.untold("both") is None
    assert installation.untold(None) is None


def test_it_came_before_us(tmp_path: Path) -> None:
    """Our names are there, and theirs are lost. The command line says so, once; imports do not."""
    code, out, errors = run(site(tmp_path, "ours"), "-m", "pyrmq", "completion", "bash")
    assert code == 0
    assert "_PYRMQ_COMPLETE" in out
    assert errors.count("\n") == 1
    assert errors.startswith("warning: PyRMQ 4.0.0, a RabbitMQ client")
    assert "pip uninstall PyRMQ" in errors
    code, _, errors = run(
        tmp_path, "-W", "error", "-c", "from pyrmq import Message; import pyrmq.aio"
    )
    assert (code, errors) == (0, "")


def test_it_came_after_us(tmp_path: Path) -> None:
    """Theirs is imported. What is left of ours works and warns."""
    folder = site(tmp_path, PYRMQ_S_OWN)
    code, out, errors = run(
        folder, "-c", "import pyrmq.aio; print(pyrmq.Publisher, pyrmq.aio.Producer)"
    )
    assert code == 0
    assert "pyrmq.Publisher" in out
    assert (
        f"RuntimeWarning: {folder}/pyrmq/__init__.py is not pyrmq-broker's: PyRMQ 4.0.0" in errors
    )
    assert errors.count("is not pyrmq-broker's") == 1
    code, out, errors = run(folder, "-m", "pyrmq", "completion", "bash")
    assert code == 0
    assert errors.startswith(f"warning: {folder}/pyrmq/__init__.py is not pyrmq-broker's")
    assert errors.count("is not pyrmq-broker's") == 1


def test_it_was_uninstalled_after_us(tmp_path: Path) -> None:
    """pip removes the file that both had."""
    folder = site(tmp_path, None, version=None)
    code, _, errors = run(folder, "-c", "import pyrmq.sync")
    assert code == 0
    assert f"RuntimeWarning: {folder}/pyrmq/__init__.py is missing" in errors
