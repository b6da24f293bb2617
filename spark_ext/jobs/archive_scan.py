"""The files of an archive: what those of a run hold, as its manifest says it (counts by file, queue
and log), and those of this machine as Arrow batches."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from pyrmq.segments.read_options import ReadOptions
from spark_ext.jobs.archive_manifest import File, LogRange, QueueRange, Run
from spark_ext.jobs.engine import schema_of
from spark_ext.jobs.errors import JobError

if TYPE_CHECKING:
    from spark_ext.jobs.folder import Folder

PLACE = ("brokerName", "queueId", "queueOffset", "commitLogOffset", "storeTimestamp")
"""Columns of a file that its counts are made of."""
COUNTED_ROWS = 1 << 17
"""Rows of a file that are counted at a time."""


class Counted(NamedTuple):
    """Rows of one queue; times are ms."""

    brokerName: str
    queueId: int
    rows: int
    first: int
    last: int
    logFirst: int
    logLast: int
    timeFirst: int
    timeLast: int


class Contents:
    """Sums of what is counted, in any number of pieces."""

    def __init__(self) -> None:
        self._files: dict[str, File] = {}
        self._queues: dict[tuple[str, str, int], QueueRange] = {}
        self._log: dict[str, LogRange] = {}

    def add(self, path: str, topic: str, day: str, found: Iterable[Counted]) -> None:
        """Rows of a file; `path` is relative to the archive."""
        for c in found:
            f = self._files.get(path)
            self._files[path] = File(
                path,
                topic,
                day,
                c.rows + (f.rows if f else 0),
                0,
                min(c.timeFirst, f.firstTimestamp) if f else c.timeFirst,
                max(c.timeLast, f.lastTimestamp) if f else c.timeLast,
            )
            key = topic, c.brokerName, c.queueId
            q = self._queues.get(key)
            self._queues[key] = QueueRange(
                *key,
                min(c.first, q.first) if q else c.first,
                max(c.last, q.last) if q else c.last,
                c.rows + (q.rows if q else 0),
            )
            there = self._log.get(c.brokerName)
            self._log[c.brokerName] = LogRange(
                min(c.logFirst, there.first) if there else c.logFirst,
                max(c.logLast, there.last) if there else c.logLast,
            )

    def run(self, number: int, sizes: Mapping[str, int]) -> Run:
        """The manifest. `sizes`: bytes of the files, by the same paths."""
        files = [
            File(**{**vars(self._files[path]), "fileBytes": sizes[path]})
            for path in sorted(self._files)
        ]
        return Run(
            run=number,
            finished=datetime.now(UTC).isoformat(timespec="milliseconds"),
            rows=sum(f.rows for f in files),
            fileBytes=sum(f.fileBytes for f in files),
            log=self._log,
            queues=[self._queues[key] for key in sorted(self._queues)],
            files=files,
        )


def counted(table: Any) -> list[Counted]:
    """By queue, of a pyarrow.Table with the columns PLACE."""
    import pyarrow

    place = table.column_names.index("storeTimestamp")
    micros = table.column(place).cast(pyarrow.int64())
    grouped = table.set_column(place, "storeTimestamp", micros).group_by(["brokerName", "queueId"])
    spans = [(name, how) for name in PLACE[2:] for how in ("min", "max")]
    sums = grouped.aggregate([("queueOffset", "count"), *spans])
    return [
        Counted(
            row["brokerName"], row["queueId"], row["queueOffset_count"],
            row["queueOffset_min"], row["queueOffset_max"],
            row["commitLogOffset_min"], row["commitLogOffset_max"],
            row["storeTimestamp_min"] // 1000, row["storeTimestamp_max"] // 1000,
        )
        for row in sums.to_pylist()
    ]  # fmt: skip


def of_files(root: str, paths: Sequence[str]) -> Contents:
    """Of Parquet files on this machine: five narrow columns are read, bodies are not."""
    from pyarrow.parquet import ParquetFile

    contents = Contents()
    for path in paths:
        topic, day = partitions(path)
        with ParquetFile(os.path.join(root, path)) as file:
            for table in _tables(file.iter_batches(COUNTED_ROWS, columns=list(PLACE))):
                contents.add(path, topic, day, counted(table))
    return contents


def _tables(batches: Iterable[Any]) -> Iterator[Any]:
    import pyarrow

    for batch in batches:
        table = pyarrow.Table.from_batches([batch])
        # Spark and pyarrow write times in microseconds; what others wrote is read as such.
        place = table.column_names.index("storeTimestamp")
        times = table.column(place).cast(pyarrow.timestamp("us", "UTC"))
        yield table.set_column(place, "storeTimestamp", times)


_ESCAPED = re.compile("%([0-9A-Fa-f]{2})")
_SPECIAL = re.compile(r'[\x01-\x1f"#%\'*/:=?\\\x7f{\[\]^]')
NOTHING = "__HIVE_DEFAULT_PARTITION__"
"""Name of the folder of an empty value."""


def escaped(value: str) -> str:
    """A value as part of a folder's name. [ExternalCatalogUtils.escapePathName of Spark]"""
    return _SPECIAL.sub(lambda found: f"%{ord(found[0]):02X}", value) or NOTHING


