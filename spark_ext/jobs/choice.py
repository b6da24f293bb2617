"""Which engine a command takes: `--engine auto|local|spark`."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from spark_ext.jobs.archive_manifest import HEAD
from spark_ext.jobs.early import need_servers
from spark_ext.jobs.engine import Engine, SparkEngine
from spark_ext.jobs.errors import JobError
from spark_ext.jobs.folder import LocalFolder
from spark_ext.jobs.local_read import is_local, local_path, refusal

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
        from spark_ext.jobs.session import session

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
