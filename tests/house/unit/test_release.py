"""The workflow of releases builds what pyproject.toml promises, and publishes what was tried."""

from __future__ import annotations

import importlib
import re
import sys
import tomllib
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from pyrmq.doctor.versions import NEWEST, OLDEST
from pyrmq.version import __version__

ROOT = Path(__file__).resolve().parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PYTHONS = [
    text.removeprefix("Programming Language :: Python :: ")
    for text in PROJECT["classifiers"]
    if re.fullmatch(r"Programming Language :: Python :: 3\.\d+", text)
]


@pytest.fixture
def wheels(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    return importlib.import_module("wheels")


@pytest.fixture(scope="module")
def jobs() -> dict[str, Any]:
    text = (ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8")
    found: dict[str, Any] = yaml.safe_load(text)["jobs"]
    return found


def steps(job: dict[str, Any]) -> str:
    return "\n".join(str(step.get("run", step.get("uses"))) for step in job["steps"])


def test_versions_of_python_are_the_same_everywhere(
    wheels: ModuleType, jobs: dict[str, Any]
) -> None:
    assert list(wheels.PYTHONS) == PYTHONS
    assert tuple(tuple(map(int, version.split("."))) for version in (PYTHONS[0], PYTHONS[-1])) == (
        OLDEST,
        NEWEST,
    )
    for name in ("wheels", "try"):
        matrix = jobs[name]["strategy"]["matrix"]
        assert matrix["python"] == PYTHONS
        assert matrix["cpu"] == list(wheels.CPUS)
        assert [one["cpu"] for one in matrix["include"]] == list(wheels.CPUS)
    assert f'"{len(wheels.CPUS) * len(PYTHONS)} 1"' in steps(jobs["publish"])


def test_nothing_is_published_that_was_not_tried(jobs: dict[str, Any]) -> None:
    """And only of a tag, by the one job that may say who we are."""
    assert set(jobs["publish"]["needs"]) == {"wheels", "sdist", "try", "tests"}
    assert "ref_type == 'tag'" in jobs["publish"]["if"]
    assert [name for name, job in jobs.items() if "permissions" in job] == ["publish"]
    assert "wheel_try.py" in steps(jobs["try"])
    assert "attest-build-provenance" in steps(jobs["publish"])
    assert "gh-action-pypi-publish" in steps(jobs["publish"])


def test_the_version_stands_in_three_files() -> None:
    cargo = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))
    assert PROJECT["version"] == __version__ == cargo["workspace"]["package"]["version"]


def test_tools_of_wheels_fit_the_build(wheels: ModuleType) -> None:
    """`make wheels` builds with versions that pyproject.toml allows for a build."""
    pins = dict(
        line.split("==")
        for line in (ROOT / "scripts/wheels.txt").read_text(encoding="utf-8").splitlines()
        if not line.startswith("#")
    )
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    for requirement in project["build-system"]["requires"]:
        name, least = requirement.split(",")[0].split(">=")
        have = tuple(map(int, pins[name].split(".")))
        assert have >= tuple(map(int, least.split("."))), name


def test_a_python_is_found_by_its_version(wheels: ModuleType) -> None:
    assert wheels.Python.asked("/not/there", "3.12") is None
    assert wheels.Python.asked("false", "3.12") is None
    version = "{}.{}".format(*sys.version_info[:2])
    found = wheels.Python.asked(sys.executable, version)
    assert found is not None
    assert found.tag == f"cp{version.replace('.', '')}"
    assert wheels.Python.asked(sys.executable, "3.10") is None


def test_a_jar_that_lacks_the_library_of_a_cpu(wheels: ModuleType, tmp_path: Path) -> None:
    jar = tmp_path / "pyrmq-spark.jar"
    with pytest.raises(wheels.Unable, match="is missing: make jar PYRMQ_JAR_CPUS"):
        wheels.check_jar(jar)
    with zipfile.ZipFile(jar, "w") as file:
        file.writestr("native/linux-x86_64/libpyrmq_jvm.so", "")
    with pytest.raises(wheels.Unable, match="no library for aarch64"):
        wheels.check_jar(jar)