def partitions(path: str) -> tuple[str, str]:
    """Topic and day, by the folders of a file's path in the archive."""
    values = dict(part.partition("=")[::2] for part in path.split("/"))
    try:
        topic, day = values["topic"], values["day"]
    except KeyError:
        raise JobError(f"{path} is no file of an archive") from None
    plain = "" if topic == NOTHING else topic
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), plain), day


ROWS = 10_000


def schema(columns: Sequence[str]) -> Any:
    """The pyarrow schema of these columns, as the engine builds them from a log; JobError for one
    that is unknown."""
    schema_of(columns)
    return ReadOptions(columns=tuple(columns)).schema()


class StoredScan:
    """Rows of some files: the columns, run (int), day (date), with `paths` also path."""

    def __init__(
        self, folder: Folder, names: Sequence[str], columns: Sequence[str], paths: bool
    ) -> None:
        import pyarrow

        self._folder, self._names = folder, names
        self._own = schema(columns)
        self.schema = self._own
        said = [("run", pyarrow.int32()), ("day", pyarrow.date32()), ("path", pyarrow.string())]
        for name, kind in said if paths else said[:2]:
            self.schema = self.schema.append(pyarrow.field(name, kind))

    def to_reader(self) -> Iterator[Any]:
        """JobError for a file that cannot be read; it names it."""
        import pyarrow
        from pyarrow.parquet import ParquetFile

        inside = [name for name in self._own.names if name != "topic"]
        for name in self._names:
            path = self._folder.path_of(name)
            try:
                # With no column at all a file has its rows all the same.
                with ParquetFile(path) as file:
                    for batch in file.iter_batches(ROWS, columns=inside):
                        yield self._completed(name, batch)
            except (pyarrow.ArrowException, OSError, KeyError) as error:
                text = str(error).splitlines()[0] if str(error) else repr(error)
                raise JobError(f"{path} cannot be read: {text}") from error

    def _completed(self, name: str, batch: Any) -> Any:
        import pyarrow

        topic, day = partitions(name)
        run = int(name.partition("/")[0].removeprefix("run="))
        said = {
            "topic": topic, "run": run, "day": date.fromisoformat(day), "path": quote(name),
        }  # fmt: skip
        arrays = []
        for field in self.schema:
            if field.name in said:
                value = pyarrow.scalar(said[field.name], field.type)
                arrays.append(pyarrow.repeat(value, batch.num_rows))
            else:
                arrays.append(batch.column(field.name).cast(field.type))
        return pyarrow.record_batch(arrays, schema=self.schema)
