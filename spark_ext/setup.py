"""A Spark session with what the source needs and what pays, where the user has not said otherwise.

What is set is in docs/spark.md, "Session settings". A setting of the builder, of spark-submit or
of spark-defaults.conf always wins.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_ext import jar
from spark_ext.errors import SparkSetupError
from spark_ext.interpreter import is_local
from spark_ext.registration import register

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
"""What a new session gets."""
LOCAL_SETTINGS = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
"""What a new session on this machine alone gets as well."""
ARROW = {
    "arrow.enable_unsafe_memory_access": "true",
    "arrow.enable_null_check_for_get": "false",
}
"""Properties of such a session's JVM: Spark asks for nulls and rows itself before it reads a value,
so that Arrow need not check them once more."""
MINIMUM_JAVA = 17
_OTHER = {
    "jvm": "start the program with spark-submit --jars $(python -m spark_ext)",
    "python": 'start it without the jar, or give a read .option("reader", "python")',
}
log = logging.getLogger(__name__)


def session(builder: SparkSession.Builder | None = None, *, reader: str = "auto") -> SparkSession:
    """The session that there is, or a new one, with the source registered in this thread."""
    try:
        from pyspark import SparkContext
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise SparkSetupError(
            f"PySpark is not installed ({error}): pip install 'pyrmq-broker[spark]'"
        ) from None
    made = SparkSession.builder if builder is None else builder
    options: dict[str, Any] = made._options
    remote = str(options.get("spark.remote") or os.environ.get("SPARK_REMOTE") or "")
    if reader not in jar.READERS:
        raise SparkSetupError(f"reader: {reader!r}, expected {', '.join(jar.READERS)}")
    if SparkContext._active_spark_context is None and not remote.startswith("sc://"):
        _prepare(options, remote, reader)
    spark = made.getOrCreate()
    register(spark)
    _check_reader(spark, reader)
    return spark


def _check_reader(spark: SparkSession, wanted: str) -> None:
    """Logs who reads; SparkSetupError where it is not who was asked for."""
    found = jar.reader_of(spark)
    if found == "jvm":
        jar.check_version(spark)
    if wanted not in ("auto", found):
        have = "has" if found == "jvm" else "does not have"
        raise SparkSetupError(
            f"reader={wanted!r} was asked for, but the JVM of this session runs already and {have} "
            f"the jar on its class path: {_OTHER[wanted]}"
        )
    log.info("format rocketmq is read by the %s reader", found)


def _prepare(options: dict[str, Any], remote: str, reader: str = "python") -> None:
    """Sets what is to be set before there is a SparkContext. Starts the JVM, as only that knows
    the settings of spark-defaults.conf; what is set in it comes behind all that users set."""
    chosen = options.get("spark.pyspark.python")
    os.environ.setdefault("PYSPARK_PYTHON", str(chosen or sys.executable))
    start = {k: str(v) for k, v in options.items() if k != "spark.remote"}
    system = _start(start | jar.settings(reader, options)).java.lang.System
    chosen = chosen or system.getProperty("spark.pyspark.python")
    if chosen:  # as in spark-submit, where the setting comes before the variable
        os.environ["PYSPARK_PYTHON"] = str(chosen)
    settings = dict(SETTINGS)
    master = options.get("spark.master") or remote or system.getProperty("spark.master")
    if is_local(str(master or "local")):
        settings |= ARROW
        if "SPARK_LOCAL_IP" not in os.environ:
            settings |= LOCAL_SETTINGS
    for name, value in settings.items():
        variable = name.upper().replace(".", "_")  # Arrow looks for one as well
        if system.getProperty(name) is None and variable not in os.environ:
            system.setProperty(name, value)


def _start(settings: dict[str, str]) -> Any:
    """The JVM, started with these settings unless it runs. SparkSetupError where none starts."""
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkRuntimeError

    running = SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ
    if not running and not has_java():
        raise SparkSetupError(
            "Spark needs Java 17 or later: install one, and set JAVA_HOME if it is not on PATH"
        )
    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    # Spark's launcher refuses to start a JVM for an address of Spark Connect.
    remote = os.environ.pop("SPARK_REMOTE", None)
    try:
        SparkContext._ensure_initialized(conf=conf)
    except PySparkRuntimeError as error:
        version = java_version()
        if version is not None and version < MINIMUM_JAVA:
            raise SparkSetupError(
                f"Spark needs Java {MINIMUM_JAVA} or later and found {version}: set JAVA_HOME to a "
                "newer one"
            ) from None
        raise SparkSetupError(
            f"Spark's JVM did not start; what it printed above says why ({error})"
        ) from None
    finally:
        if remote is not None:
            os.environ["SPARK_REMOTE"] = remote
    return SparkContext._jvm


def _java() -> str | None:
    """The Java that Spark takes: of JAVA_HOME, or `java` on PATH, as its own scripts look."""
    home = os.environ.get("JAVA_HOME")
    if home and Path(home, "bin", "java").exists():
        return str(Path(home, "bin", "java"))
    return shutil.which("java")


def has_java() -> bool:
    """Whether Spark will find a Java."""
    return _java() is not None


def java_version() -> int | None:
    """8, 11, 17, 21, ... of the Java that Spark takes; None where that cannot be told."""
    java = _java()
    if java is None:
        return None
    try:
        told = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=60, check=True
        ).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(?:1\.)?([0-9]{1,3})', told)
    return int(found[1]) if found else None
