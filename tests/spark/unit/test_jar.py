"""`spark_ext.jar`: whether the jar fits, and how a session gets it beside the jars of the user."""

from __future__ import annotations

import platform
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pyspark
import pytest

from spark_ext import jar, setup
from spark_ext.errors import SparkSetupError
from spark_ext.option_table import SECRETS

JAVA = Path(__file__).resolve().parents[3] / "spark_jvm/src/main/java/pyrmq/spark"


@pytest.fixture
def packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A jar with a library for x86_64, on such a machine with glibc."""
    path = tmp_path / "pyrmq-spark.jar"
    with zipfile.ZipFile(path, "w") as made:
        made.writestr(jar.LIBRARY.format("x86_64"), b"")
    monkeypatch.setattr(jar, "PATH", path)
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(platform, "libc_ver", lambda: ("glibc", "2.36"))
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.delenv("PYSPARK_SUBMIT_ARGS", raising=False)
    monkeypatch.setattr(pyspark, "__version__", "4.3.0")
    return path


def java_list(file: str, name: str) -> list[str]:
    """The texts of a constant in Java."""
    found = re.search(rf"{name} =\s+List\.of\(([^)]*)\)", (JAVA / file).read_text("utf-8"))
    assert found is not None
    return re.findall(r'"([^"]+)"', found[1])


def test_java_says_the_same() -> None:
    """What Java decides before it asks the engine."""
    assert java_list("SparkLine.java", "KNOWN") == [f"{line}." for line in jar.LINES]
    secrets = {*java_list("Options.java", "SECRETS"), "storageOptions"}
    assert secrets == {*SECRETS, "storageOptions"}


def test_it_fits(packed: Path) -> None:
    assert all(jar.why_not(f"{line}.1") is None for line in jar.LINES)
    assert jar.path() == str(packed)


@pytest.mark.parametrize("version", ["4.0.3", "4.30.1", "5.0.0", "3.5.8"])
def test_another_spark(packed: Path, version: str) -> None:
    assert jar.why_not(version) == f"the jar is for Spark 4.1, 4.2, 4.3, this is Spark {version}"


def test_another_machine(packed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    assert jar.why_not("4.3.0") == "the jar has no native library for riscv64"
    monkeypatch.setattr(platform, "libc_ver", lambda: ("", ""))
    assert jar.why_not("4.3.0") == "the jar's native library is for Linux with glibc"


def test_no_jar(packed: Path) -> None:
    packed.unlink()
    assert jar.settings("auto", {}) == {}
    with pytest.raises(SparkSetupError, match="cannot be used: this installation has no jar"):
        jar.settings("jvm", {})
    with pytest.raises(SparkSetupError, match="`make jar` builds it"):
        jar.path()


def test_a_new_session_gets_it(packed: Path) -> None:
    for reader in ("auto", "jvm"):
        assert jar.settings(reader, {}) == {"spark.jars": str(packed)}
    assert jar.settings("python", {}) == {}
    with pytest.raises(SparkSetupError, match="reader: 'java', expected auto, jvm, python"):
        jar.settings("java", {})


def test_the_users_jars_stay(packed: Path) -> None:
    assert jar.settings("auto", {"spark.jars": "/a.jar, /b.jar"}) == {
        "spark.jars": f"/a.jar, /b.jar,{packed}"
    }


@pytest.mark.parametrize(
    "line", ["spark.jars /c.jar", "  spark.jars=/c.jar", "spark.jars : /c.jar "]
)
def test_those_of_the_defaults_stay(packed: Path, line: str) -> None:
    text = f"# spark.jars /no.jar\nspark.jars.packages a:b:c\n{line}\n"
    (packed.parent / "spark-defaults.conf").write_text(text)
    assert jar.settings("auto", {}) == {"spark.jars": f"/c.jar,{packed}"}


def test_jars_of_submit_args_are_not_lost(packed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--jars /d.jar pyspark-shell")
    assert jar.settings("auto", {}) == {}
    with pytest.raises(SparkSetupError, match=f"has --jars: add {packed} to that list"):
        jar.settings("jvm", {})


def test_the_jvm_starts_with_it(packed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[dict[str, str]] = []

    class Stop(Exception):
        pass

    def start(settings: dict[str, str]) -> None:
        started.append(settings)
        raise Stop

    monkeypatch.setattr(setup, "_start", start)
    with pytest.raises(Stop):
        setup._prepare({"spark.app.name": "x"}, "", "auto")
    assert started == [{"spark.app.name": "x", "spark.jars": str(packed)}]


def test_the_command_says_what_is_missing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "spark_ext"], capture_output=True, text=True, check=False
    )
    if jar.PATH.is_file():
        assert done.stdout.strip() == str(jar.PATH)
    else:
        assert done.returncode == 1
        assert done.stderr.startswith("spark_ext: this installation has no jar")
