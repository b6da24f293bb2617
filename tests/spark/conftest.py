"""One Spark for all tests of this folder: starting one takes some ten seconds.

Without Java these tests are skipped; with PYRMQ_REQUIRE_INTEROP=1 (CI) that is a failure.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark import jvm_jar, shared_classes
from tests.spark.worker_python import worker_python
from tests.support.thorough import THOROUGH
from tests.system.interop import toolchain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}

if not THOROUGH:  # a quarter less of CPU for these tests; the long form runs Spark as it comes
    for options in ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS"):
        os.environ.setdefault(options, " ".join(toolchain.SHORT_LIVED_JVM))


def _share_classes(make: bool) -> None:
    """For the JVMs that are started from here on."""
    if THOROUGH or not shutil.which("java") or "SharedArchive" in os.environ["SPARK_SUBMIT_OPTS"]:
        return
    settings = [f"{key}={value}" for key, value in SETTINGS.items()]
    options = shared_classes.options(make, settings)
    os.environ["SPARK_SUBMIT_OPTS"] = " ".join([os.environ["SPARK_SUBMIT_OPTS"], *options])


@pytest.fixture(scope="session", autouse=True)
def _shared_classes() -> None:
    _share_classes(make=False)


MINIMUM_JAVA = 17
"""What Spark 4 needs."""
HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """PySpark 4.1 leaves a socket to the garbage collector for each result that it collects."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))


def need_java() -> None:
    """Skips or fails the test that asks, where there is no Java 17 or later."""
    try:
        toolchain.java(MINIMUM_JAVA)
    except toolchain.Missing as problem:
        if toolchain.required():
            pytest.fail(f"Spark cannot run: {problem}", pytrace=False)
        pytest.skip(f"Spark cannot run: {problem}")


READERS = (pytest.param(None, id="python"), pytest.param("jvm", id="jvm"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """What is marked both_readers runs with the source in Python, and with that of the jar. Of the
    proofs the second is in the long form: the tests of e2e/jvm guard what is the jar's."""
    if "reader" in metafunc.fixturenames and metafunc.definition.get_closest_marker("both_readers"):
        both = THOROUGH or "proof" not in metafunc.definition.path.parts
        readers = READERS if both else READERS[:1]
        metafunc.parametrize("reader", readers, indirect=True, scope="session")


@pytest.fixture(scope="session")
def reader(request: pytest.FixtureRequest) -> str:
    """Who reads `format("rocketmq")`: python, or jvm."""
    return getattr(request, "param", None) or "python"


@pytest.fixture(scope="session")
def spark(reader: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session on two cores; nothing is registered, so formats are found by name."""
    need_java()
    from pyspark.sql import SparkSession

    jar = str(jvm_jar.built()) if reader == "jvm" else ""
    jvm_jar.jvm_for(jar)
    _share_classes(make=True)
    home = tmp_path_factory.mktemp("spark")
    os.environ["PYSPARK_PYTHON"] = worker_python()
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.master("local[2]").appName("pyrmq tests")
    folders = {"spark.sql.warehouse.dir": str(home / "warehouse")}
    for key, value in {**SETTINGS, **folders, **({"spark.jars": jar} if jar else {})}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture
def empty_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "empty"
    folder.mkdir()
    return folder
