"""The checkpoint of an archive, in the form that Spark gives it, for the engine `local`.

    offsets/7   where run 7 ends; written before it begins
    commits/7   run 7 is done
    metadata    the id of the query

So an archive that one engine began goes on with the other. [CheckpointFileManager, OffsetSeqLog,
CommitLog, StreamMetadata of Spark]
"""

from __future__ import annotations

import json
import time
import uuid
from typing import Any

from spark_ext.jobs.archive_manifest import CHECKPOINT, highest
from spark_ext.jobs.errors import JobError
from spark_ext.jobs.folder import Folder

KEPT = 100
"""Runs whose entries are kept, as Spark's minBatchesToRetain."""
VERSION = "v1"


class Checkpoint:
    """Where runs begin and end."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def begun(self) -> int:
        """The last run that was begun; -1: none."""
        return highest(self._folder.names(f"{CHECKPOINT}/offsets"))

    def done(self) -> int:
        """The last run that was finished; -1: none."""
        return highest(self._folder.names(f"{CHECKPOINT}/commits"))

    def end_of(self, run: int) -> dict[str, Any]:
        """Where a run ends. JobError for what no query over one source wrote."""
        name = f"{CHECKPOINT}/offsets/{run}"
        where = self._folder.path_of(name)
        if not self._folder.exists(name):
            raise JobError(f"{where} is missing: restore the checkpoint")
        lines = self._folder.read(name).decode("utf-8", "replace").splitlines()
        if not lines or lines[0].strip() != VERSION:
            raise JobError(
                f"{where} has a form that the engine local does not know: take --engine spark"
            )
        try:
            _, _, position = lines
            value = json.loads(position)
        except ValueError:
            value = None
        if not isinstance(value, dict):
            raise JobError(f"{where} has no position of one source")
        return value

    def begin(self, run: int, end: dict[str, Any]) -> None:
        if not self._folder.exists(f"{CHECKPOINT}/metadata"):
            self._create("metadata", json.dumps({"id": str(uuid.uuid4())}))
        now = time.time_ns() // 1_000_000
        query = {"batchWatermarkMs": 0, "batchTimestampMs": now, "conf": {}}
        lines = (VERSION, json.dumps(query, separators=(",", ":")), json.dumps(end))
        self._create(f"offsets/{run}", "\n".join(lines))

    def finish(self, run: int) -> None:
        self._create(f"commits/{run}", f'{VERSION}\n{{"nextBatchWatermarkMs":0}}')
        old = run - KEPT
        for kind in ("offsets", "commits"):
            for name in (f"{CHECKPOINT}/{kind}/{old}", f"{CHECKPOINT}/{kind}/.{old}.crc"):
                self._folder.delete(name)

    def _create(self, name: str, text: str) -> None:
        self._folder.create(f"{CHECKPOINT}/{name}", text.encode())
