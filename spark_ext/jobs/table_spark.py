"""`table write --engine spark`: the driver plans and commits, tasks read and write the files.

Tasks use the readers and the Parquet writer of the local engine, in Spark's Python workers: rows
do not pass through the JVM. A task returns the files that it completed and what it counted. The
driver commits those of the attempts that Spark took, in one snapshot. Files of other attempts
(failed, speculative, of a driver that was killed) have the driver's name: they are in no snapshot,
and a later run deletes them.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from pyrmq.escape import escape
from pyrmq.tables import leftovers, names, parquet
from pyrmq.tables.counting import Counted
from pyrmq.tables.ends import Ends
from pyrmq.tables.errors import TableError
from pyrmq.tables.source import STEP_BYTES
from pyrmq.tables.write import Run
from spark_ext.jobs.command import readable_errors
from spark_ext.jobs.engine import SparkEngine
from spark_ext.readers import SegmentPartition
from spark_ext.worker import prepare

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STEPS_OF_A_TASK = 4
"""Steps of the source that a core takes in one commit, about: 1 GiB of the log."""
SPLITS_OF_A_TASK = 4
"""Most splits that one task reads: what a failed one does again."""
FILES_OF_A_TASK = 100_000
"""Numbers for the files of one attempt."""


@dataclass(frozen=True)
class Shared:
    """What all tasks of a commit need. Its text shows nothing, as properties may have secrets."""

    identifier: tuple[str, ...]
    metadata: str
    location: str
    properties: dict[str, Any]
    columns: Any
    commit: str
    process: str
    topic: str

    def __repr__(self) -> str:
        return f"Shared({'.'.join(self.identifier)!r}, commit={self.commit!r})"

    @classmethod
    def of(cls, table: Any, columns: Any, commit: str, topic: str) -> Shared:
        return cls(
            table.name(),
            table.metadata.model_dump_json(),
            table.metadata_location,
            dict(table.io.properties),
            columns,
            commit,
            names.this_process(),
            topic,
        )

    def table(self) -> Any:
        """The table as it was, for its files only: it has no catalog."""
        from pyiceberg.catalog.noop import NoopCatalog
        from pyiceberg.io import load_file_io
        from pyiceberg.table import Table
        from pyiceberg.table.metadata import TableMetadataUtil

        metadata = TableMetadataUtil.parse_raw(self.metadata)
        io = load_file_io(self.properties, self.location)
        return Table(self.identifier, metadata, self.location, io, NoopCatalog("tasks"))


@dataclass(frozen=True)
class Done:
    """What an attempt of a task did."""

    files: list[Any]
    """DataFiles of pyiceberg."""
    counted: Counted
    bytes: int


def write_part(shared: Shared, splits: Iterable[Any], attempt: int) -> Done:
    """The work of a task: reads splits, and writes their rows. What an attempt wrote that fails is
    deleted, as far as it lives to do so."""

    def name(number: int) -> str:
        if number >= FILES_OF_A_TASK:
            raise TableError("too many files in one task", "partition by day and queue only")
        return names.data_file(shared.commit, attempt * FILES_OF_A_TASK + number, shared.process)

    counted = Counted(Ends(shared.topic))
    writer = parquet.Writer(shared.table(), shared.columns, shared.commit, name)
    try:
        for split in splits:
            for batch in split.read():
                counted.add(batch)
                writer.write(batch)
        files = writer.close()
    except BaseException:
        writer.discard()
        raise
    return Done(files, counted, writer.bytes)


class TaskFiles:
    """In the place of a Writer: the files of the tasks of one commit."""

    def __init__(self, table: Any, shared: Shared) -> None:
        self._table = table
        self.shared = shared
        self.files: list[Any] = []
        self.bytes = 0

    def add(self, done: Done) -> None:
        self.files += done.files
        self.bytes += done.bytes

    def write(self, batch: Any) -> None:
        raise NotImplementedError("tasks write the rows")

    def close(self) -> list[Any]:
        """The files. TableError if one of them is not where the driver looks for it."""
        for file in self.files:
            if not self._table.io.new_input(file.file_path).exists():
                raise TableError(
                    f"{escape(file.file_path)} was written by an executor and is not here",
                    "executors on other machines need a place that all of them share: another "
                    "warehouse, or --engine local",
                )
        return self.files

    def discard(self) -> None:
        """Deletes what the tasks wrote for this commit, also what Spark did not take."""
        leftovers.discard(self._table, self.shared.commit)
        self.files, self.bytes = [], 0


class SparkRun(Run):
    """A run whose rows are read and written by tasks."""

    def __init__(self, spark: SparkSession, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._spark = spark
        self._engine = SparkEngine(spark)

    def _writer(self, table: Any, commit: str) -> Any:
        return TaskFiles(table, Shared.of(table, self._columns, commit, self._source.topic))

    def _read(self, start: Any, counted: Counted, writer: Any) -> Any:
        cores = max(1, self._spark.sparkContext.defaultParallelism)
        end = start
        for _ in range(max(STEPS_OF_A_TASK * cores, self._most // STEP_BYTES)):
            before, end = end, self._source.next(end)
            if end == before or self._stop():
                break
        splits = [] if end == start else self._source.splits(start, end)
        for done in self._tasks(writer.shared, splits, cores):
            counted.follow(done.counted)
            writer.add(done)
        return end

    def _tasks(self, shared: Shared, splits: Sequence[Any], cores: int) -> list[Done]:
        """What the tasks did, in the order of the splits."""
        if not splits:
            return []
        each = min(SPLITS_OF_A_TASK, math.ceil(len(splits) / cores))
        parts = [splits[at : at + each] for at in range(0, len(splits), each)]
        context = self._spark.sparkContext
        given = context.broadcast(shared)
        rows = context.parallelize(
            [(number, [SegmentPartition(s) for s in part]) for number, part in enumerate(parts)],
            len(parts),
        )
        context.setJobDescription(f"pyrmq: writes files of {'.'.join(shared.identifier)}")
        try:
            with readable_errors(self._engine):
                done = rows.mapPartitions(_task(given)).collect()
        finally:
            context.setLocalProperty("spark.job.description", cast("str", None))  # removes it
            given.destroy()
        found = {number: pickle.loads(what) for number, what in done}
        return [found[number] for number in range(len(parts))]


def _task(given: Any) -> Callable[[Iterable[Any]], Iterator[tuple[int, bytes]]]:
    def run(rows: Iterable[Any]) -> Iterator[tuple[int, bytes]]:
        from pyspark import TaskContext

        prepare()
        context = TaskContext.get()
        assert context is not None
        for number, part in rows:
            splits = [partition.value for partition in part]
            done = write_part(given.value, splits, context.taskAttemptId())
            yield number, pickle.dumps(done)

    return run
