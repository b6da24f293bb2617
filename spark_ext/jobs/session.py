"""The Spark session of a job: the active one, or one with the settings that the source likes.

Unix domain sockets between the JVM and its Python workers take 10 to 20 % off a scan; the workers
must run this interpreter, as they would otherwise take `python3` from PATH.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from spark_ext.jobs.errors import JobError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
}
"""What a new session gets; `settings` of `session` win."""
LOCAL_SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "8",
}
"""What a new session on this machine alone gets as well."""


def session(
    app: str = "pyrmq", *, master: str | None = None, settings: Mapping[str, str] | None = None
) -> SparkSession:
    """The active session, or a new one; the source is found by its name in both.

    `master` (default: SPARK_MASTER or `local[*]`) and `settings` are for a new one; JobError when
    there is an active one and they ask for something else, or when Spark or Java is missing.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as e:
        raise JobError(
            f"PySpark is not installed ({e}): pip install 'pyrmq-broker[spark]'"
        ) from None
    from spark_ext.setup import has_java  # needs PySpark itself

    active = SparkSession.getActiveSession()
    if active is not None:
        _refuse_changes(active, master, settings or {})
        return active
    if not has_java():
        raise JobError(
            "Spark needs Java 17 or later: install one, and set JAVA_HOME if it is not on PATH"
        )
    master = master or os.environ.get("SPARK_MASTER") or "local[*]"
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(app).master(master)
    chosen = {**SETTINGS, **(LOCAL_SETTINGS if master.startswith("local") else {})}
    for name, value in {**chosen, **(settings or {})}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def activate(spark: SparkSession) -> None:
    """Makes a session the active one of this thread. Only there does Spark look for the formats of
    Python sources when it writes; a thread that did not make the session has none."""
    from pyspark.sql import SparkSession as Class

    jvm: Any = spark._jvm
    Class._get_j_spark_session_class(jvm).setActiveSession(spark._jsparkSession)


def _refuse_changes(active: SparkSession, master: str | None, settings: Mapping[str, str]) -> None:
    if master not in (None, active.sparkContext.master):
        raise JobError(
            f"a session on {active.sparkContext.master} is active: stop it to use {master}"
        )
    for name, value in settings.items():
        if active.conf.get(name, None) != value:
            raise JobError(f"a session is active and has not {name}={value}: set it there")
