"""Which engine a command takes, `--engine auto|local|spark`, and the Spark session of a job.

The session is the active one, or one with the settings that the source likes. Unix domain sockets
between the JVM and its Python workers take 10 to 20 % off a scan; the workers must run this
interpreter, as they would otherwise take `python3` from PATH.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyrmq.errors import PyrmqError
from spark_ext.jobs.archive_manifest import HEAD
from spark_ext.jobs.early import need_servers
from spark_ext.jobs.engine import Engine, SparkEngine
from spark_ext.jobs.errors import JobError
from spark_ext.jobs.folder import LocalFolder
from spark_ext.jobs.local_read import is_local, local_path, refusal, store_roots

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


ENGINES = ("auto", "local", "spark")
LOCAL_BYTES = 16 << 30
"""Bytes of log up to which `auto` stays in this process: about what it reads while Spark starts,
and some more."""
LOCAL = ("duckdb", "pyarrow")
"""Packages of the engine `local`."""


def choose(
    wanted: str,
    paths: Iterable[str],
    name_server: str | None,
    *,
    outputs: Iterable[str] = (),
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
) -> Engine:
    """The engine for stores or brokers. `outputs` are places of tables; `master` and `settings` are
    Spark's: who names one wants Spark. JobError for what the engine `local` cannot do."""
    paths, outputs = list(paths), list(outputs)
    remote = refusal(paths, name_server) or _far(outputs)
    spark = bool(master or settings)
    if wanted == "local":
        if remote:
            raise JobError(f"the engine local {remote}, or take --engine spark")
        if spark:
            raise JobError(
                "--master and --conf are of Spark: leave them out, or take --engine spark"
            )
    elif wanted == "spark" or spark or remote or not _suits(paths):
        if name_server:
            need_servers(name_server)

        return SparkEngine(session(master=master, settings=settings))
    from spark_ext.jobs.local import LocalEngine

    return LocalEngine()


def _far(outputs: list[str]) -> str | None:
    far = next((path for path in outputs if not is_local(path)), None)
    return None if far is None else f"writes to this machine, not to {far}"


def _suits(paths: list[str]) -> bool:
    """Where only one engine is installed it does the work; else the size says which."""
    if not all(map(importlib.util.find_spec, LOCAL)):
        return False
    return importlib.util.find_spec("pyspark") is None or log_bytes(paths) <= LOCAL_BYTES


def log_bytes(paths: Iterable[str]) -> int:
    """Bytes of the commit logs, or of an archive's Parquet, below some paths of this machine; 0
    where nothing can be read, as the job itself says what is wrong there."""
    total = 0
    paths = list(paths)
    with suppress(PyrmqError):
        paths = store_roots(paths)
    for path in paths:
        place = Path(local_path(path))
        if place.is_file():
            total += place.stat().st_size
            continue
        if (place / HEAD).is_file():
            total += sum(
                size for name, size in LocalFolder(path).sizes("") if name.endswith(".parquet")
            )
            continue
        folder = place / "commitlog"
        folder = folder if folder.is_dir() else place
        try:
            with os.scandir(folder) as entries:
                total += sum(entry.stat().st_blocks * 512 for entry in entries if entry.is_file())
        except OSError:
            continue
    return total
