"""What the measured queries read: logs, and the same rows as Parquet and as small segments."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from benches.spark.logs import write_log

DEFAULT = [
    "topic",
    "flag",
    "body",
    "brokerName",
    "queueId",
    "queueOffset",
    "bornTimestamp",
    "storeTimestamp",
    "tags",
    "keys",
    "commitLogOffset",
]
"""The columns that a scan builds where none are named."""
COLUMNS = [
    "topic",
    "queueId",
    "queueOffset",
    "commitLogOffset",
    "storeTimestamp",
    "tags",
    "keys",
    "body",
    "properties",
]
"""A scan with the properties as a map."""
STORED = [*DEFAULT, "bodyLength", "properties"]
"""What the Parquet files have."""


def parquet(spark: Any, store: Path, codec: str = "snappy") -> Path:
    """The log's rows as eight Parquet files beside it, made once."""
    folder = store.with_name(f"{store.name}.{codec}.parquet")
    if not (folder / "_SUCCESS").exists():
        shutil.rmtree(folder, ignore_errors=True)
        reader = spark.read.format("rocketmq").option("properties", "map")
        frame = reader.option("columns", ",".join(STORED)).load(str(store))
        frame.repartition(8).write.option("compression", codec).parquet(str(folder))
    return folder


def ten_segments(root: Path, kind: str, nbytes: int) -> Path:
    """A log of ten segments of the same size, written one after the other."""
    return write_log(root, kind, nbytes, segment=nbytes // 10)
