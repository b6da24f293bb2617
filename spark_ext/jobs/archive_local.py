"""Writing an archive in this process: runs as a streaming query of Spark has them.

Where a run ends is in the checkpoint before it begins; a run that did not finish is made again up
to the same place."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyrmq.segments.scan import Scan
from spark_ext import selecting
from spark_ext.jobs import archive_scan
from spark_ext.jobs.archive_manifest import (
    CHECKPOINT,
    Archived,
    Head,
    Manifest,
    Run,
    brief,
    finish,
    highest,
    opened_for_writing,
)
from spark_ext.jobs.archive_write import RunWriter
from spark_ext.jobs.errors import JobError
from spark_ext.jobs.folder import Folder, LocalFolder
from spark_ext.option import Query
from spark_ext.option_names import option_names
from spark_ext.options import Options
from spark_ext.pace import Pace
from spark_ext.schema import form_of

if TYPE_CHECKING:
    from collections.abc import Iterator


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


SHORTEST = 0.1
"""Seconds between two looks at a log that is followed, at least."""


class Stream:
    """Positions of a log, and what lies between two of them."""

    @option_names()
    def __init__(
        self, options: Mapping[str, str], paths: Sequence[str], columns: Sequence[str]
    ) -> None:
        self.schema = archive_scan.schema(columns)
        named = {"path": paths[0]} if len(paths) == 1 else {}
        self._given = given = Options({**options, **named}, Query.STREAM)
        if given.is_set("columns"):
            raise JobError("--columns names the columns of an archive: leave out -o columns")
        if form_of(given) != "map" and "properties" in columns:
            raise JobError("an archive has properties as a map: leave out -o properties")
        self._how = selecting.build(given, tuple(columns), "map")
        self._planner = selecting.planner(given, selecting.selection(given), self._how)
        self._pace = Pace.of(given)

    def pin(self) -> None:
        """Everything that is there now is read, and nothing that comes later."""
        self._pace.pin()
        self._planner.pin()

    @option_names()
    def initial(self) -> dict[str, Any]:
        return self._planner.initial()

    @option_names()
    def latest(self, start: dict[str, Any]) -> dict[str, Any]:
        """Where a run that begins there ends."""
        if self._pace.holds(lambda wanted: self._planner.count(start, wanted)):
            return start
        return self._planner.latest(
            start,
            max_offsets=self._given["maxOffsetsPerTrigger"],
            max_bytes=self._given["maxBytesPerTrigger"],
        )

    def batches(self, start: dict[str, Any], end: dict[str, Any]) -> Iterator[Any]:
        with option_names():
            yield from Scan(self._planner.splits(start, end), self._how).to_reader()


def archive_stream(
    stream: Stream, root: str, head: Head, *, codec: str = "snappy", follow: float | None = None
) -> Archived:
    """Adds what a stream with the columns of `head` has."""
    manifest = Manifest(LocalFolder(root))
    with opened_for_writing(manifest, head, codec):
        checkpoint = Checkpoint(manifest.folder)
        added: list[Run] = []
        if follow is None:
            stream.pin()
        try:
            while True:
                _catch_up(stream, manifest, checkpoint, codec, added)
                if follow is None:
                    break
                time.sleep(max(follow, SHORTEST))
        except KeyboardInterrupt:
            if follow is None:
                raise
    return Archived(root, added)


def _catch_up(
    stream: Stream, manifest: Manifest, checkpoint: Checkpoint, codec: str, added: list[Run]
) -> None:
    """Makes runs until there is nothing to read."""
    number, begun = checkpoint.done() + 1, checkpoint.begun()
    start = checkpoint.end_of(number - 1) if number else stream.initial()
    while True:
        if number <= begun:
            end = checkpoint.end_of(number)
        else:
            end = stream.latest(start)
            # The first run is made of an empty log, too.
            if end == start and number:
                return
            checkpoint.begin(number, end)
        if not manifest.has(number):
            run = _write_run(stream, start, end, number, manifest, codec)
            if run.rows:
                added.append(brief(run))
        checkpoint.finish(number)
        number, start = number + 1, end


def _write_run(
    stream: Stream,
    start: dict[str, Any],
    end: dict[str, Any],
    number: int,
    manifest: Manifest,
    codec: str,
) -> Run:
    folder, data = manifest.folder, manifest.data(number)
    folder.delete(data)
    with RunWriter(folder.path_of(""), data, stream.schema, codec) as writer:
        for batch in stream.batches(start, end):
            writer.write(batch)
    run = writer.contents.run(number, writer.sizes)
    finish(manifest, run)
    return run
