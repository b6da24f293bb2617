"""The check of wheels finds what it is there for."""

from __future__ import annotations

import importlib
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

SCRIPTS = Path(__file__).resolve().parents[3] / "scripts"
NAME = "pyrmq_broker-0.1.0-cp312-cp312-manylinux_2_17_aarch64.whl"
FILES = (
    "pyrmq/__init__.py",
    "pyrmq/console/templates/base.html",
    "pyrmq/deploy/docker/Dockerfile",
    "spark_ext/__init__.py",
)
MODULES = (
    "pyrmq/_native.cpython-312-aarch64-linux-gnu.so",
    "pyrmq/engine.cpython-312-aarch64-linux-gnu.so",
)


@pytest.fixture
def check(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    return importlib.import_module("wheel_contents")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    built = ("pyrmq/engine.cpython-311-x86_64-linux-gnu.so", "spark_ext/jars/.lock")
    for name in (*FILES, *built, "pyrmq/__pycache__/x.pyc"):
        (tmp_path / "source" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "source" / name).touch()
    return tmp_path / "source"


def wheel(source: Path, names: set[str], name: str = NAME) -> Path:
    with zipfile.ZipFile(source.parent / name, "w") as file:
        for one in sorted(names):
            file.writestr(one, "")
    return source.parent / name


GOOD = {*FILES, *MODULES, "pyrmq_broker-0.1.0.dist-info/METADATA"}


def test_a_good_wheel(check: ModuleType, source: Path) -> None:
    assert list(check.faults(wheel(source, GOOD), source)) == []


@pytest.mark.parametrize("name", [*FILES, *MODULES])
def test_a_file_that_is_missing(check: ModuleType, source: Path, name: str) -> None:
    assert list(check.faults(wheel(source, GOOD - {name}), source)) == [f"it lacks {name}"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("pyrmq/engine.cpython-311-x86_64-linux-gnu.so", "for another Python or CPU"),
        ("pyrmq/engine.cpython-312-x86_64-linux-gnu.so", "for another Python or CPU"),
        ("third_party/LICENSE", "installed beside the packages"),
        ("pyrmq/__pycache__/x.cpython-312.pyc", "it has pyrmq/__pycache__"),
    ],
)
def test_a_file_too_many(check: ModuleType, source: Path, name: str, said: str) -> None:
    (found,) = check.faults(wheel(source, GOOD | {name}), source)
    assert said in found


@pytest.mark.parametrize(
    "name",
    [
        "pyrmq_broker-0.1.0-py3-none-any.whl",
        "pyrmq_broker-0.1.0-cp312-abi3-manylinux_2_17_aarch64.whl",
        "pyrmq_broker-0.1.0-cp312-cp311-manylinux_2_17_aarch64.whl",
    ],
)
def test_the_name_of_another_kind_of_wheel(check: ModuleType, source: Path, name: str) -> None:
    (found,) = check.faults(wheel(source, GOOD, name), source)
    assert "its name" in found


def test_what_a_released_wheel_must_have(
    check: ModuleType, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And which glibc it may need: more than its name says is a fault."""
    monkeypatch.setattr(check, "audited", lambda _: "manylinux_2_34_aarch64")
    found = list(check.faults_of_released(wheel(source, GOOD), jar=True))
    assert [text.partition(" ")[2] for text in found] == [
        "lacks spark_ext/jars/pyrmq-spark.jar",
        "has no list of its crates (SBOM)",
        r"lacks the licence LICENSE",
        r"lacks the licence THIRD_PARTY\.md",
        r"lacks the licence third_party/rustls-[^/]+/LICENSE.*",
        "says that it fits manylinux_2_34_aarch64",
    ]


@pytest.mark.parametrize(
    ("name", "needs", "fits"),
    [
        ("manylinux_2_17_aarch64.manylinux2014_aarch64", "manylinux_2_17_aarch64", True),
        ("manylinux_2_17_aarch64", "manylinux_2_5_aarch64", True),
        ("manylinux_2_17_aarch64", "manylinux_2_18_aarch64", False),
        ("manylinux_2_17_aarch64", "linux_aarch64", False),
        ("linux_aarch64", "manylinux_2_17_aarch64", False),
    ],
)
def test_the_glibc_that_a_wheel_needs(
    check: ModuleType,
    source: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    needs: str,
    fits: bool,
) -> None:
    monkeypatch.setattr(check, "audited", lambda _: needs)
    made = wheel(source, GOOD, f"pyrmq_broker-0.1.0-cp312-cp312-{name}.whl")
    found = [text for text in check.faults_of_released(made, jar=False) if "auditwheel" in text]
    assert found == ([] if fits else [f"auditwheel says that it fits {needs}"])


def test_the_list_of_crates_and_the_platform_of_a_released_wheel(
    check: ModuleType, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "audited", lambda _: "manylinux_2_17_aarch64")
    made = wheel(source, GOOD | {"spark_ext/jars/pyrmq-spark.jar"})
    info = "pyrmq_broker-0.1.0.dist-info"
    with zipfile.ZipFile(made, "a") as file:
        for name in ("LICENSE", "THIRD_PARTY.md", "third_party/rustls-0.23.1/LICENSE-MIT"):
            file.writestr(f"{info}/licenses/{name}", "")
        file.writestr(
            f"{info}/sboms/pyrmq-native.cyclonedx.json",
            '{"components": [{"name": "pyo3"}, {"name": "rustls"}]}',
        )
    assert list(check.faults_of_released(made, jar=True)) == []
