"""Workers without the wheel, or with another one, say what to install; and gc.freeze."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pyspark import cloudpickle
from pyspark.sql.datasource import InputPartition

from pyrmq import __version__
from spark_ext import worker
from tests.spark import bare_python

LOAD = "import pickle, sys; print(pickle.load(open(sys.argv[1], 'rb')).value)"


class Piece(worker.VersionCheckedPickle, InputPartition):
    pass


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bare_python.make(tmp_path_factory.mktemp("bare") / "venv")


@pytest.fixture
def pickled(tmp_path: Path) -> str:
    file = tmp_path / "pickled"
    file.write_bytes(cloudpickle.dumps(Piece({"a": 1})))
    return str(file)


def test_what_is_shipped_comes_back(pickled: str) -> None:
    with open(pickled, "rb") as file:
        back = cloudpickle.load(file)
    assert isinstance(back, Piece)
    assert back.value == {"a": 1}


def test_a_worker_without_the_wheel_says_what_to_install(bare: Path, pickled: str) -> None:
    done = bare_python.run(bare, LOAD, pickled)
    assert done.returncode != 0
    assert "No module named 'spark_ext'" in done.stderr
    assert f"pip install 'pyrmq-broker[spark]=={__version__}'" in done.stderr
    assert str(bare) in done.stderr
    assert "PYSPARK_PYTHON" in done.stderr


def test_a_worker_with_another_version_says_both(bare: Path, pickled: str, tmp_path: Path) -> None:
    for package, text in {"pyrmq": "__version__ = '0.0.1'\n", "spark_ext": ""}.items():
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text(text)
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {LOAD}"
    done = bare_python.run(bare, code, pickled)
    assert done.returncode != 0
    assert f"has pyrmq-broker 0.0.1, the driver has {__version__}" in done.stderr


def test_garbage_is_frozen_once_per_process() -> None:
    code = (
        "import gc\n"
        "from spark_ext import worker\n"
        "worker.prepare()\n"
        "assert gc.get_freeze_count() > 10_000, gc.get_freeze_count()\n"
        "gc.unfreeze()\n"
        "worker.prepare()\n"
        "assert gc.get_freeze_count() == 0\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


@pytest.mark.parametrize("package", ["spark_ext", "pyspark_rocketmq", "pyspark_pyrmq"])
def test_packages_are_light(package: str) -> None:
    """PySpark imports them to find formats; what is heavy comes when a query needs it."""
    heavy = ["pyarrow", "numpy", "trio", "pyrmq._native", "pyrmq.engine"]
    code = f"import sys, {package}; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.strip() == "[]"


def test_without_pyspark_the_packages_found_by_name_do_not_raise() -> None:
    code = (
        "import sys\n"
        "sys.modules['pyspark'] = None\n"
        "import importlib.util as util\n"
        "find = util.find_spec\n"
        "util.find_spec = lambda name, *a: None if name == 'pyspark' else find(name, *a)\n"
        "import pyspark_rocketmq, pyspark_pyrmq\n"
        "assert not hasattr(pyspark_rocketmq, 'DefaultSource')\n"
        "assert not hasattr(pyspark_pyrmq, 'DefaultSource')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
