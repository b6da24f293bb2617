"""What is found out about the Python of the workers, without a Spark."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pyrmq import __version__
from spark_ext import interpreter
from spark_ext.errors import SparkSetupError
from spark_ext.interpreter import is_local, trouble_of


def told(folder: Path, text: str) -> Path:
    """A command that tells this when it is asked what it has."""
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_this_python_is_good() -> None:
    assert trouble_of(sys.executable) is None


@pytest.mark.parametrize(
    ("says", "trouble"),
    [
        ('{"python": [3, 99], "pyrmq": "1"}', "is Python 3.99, this program's is 3."),
        (
            '{"python": OWN, "pyrmq": "0.0.1"}',
            f"has pyrmq-broker 0.0.1, this program has {__version__}",
        ),
        ('{"python": OWN, "pyrmq": "VERSION", "missing": "No x\\u001b"}', r"[spark] (No x\x1b)"),
        ("", "does not start"),
    ],
)
def test_another_python(tmp_path: Path, says: str, trouble: str) -> None:
    text = says.replace("OWN", str(list(sys.version_info[:2]))).replace("VERSION", __version__)
    path = told(tmp_path, f"printf '%s' '{text}'")
    found = trouble_of(str(path))
    assert found is not None
    assert f"{path}, which " in found
    assert trouble in found
    assert f"pip install 'pyrmq-broker[spark]=={__version__}'" in found
    assert f"here {sys.executable};" in found


def test_a_python_that_is_as_it_should_be(tmp_path: Path) -> None:
    own = list(sys.version_info[:2])
    path = told(tmp_path, f"""echo '{{"python": {own}, "pyrmq": "{__version__}"}}'""")
    assert trouble_of(str(path)) is None


def test_a_python_that_fails_or_is_not_there(tmp_path: Path) -> None:
    found = trouble_of(str(told(tmp_path, "exit 3")))
    assert "does not start" in str(found)
    assert "/no/such, which is not there" in str(trouble_of("/no/such"))


def test_who_chose_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def choose(command: str, master: str) -> str:
        context: Any = SimpleNamespace(pythonExec=command, master=master)
        return interpreter.for_source(context)

    monkeypatch.setattr(interpreter, "trouble_of", lambda command: "trouble")
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    assert choose("python3", "local[*]") == choose("python3", "local") == sys.executable
    for command, master in (("/chosen", "local[*]"), ("python3", "spark://host:7077")):
        with pytest.raises(SparkSetupError, match="trouble"):
            choose(command, master)
    monkeypatch.setenv("PYSPARK_PYTHON", "python3")
    with pytest.raises(SparkSetupError, match="trouble"):
        choose("python3", "local[*]")
    monkeypatch.setattr(interpreter, "trouble_of", lambda command: None)
    assert choose("python3", "spark://host:7077") == "python3"


def test_masters() -> None:
    assert is_local("local")
    assert is_local("local[2]")
    assert not is_local("local-cluster[2,1,1024]")
    assert not is_local("spark://host:7077")
