"""What the measured queries read: logs, and the same rows as Parquet and as small segments."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from benches.spark.logs import write_log

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
"""The columns that both sides have."""


def parquet(spark: Any, store: Path, codec: str = "snappy") -> Path:
    """The log's rows as eight Parquet files beside it, made once."""
    folder = store.with_name(f"{store.name}.{codec}.parquet")
    if not (folder / "_SUCCESS").exists():
        shutil.rmtree(folder, ignore_errors=True)
        frame = spark.read.format("rocketmq").option("columns", ",".join(COLUMNS)).load(str(store))
        frame.repartition(8).write.option("compression", codec).parquet(str(folder))
    return folder


def ten_segments(root: Path, kind: str, nbytes: int) -> Path:
    """A log of ten segments of the same size, written one after the other."""
    return write_log(root, kind, nbytes, segment=nbytes // 10)


def thirty_two_queues(root: Path, kind: str, nbytes: int) -> Path:
    """The usual log: eight topics of four queues are thirty-two queues."""
    return write_log(root, kind, nbytes)
