"""Which engine writes a table: this process, or Spark."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyrmq.tables.source import StoreSource
from spark_ext.jobs.choice import LOCAL_BYTES, session
from spark_ext.jobs.errors import JobError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pyrmq.tables.ends import Ends


def chosen(
    wanted: str,
    source: Any,
    ends: Ends | None,
    *,
    decodes: bool,
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
) -> SparkSession | None:
    """The session of --engine spark; None: the rows are written in this process. `auto` takes Spark
    if more than 16 GiB of the logs are not in the table. JobError for what cannot be."""
    asked = bool(master or settings)
    if wanted == "local":
        if asked:
            raise JobError(
                "--master and --conf are of Spark: leave them out, or take --engine spark"
            )
        return None
    if wanted == "spark" or asked:
        if decodes:
            raise JobError("--body is decoded in this process: leave out --engine, or --body")
        return session("pyrmq table", master=master, settings=settings)
    if decodes or not isinstance(source, StoreSource) or not _has_spark():
        return None
    if source.left(source.start(ends)) <= LOCAL_BYTES:
        return None
    return session("pyrmq table")


def _has_spark() -> bool:
    if importlib.util.find_spec("pyspark") is None:
        return False
    from spark_ext.setup import has_java

    return has_java()
