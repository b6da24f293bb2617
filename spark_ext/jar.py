"""The reader in Spark's JVM: where its jar is, whether it fits, and whether a session has it.

The jar is a file of the package. It knows the format `rocketmq` by itself, so a session that has it
on its class path reads with it; without it Spark finds the source in Python of the same name.
"""

from __future__ import annotations

import os
import platform
import re
import shlex
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyrmq import __version__
from spark_ext.errors import SparkSetupError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LINES = ("4.1", "4.2", "4.3")
"""Versions of Spark that the jar is built and tested for."""
PATH = Path(__file__).parent / "jars" / "pyrmq-spark.jar"
LIBRARY = "native/linux-{}/libpyrmq_jvm.so"
"""The native library for a machine, in the jar."""
READERS = ("auto", "jvm", "python")
_CLASS = "pyrmq.spark.RocketMQSource"
_SETTING = "spark.jars"


def path() -> str:
    """The jar's path, for `spark-submit --jars`. SparkSetupError if this package has none."""
    if not PATH.is_file():
        raise SparkSetupError(
            "this installation has no jar for Spark's JVM: in a checkout, `make jar` builds it "
            "(with a Rust toolchain, Java 17 and Maven); then build or install the wheel again"
        )
    return str(PATH)


def why_not(spark_version: str) -> str | None:
    """Why the jar cannot be used on this machine with that Spark; None if it can."""
    if not PATH.is_file():
        return "this installation has no jar (in a checkout, `make jar` builds it)"
    line = ".".join(spark_version.split(".")[:2])
    if line not in LINES:
        return f"the jar is for Spark {', '.join(LINES)}, this is Spark {spark_version}"
    library = LIBRARY.format(platform.machine())
    if platform.system() != "Linux" or platform.libc_ver()[0] != "glibc":
        return "the jar's native library is for Linux with glibc"
    with zipfile.ZipFile(PATH) as jar:
        if library not in jar.namelist():
            return f"the jar has no native library for {platform.machine()}"
    return None


def settings(reader: str, options: dict[str, Any]) -> dict[str, str]:
    """What starts a new JVM with the jar; {} where the source in Python reads.

    `options`: those of the builder. A list of jars that the user has, of the builder or of
    spark-defaults.conf, stays: the jar comes behind it.
    """
    if reader not in READERS:
        raise SparkSetupError(f"reader: {reader!r}, expected {', '.join(READERS)}")
    if reader == "python":
        return {}
    import pyspark

    reason = why_not(pyspark.__version__) or _submit_args_have_jars()
    if reason is None:
        theirs = str(options.get(_SETTING) or _of_defaults(_SETTING) or "")
        jars = [part for part in theirs.split(",") if part.strip()]
        return {_SETTING: ",".join([*jars, str(PATH)])}
    if reader == "jvm":
        raise SparkSetupError(f"the reader in Spark's JVM cannot be used: {reason}")
    return {}


def reader_of(spark: SparkSession) -> str:
    """`jvm` if the session has the jar, else `python`: who reads `format("rocketmq")`."""
    jvm = getattr(spark, "_jvm", None)
    if jvm is None:  # Spark Connect: the server's class path is not seen from here
        return "python"
    loader = jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader()
    return "python" if loader.getResource(f"{_CLASS.replace('.', '/')}.class") is None else "jvm"


def check_version(spark: SparkSession) -> None:
    """SparkSetupError where the session's jar is of another version than this package."""
    jvm: Any = spark._jvm
    loader = jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader()
    version = loader.loadClass(_CLASS).getPackage().getImplementationVersion()
    if version != __version__:
        raise SparkSetupError(
            f"the session has the jar of pyrmq-broker {version}, this package is {__version__}: "
            "take the jar that `python -m spark_ext` prints"
        )


def _submit_args_have_jars() -> str | None:
    """Jars of PYSPARK_SUBMIT_ARGS replace those of the setting, so ours would be lost."""
    words = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", ""))
    if any(word == "--jars" or word.startswith("--jars=") for word in words):
        return f"PYSPARK_SUBMIT_ARGS has --jars: add {PATH} to that list"
    return None


def _of_defaults(name: str) -> str | None:
    """A setting of spark-defaults.conf, which what a builder sets would replace."""
    folder = os.environ.get("SPARK_CONF_DIR")
    if folder is None:
        from pyspark.find_spark_home import _find_spark_home

        folder = str(Path(str(_find_spark_home()), "conf"))
    try:
        text = Path(folder, "spark-defaults.conf").read_text("utf-8", "replace")
    except OSError:
        return None
    found = None
    for line in text.splitlines():
        match = re.match(r"\s*([^\s=:#!]+)\s*[=:\s]\s*(.*\S)", line)
        if match and match[1] == name:
            found = match[2]
    return found
