"""`spark_ext.session`: what it sets, what it leaves as it is, what it says where Java is missing.

A session is made once in a process; tests of a new one run in processes of their own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

import spark_ext
from spark_ext import setup
from spark_ext.setup import ARROW, LOCAL_SETTINGS, SETTINGS, java_version
from tests.spark import bare_python
from tests.spark.conftest import need_java

PYTHON = "spark.pyspark.python"


class System:
    """The properties of a JVM."""

    def __init__(self, **there: str) -> None:
        self.there = there

    def getProperty(self, name: str) -> str | None:
        return self.there.get(name)

    def setProperty(self, name: str, value: str) -> None:
        self.there[name] = value


def prepared(
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, str],
    there: dict[str, str],
    remote: str = "",
) -> dict[str, str]:
    """The properties after a session was prepared."""
    system = System(**there)
    jvm = SimpleNamespace(java=SimpleNamespace(lang=SimpleNamespace(System=system)))
    monkeypatch.setattr(setup, "_start", lambda settings: jvm)
    setup._prepare(options, remote)
    return system.there


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "x")
    monkeypatch.delenv("PYSPARK_PYTHON")
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)


def test_what_a_new_session_gets(monkeypatch: pytest.MonkeyPatch) -> None:
    assert prepared(monkeypatch, {}, {}) == SETTINGS | ARROW | LOCAL_SETTINGS
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    assert prepared(monkeypatch, {}, {}, remote="local[2]") == SETTINGS | ARROW | LOCAL_SETTINGS
    assert prepared(monkeypatch, {"spark.master": "spark://a:7077"}, {}) == SETTINGS
    there = {"spark.master": "yarn"}
    assert prepared(monkeypatch, {}, there) == there | SETTINGS


def test_what_was_set_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    own = dict.fromkeys([*SETTINGS, *LOCAL_SETTINGS, *ARROW], "own")
    assert prepared(monkeypatch, {}, own) == own
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    monkeypatch.setenv("ARROW_ENABLE_UNSAFE_MEMORY_ACCESS", "false")
    safe = {k: v for k, v in ARROW.items() if k != "arrow.enable_unsafe_memory_access"}
    assert prepared(monkeypatch, {}, {}) == SETTINGS | safe


@pytest.mark.parametrize(
    ("variable", "option", "there", "found"),
    [
        ("/variable", None, None, "/variable"),
        ("/variable", "/option", "/there", "/option"),
        ("/variable", None, "/there", "/there"),
        (None, "/option", None, "/option"),
    ],
)
def test_who_says_which_python(
    monkeypatch: pytest.MonkeyPatch,
    variable: str | None,
    option: str | None,
    there: str | None,
    found: str,
) -> None:
    if variable:
        monkeypatch.setenv("PYSPARK_PYTHON", variable)
    prepared(monkeypatch, {PYTHON: option} if option else {}, {PYTHON: there} if there else {})
    assert os.environ["PYSPARK_PYTHON"] == found


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_402"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ("what?", None),
    ],
)
def test_versions_of_java(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, line: str, version: int | None
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho '{line}' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert java_version() == version


RUN = """
import json, sys
import spark_ext
from pyspark.sql import SparkSession
builder = SparkSession.builder
for name, value in json.loads(sys.argv[1]).items():
    builder = builder.config(name, value)
try:
    spark = spark_ext.session(builder)
except spark_ext.SparkSetupError as error:
    print("SETUP:", error)
else:
    print("CONF:", json.dumps({name: spark.conf.get(name, None) for name in sys.argv[2:]}))
    print("AGAIN:", spark_ext.session() is spark)
"""


def run(options: dict[str, str], *names: str, **environment: str) -> str:
    left_out = ("PYSPARK_PYTHON", "SPARK_LOCAL_IP")
    clean = {key: value for key, value in os.environ.items() if key not in left_out}
    done = subprocess.run(
        [sys.executable, "-c", RUN, json.dumps(options), *names],
        capture_output=True,
        text=True,
        env={**clean, **environment},
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    return done.stdout


def test_no_java_and_an_old_one(tmp_path: Path) -> None:
    none = {"PATH": str(tmp_path), "JAVA_HOME": ""}
    assert "SETUP: Spark needs Java 17 or later: install one" in run({}, **none)
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.1\"' >&2\n[ $1 = -version ]\n")
    java.chmod(0o755)
    assert "SETUP: Spark needs Java 17 or later and found 11" in run({}, JAVA_HOME=str(tmp_path))


def test_a_session_that_was_stopped() -> None:
    stopped: Any = SimpleNamespace(sparkContext=SimpleNamespace(_jsc=None))
    with pytest.raises(spark_ext.SparkSetupError, match="was stopped"):
        spark_ext.register(stopped)


def test_the_session_that_there_is(spark: SparkSession) -> None:
    assert spark_ext.session() is spark
    assert spark_ext.session(SparkSession.builder.appName("another")) is spark


@pytest.mark.slow
@pytest.mark.thorough("a JVM; the parts are tested above")
def test_settings_of_a_file_stay(tmp_path: Path) -> None:
    need_java()
    socket, arrow = SETTINGS
    (tmp_path / "spark-defaults.conf").write_text(f"{socket} false\n")
    text = run({arrow: "false"}, socket, arrow, "spark.driver.host", SPARK_CONF_DIR=str(tmp_path))
    (conf,) = (line for line in text.splitlines() if line.startswith("CONF:"))
    found = json.loads(conf.removeprefix("CONF:"))
    assert found == {socket: "false", arrow: "false", "spark.driver.host": "127.0.0.1"}
    assert "AGAIN: True" in text


@pytest.mark.slow
@pytest.mark.thorough("a JVM; the text is tested in test_interpreter.py")
@pytest.mark.parametrize("remote", ["", "local[2]"])
def test_a_python_without_the_wheel(tmp_path: Path, remote: str) -> None:
    need_java()
    if remote:
        pytest.importorskip("grpc_status")
    bare = bare_python.for_spark(bare_python.make(tmp_path / "bare"))
    variables = {"SPARK_REMOTE": remote} if remote else {}
    text = run({}, PYSPARK_PYTHON=str(bare), **variables)
    assert "SETUP: " in text
    assert "pip install 'pyrmq-broker[spark]==" in text
