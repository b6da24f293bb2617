"""The layer check finds what it is there for."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "check_layers.py"


@pytest.fixture
def check(tmp_path: Path) -> ModuleType:
    """The script, looking at a package of the test's own."""
    spec = importlib.util.spec_from_file_location("check_layers_under_test", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.ROOT = tmp_path / "pyrmq"
    return module


def plant(check: ModuleType, path: str, text: str) -> list[str]:
    file: Path = check.ROOT / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    found: list[str] = check.faults()
    return found


@pytest.mark.parametrize(
    "text",
    [
        "import pyrmq.broker",
        "import pyrmq.broker.send as send",
        "from pyrmq.broker import send",
        "from pyrmq.broker.send import X",
        "from pyrmq import broker",
        "def f():\n    from pyrmq.broker import send",
        "class A:\n    def f(self):\n        import os, pyrmq.broker.send",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from pyrmq.broker import send",
        "from ..broker import send",
        "from .. import broker",
    ],
)
def test_an_upward_import(check: ModuleType, text: str) -> None:
    (fault,) = plant(check, "net/x.py", text)
    assert "net/x.py" in fault
    assert "broker" in fault


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("model/x.py", "net"), ("errors.py", "model"), ("engine.py", "net"), ("net/x.py", "cli"),
        ("broker/x.py", "namesrv"), ("client/x.py", "broker"), ("broker/a/b.py", "server"),
        ("server.py", "testing"), ("demo.py", "cli"),
    ],
)  # fmt: skip
def test_every_layer(check: ModuleType, path: str, target: str) -> None:
    assert len(plant(check, path, f"from pyrmq.{target} import x")) == 1


@pytest.mark.parametrize(
    "text",
    [
        "from pyrmq.net import server\nfrom pyrmq.broker.fields import text\nimport pyrmq.errors",
        "from . import fields\nfrom .fields import text",
        "import pyrmqx.cli\nimport trio",
        "x = 'from pyrmq.cli import main'",
    ],
)
def test_what_is_allowed(check: ModuleType, text: str) -> None:
    assert plant(check, "broker/x.py", text) == []


def test_native_code_has_one_door(check: ModuleType) -> None:
    (fault,) = plant(check, "cli/x.py", "from pyrmq import _native")
    assert "_native" in fault


@pytest.mark.parametrize("text", ["import pyspark", "def f():\n    from spark_ext import jobs"])
def test_spark_has_one_door(check: ModuleType, text: str) -> None:
    assert plant(check, "cli/pipeline.py", text) == []
    (fault,) = plant(check, "segments/x.py", text)
    assert "cli/pipeline.py" in fault


def test_a_module_in_no_layer(check: ModuleType) -> None:
    (fault,) = plant(check, "novel/x.py", "")
    assert "novel" in fault


def test_the_product_has_no_fault(check: ModuleType) -> None:
    check.ROOT = SCRIPT.parent.parent / "pyrmq"
    assert check.faults() == []
